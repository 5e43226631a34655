// defineTool: a LangChain tool that dispatches itself, wherever it is called from.
import { ToolMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  StructuredTool,
  ToolInputParsingException,
  type ToolRunnableConfig,
  type ToolSchemaBase,
} from "@langchain/core/tools";
import { isCommand } from "@langchain/langgraph";
import { diag } from "@opentelemetry/api";
import { ATTR, type Gate, SPAN, withSpan } from "@reprise/tracing";
import type { z } from "zod";
import { checkDefinition } from "./define-tool-check.ts";
import { statusSchema, statusSpec } from "./define-tool-status.ts";
import { dispatch } from "./dispatch.ts";
import { createWarnOnce, type Lookup, type ToolContext, type ToolSpec } from "./dispatch-call.ts";
import { toolSpan } from "./dispatch-span.ts";
import type { EffectPolicy } from "./effect.ts";
import { toJson } from "./effect-result.ts";
import { messageOf } from "./errors.ts";
import { noCallId } from "./langgraph/barrier.ts";
import { effectScope } from "./langgraph/scope.ts";
import type { ProviderProfile } from "./profiles.ts";
import { contentOf, doneReply, failedReply, statusToolName } from "./reply.ts";

/** What the dispatcher must know of a tool, however its body came about. */
export interface EffectOptions<Value> {
  readonly effect: EffectPolicy;
  /** What the provider promises about keys. Default for `keyed`: the IETF header, retention unknown. */
  readonly profile?: ProviderProfile;
  /** Default 30,000. After it the signal fires and the outcome is unknown. */
  readonly timeoutMs?: number;
  /** Finds the effect by its key. Required for `lookup`; with it the tool gets `get_<name>_status({ call })` for free. */
  readonly lookup?: Lookup;
  /** The effect's own name in a result, such as `ch_...`; stands on the span and in the ledger. Write it after `run`. */
  readonly effectRef?: (value: Value) => string | undefined;
  /**
   * The text the model reads for a value. Given the value as JSON brings it back, at the first execution and at every replay, so
   * that both read the same. Default: a string as it is, anything else as JSON. Write it after `run`.
   */
  readonly message?: (value: Value) => string;
}

export interface ToolDefinition<Schema extends z.ZodObject, Value = unknown> extends EffectOptions<Value> {
  /** Unique in the agent, `[A-Za-z0-9_-]`; spans are named after it. */
  readonly name: string;
  readonly description: string;
  /** The model's arguments. A call that does not fit is told so, with the path; nothing is claimed. */
  readonly schema: Schema;
  /**
   * What makes two calls the same wish, for marking echoes: names of arguments, or what a function makes of them. Leave out what a
   * model rewords, such as a memo. Never part of the key, and nothing is suppressed by it. Default: all arguments.
   */
  readonly identity?: readonly (keyof z.output<Schema> & string)[] | ((args: z.output<Schema>) => unknown);
  /** Its value is told to the model. It must survive JSON to be replayed. */
  readonly run: (args: z.output<Schema>, context: ToolContext) => Promise<Value>;
}

const TIMEOUT_MS = 30_000;

/** Throws INVALID_TOOL for a definition that could not keep its promise. */
export function defineTool<Schema extends z.ZodObject, Value>(definition: ToolDefinition<Schema, Value>): EffectTool {
  const { name, description, schema, identity } = definition;
  return createEffectTool(definition, {
    name,
    description,
    schema,
    takes: "parsed",
    // The base class has parsed the arguments with this very schema before the dispatcher sees them.
    ...(identity === undefined ? {} : { identity: (args) => identityOf(args as z.output<Schema>, identity) }),
    run: (args, context) => definition.run(args as z.output<Schema>, context),
  });
}

function identityOf<Args extends object>(
  args: Args,
  identity: readonly (keyof Args & string)[] | ((args: Args) => unknown),
): unknown {
  if (typeof identity === "function") return identity(args);
  return Object.fromEntries(identity.map((name) => [name, args[name]]));
}

/** A body with its name and schema: what differs between a tool of our own and one that is wrapped. */
export interface ToolBody extends Pick<ToolSpec, "name" | "takes" | "identity" | "run"> {
  readonly description: string;
  readonly schema: ToolSchemaBase;
}

export function createEffectTool<Value>(options: EffectOptions<Value>, body: ToolBody): EffectTool {
  const { effect, lookup, profile, effectRef, message, timeoutMs = TIMEOUT_MS } = options;
  const { description, schema, ...own } = body;
  const { name } = own;
  checkDefinition({ name, effect, lookup, profile, timeoutMs });
  const warnOnce = createWarnOnce(name, (text) => diag.warn(text));
  const spec: ToolSpec = {
    ...own,
    effect,
    timeoutMs,
    warnOnce,
    ...(profile === undefined ? {} : { profile }),
    ...(lookup === undefined ? {} : { lookup, statusTool: statusToolName(name) }),
    // The dispatcher asks both about what this very body returned.
    ...(effectRef === undefined ? {} : { effectRef: (value) => effectRef(value as Value) }),
    ...(message === undefined ? {} : { message: (value) => wordsFor(value as Value, message, warnOnce) }),
  };
  const status = lookup === undefined ? undefined : statusTool(name, { timeoutMs, warnOnce, lookup });
  return new EffectTool({ spec, description, schema, status });
}

// The effect stands: words that fail are replaced, never thrown.
function wordsFor<Value>(value: Value, message: (value: Value) => string, warnOnce: ToolSpec["warnOnce"]): string {
  try {
    return message(value);
  } catch (error) {
    warnOnce("faulty_message", `its message threw, so the value is told as it is: ${messageOf(error)}`);
    return contentOf(toJson(value));
  }
}

/** The tool and, when it has a lookup, its companion: what to bind to the model and to give to the tool node. */
export function toolsOf(tool: EffectTool): readonly EffectTool[] {
  return tool.status === undefined ? [tool] : [tool, tool.status];
}

function statusTool(name: string, parts: Parameters<typeof statusSpec>[1]): EffectTool {
  const description = `Says what became of an earlier ${name} call whose outcome is unknown. Changes nothing.`;
  return new EffectTool({ spec: statusSpec(name, parts), description, schema: statusSchema, status: undefined });
}

interface EffectToolParts {
  readonly spec: ToolSpec;
  readonly description: string;
  readonly schema: ToolSchemaBase;
  readonly status: EffectTool | undefined;
}

/** Made by `defineTool` and `wrapTool`. Innermost by construction, so retry and error middleware around it never see a tool's own failure. */
export class EffectTool extends StructuredTool {
  readonly name: string;
  readonly description: string;
  readonly schema: ToolSchemaBase;
  /** The companion that looks an effect up. */
  readonly status: EffectTool | undefined;
  readonly #spec: ToolSpec;

  constructor(parts: EffectToolParts) {
    super();
    this.name = parts.spec.name;
    this.description = parts.description;
    this.schema = parts.schema;
    this.status = parts.status;
    this.#spec = parts.spec;
  }

  get effect(): EffectPolicy {
    return this.#spec.effect;
  }

  // Arguments that do not fit the schema are a reply of ours; thrown, a ToolNode would dress them in its own words.
  override call(...args: Parameters<StructuredTool["call"]>): ReturnType<StructuredTool["call"]> {
    const call = toolCallOf(args[1]);
    if (call?.id === undefined && this.#spec.effect !== "none") return Promise.reject(noCallId(this.name));
    return super.call(...args).catch((error: unknown) => {
      if (!(error instanceof ToolInputParsingException) || call?.id === undefined) throw error;
      return this.#refuseArgs({ id: call.id, args: call.args }, error, gateOf(args[1]));
    });
  }

  protected override _call(parsed: unknown, _manager?: unknown, config?: RunnableConfig): Promise<unknown> {
    const call = toolCallOf(config);
    const id = call?.id;
    const request = { id, args: call?.args ?? parsed, parsed };
    const answer = dispatch({ spec: this.#spec, call: request, config: config ?? {} });
    // A call with an effect is answered by a message already.
    if (id === undefined || this.#spec.effect !== "none") return answer;
    return answer.then((value) => this.#replyOf(value, id));
  }

  // Messages and Commands pass untouched; anything else is a read's value, told as the tool's own words.
  #replyOf(value: unknown, toolCallId: string): unknown {
    if (ToolMessage.isInstance(value) || isCommand(value)) return value;
    const { message } = this.#spec;
    return doneReply(
      { toolCallId, tool: this.name, ...(message === undefined ? {} : { text: message }) },
      toJson(value),
    );
  }

  #refuseArgs(call: { id: string; args: unknown }, error: Error, gate: Gate | undefined): Promise<ToolMessage> {
    const { id, args } = call;
    const attributes = { [ATTR.toolName]: this.name, [ATTR.toolCallId]: id, [ATTR.toolPolicy]: this.#spec.effect };
    return withSpan(SPAN.tool(this.name), { attributes }, (span) => {
      const say = toolSpan(span, gate);
      say.args(args);
      say.ended({ outcome: "failed", reason: "invalid_arguments", error });
      return failedReply({ toolCallId: id, tool: this.name }, error.message);
    });
  }
}

interface CallInConfig {
  readonly id: string | undefined;
  readonly args: unknown;
}

// LangChain puts the model's call into the config under which it runs a tool.
function toolCallOf(config: unknown): CallInConfig | undefined {
  if (typeof config !== "object" || config === null || !("toolCall" in config)) return undefined;
  const { toolCall } = config as ToolRunnableConfig;
  if (toolCall === undefined) return undefined;
  const id = toolCall.id === "" ? undefined : toolCall.id;
  return { id, args: toolCall.args };
}

function gateOf(config: unknown): Gate | undefined {
  if (typeof config !== "object" || config === null || !("configurable" in config)) return undefined;
  const { configurable } = config as ToolRunnableConfig;
  return configurable === undefined ? undefined : effectScope({ configurable })?.gate;
}
