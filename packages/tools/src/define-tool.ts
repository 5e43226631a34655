// defineTool: a LangChain tool that dispatches itself, wherever it is called from.
import { ToolMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import { StructuredTool, ToolInputParsingException, type ToolRunnableConfig } from "@langchain/core/tools";
import { isCommand } from "@langchain/langgraph";
import { ATTR, type Gate, SPAN, withSpan } from "@reprise/tracing";
import type { z } from "zod";
import { statusSchema, statusSpec } from "./define-tool-status.ts";
import { dispatch } from "./dispatch.ts";
import type { Lookup, ToolContext, ToolSpec } from "./dispatch-call.ts";
import { toolSpan } from "./dispatch-span.ts";
import type { EffectPolicy } from "./effect.ts";
import { toJson } from "./effect-result.ts";
import { ToolsError } from "./errors.ts";
import { noCallId } from "./langgraph/barrier.ts";
import { effectScope } from "./langgraph/scope.ts";
import type { ProviderProfile } from "./profiles.ts";
import { doneReply, failedReply, statusToolName } from "./reply.ts";

export interface ToolDefinition<Schema extends z.ZodObject, Value = unknown> {
  /** Unique in the agent, `[A-Za-z0-9_-]`; spans are named after it. */
  readonly name: string;
  readonly description: string;
  /** The model's arguments. A call that does not fit is told so, with the path; nothing is claimed. */
  readonly schema: Schema;
  readonly effect: EffectPolicy;
  /** What the provider promises about keys. Default for `keyed`: the IETF header, retention unknown. */
  readonly profile?: ProviderProfile;
  /** Default 30,000. After it the signal fires and the outcome is unknown. */
  readonly timeoutMs?: number;
  /** Finds the effect by its key. Required for `lookup`; with it the tool gets `get_<name>_status({ call })` for free. */
  readonly lookup?: Lookup;
  /** Its value is told to the model: a string as it is, anything else as JSON. It must survive JSON to be replayed. */
  readonly run: (args: z.output<Schema>, context: ToolContext) => Promise<Value>;
  /** The effect's own name in a result, such as `ch_...`; stands on the span and in the ledger. Write it after `run`. */
  readonly effectRef?: (value: Value) => string | undefined;
}

const TIMEOUT_MS = 30_000;

/** Throws INVALID_TOOL for a definition that could not keep its promise. */
export function defineTool<Schema extends z.ZodObject, Value>(definition: ToolDefinition<Schema, Value>): EffectTool {
  const { name, lookup, profile, effectRef } = definition;
  checkDefinition({ name, effect: definition.effect, lookup, profile, timeoutMs: definition.timeoutMs });
  const timeoutMs = definition.timeoutMs ?? TIMEOUT_MS;
  const spec: ToolSpec = {
    name,
    effect: definition.effect,
    timeoutMs,
    ...(profile === undefined ? {} : { profile }),
    ...(lookup === undefined ? {} : { lookup, statusTool: statusToolName(name) }),
    // The dispatcher asks it about what this very run returned.
    ...(effectRef === undefined ? {} : { effectRef: (value) => effectRef(value as Value) }),
    // The base class has parsed the arguments with this very schema before the dispatcher sees them.
    run: (args, context) => definition.run(args as z.output<Schema>, context),
  };
  const status = lookup === undefined ? undefined : statusTool(name, timeoutMs, lookup);
  return new EffectTool({ spec, description: definition.description, schema: definition.schema, status });
}

/** The tool and, when it has a lookup, its companion: what to bind to the model and to give to the tool node. */
export function toolsOf(tool: EffectTool): readonly EffectTool[] {
  return tool.status === undefined ? [tool] : [tool, tool.status];
}

function statusTool(name: string, timeoutMs: number, lookup: Lookup): EffectTool {
  const description = `Says what became of an earlier ${name} call whose outcome is unknown. Changes nothing.`;
  return new EffectTool({
    spec: statusSpec(name, timeoutMs, lookup),
    description,
    schema: statusSchema,
    status: undefined,
  });
}

interface CheckedParts {
  readonly name: string;
  readonly effect: EffectPolicy;
  readonly lookup: Lookup | undefined;
  readonly profile: ProviderProfile | undefined;
  readonly timeoutMs: number | undefined;
}

function checkDefinition({ name, effect, lookup, profile, timeoutMs }: CheckedParts): void {
  const refuse = (why: string): ToolsError => new ToolsError("INVALID_TOOL", `Tool ${name} cannot be defined: ${why}`);
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) throw refuse("its name must be 1 to 64 of A-Z a-z 0-9 _ -.");
  if (effect === "lookup" && lookup === undefined) throw refuse("effect lookup needs a lookup function.");
  if (timeoutMs !== undefined && !(timeoutMs > 0)) throw refuse("timeoutMs must be above 0.");
  const keyLength = profile?.format === "uuid" ? 36 : 32;
  const lengthMax = profile?.maxLength ?? "unknown";
  if (lengthMax !== "unknown" && lengthMax < keyLength) {
    throw refuse(`keys have ${keyLength} characters and the profile takes ${lengthMax}.`);
  }
}

interface EffectToolParts {
  readonly spec: ToolSpec;
  readonly description: string;
  readonly schema: z.ZodObject;
  readonly status: EffectTool | undefined;
}

/** Made by `defineTool`. Innermost by construction, so retry and error middleware around it never see a tool's own failure. */
export class EffectTool extends StructuredTool {
  readonly name: string;
  readonly description: string;
  readonly schema: z.ZodObject;
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
  override async call(...args: Parameters<StructuredTool["call"]>): ReturnType<StructuredTool["call"]> {
    const call = toolCallOf(args[1]);
    if (call?.id === undefined && this.#spec.effect !== "none") throw noCallId(this.name);
    try {
      return await super.call(...args);
    } catch (error) {
      if (!(error instanceof ToolInputParsingException) || call?.id === undefined) throw error;
      return this.#refuseArgs({ id: call.id, args: call.args }, error, gateOf(args[1]));
    }
  }

  protected override async _call(parsed: unknown, _manager?: unknown, config?: RunnableConfig): Promise<unknown> {
    const call = toolCallOf(config);
    const id = call?.id;
    const request = { id, args: call?.args ?? parsed, parsed };
    const value = await dispatch({ spec: this.#spec, call: request, config: config ?? {} });
    // Messages and Commands pass untouched; anything else is a read's value, told as the tool's own words.
    if (id === undefined || ToolMessage.isInstance(value) || isCommand(value)) return value;
    return doneReply({ toolCallId: id, tool: this.name }, toJson(value));
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
