// What a tool is to the dispatcher, and what a body is given.
import type { RunnableConfig } from "@langchain/core/runnables";
import type { BodyStop } from "./dispatch-body.ts";
import type { EffectPolicy } from "./effect.ts";
import { keyUuid, subKey } from "./key.ts";
import type { ProviderProfile } from "./profiles.ts";

/** Given to a tool's body. The keys throw INVALID_KEY_PART when the call has no id or thread (only possible with effect `none`). */
export interface ToolContext {
  /** 32 hex digits; the same for every execution of this call, in every process. */
  readonly key: string;
  /** The same key in the form of a version 4 UUID. */
  readonly keyUuid: string;
  /** The key of one of several writes of this call; the label is fixed in the tool's code. */
  subKey(label: string): string;
  /** Fires at the tool's timeout and when the run stops. Pass it on. */
  readonly signal: AbortSignal;
  /** Sets the key where the profile says and keeps what the wire proves. Use it for every request of the body. */
  readonly fetch: typeof globalThis.fetch;
  readonly threadId: string | undefined;
  readonly toolCallId: string | undefined;
  /** LangGraph's count, 1-based. */
  readonly nodeAttempt: number;
}

/** What looking an effect up by its key can say. `absent` is never a licence to send again. */
export type LookupResult =
  | { readonly status: "found"; readonly value: unknown; readonly effectRef?: string }
  | { readonly status: "absent" }
  | { readonly status: "unclear"; readonly detail: string };

/** Reads only. `firstClaimAtMs` says how far back to look. */
export type Lookup = (
  context: Pick<ToolContext, "key" | "keyUuid" | "subKey" | "signal" | "fetch"> & { readonly firstClaimAtMs: number },
) => Promise<LookupResult>;

/** What a tool does that nothing of ours can mend. Few words, so that a tool's memory of its warnings is bounded. */
export type ToolFault = "key_not_sent" | "command_refused" | "faulty_identity" | "faulty_message";

/** One memory a tool: a fault in a loop is said once, not a thousand times. */
export function createWarnOnce(tool: string, warn: (text: string) => void): ToolSpec["warnOnce"] {
  const said = new Set<ToolFault>();
  return (what, text) => {
    if (said.has(what)) return;
    said.add(what);
    warn(`tool ${tool}: ${text}`);
  };
}

/** A tool as the dispatcher sees it: checked and with its defaults filled in. */
export interface ToolSpec {
  readonly name: string;
  readonly effect: EffectPolicy;
  readonly timeoutMs: number;
  readonly profile?: ProviderProfile;
  readonly lookup?: Lookup;
  readonly statusTool?: string;
  readonly effectRef?: (value: unknown) => string | undefined;
  /** What makes two calls the same wish, of the parsed arguments. Default: the model's arguments. For echoes only. */
  readonly identity?: (args: unknown) => unknown;
  /** The text that the model reads for a value, the first time and at every replay. Default: see `doneReply`. */
  readonly message?: (value: unknown) => string;
  /** Tells the developer once in this tool's life what is wrong with it. */
  readonly warnOnce: (what: ToolFault, text: string) => void;
  /** Which arguments the body takes: as the schema made them, or as the model gave them, to be parsed once more. */
  readonly takes: "parsed" | "given";
  /** The config is for our own status tools and for tools that are wrapped; users' bodies take two arguments. */
  readonly run: (args: unknown, context: ToolContext, config: RunnableConfig) => Promise<unknown>;
}

/** What the body is given as its arguments. */
export function bodyArgs(at: {
  readonly spec: ToolSpec;
  readonly call: { readonly args: unknown; readonly parsed: unknown };
}): unknown {
  return at.spec.takes === "given" ? at.call.args : at.call.parsed;
}

export interface ContextParts {
  readonly key: () => string;
  /** Filled with the keys of labelled writes as the body asks for them; labels are few and fixed in its code. */
  readonly subKeys?: Set<string>;
  readonly stop: BodyStop;
  readonly fetch: typeof globalThis.fetch;
  readonly threadId: string | undefined;
  readonly toolCallId: string | undefined;
  readonly nodeAttempt: number;
}

export function toolContext(parts: ContextParts): ToolContext {
  return new CallContext(parts);
}

/**
 * Keys and signal are worked out when the body asks for them. They are own properties, so that `{ ...context }` has them; and all
 * contexts share their getters, since a literal with getters of its own takes ten times as long to make.
 */
class CallContext implements ToolContext {
  declare readonly key: string;
  declare readonly keyUuid: string;
  declare readonly signal: AbortSignal;
  readonly fetch: typeof globalThis.fetch;
  readonly threadId: string | undefined;
  readonly toolCallId: string | undefined;
  readonly nodeAttempt: number;
  readonly subKey: (label: string) => string;
  readonly #parts: ContextParts;

  static readonly #key = lazy((context) => context.#parts.key());
  static readonly #keyUuid = lazy((context) => keyUuid(context.#parts.key()));
  static readonly #signal = lazy((context) => context.#parts.stop.signal);

  constructor(parts: ContextParts) {
    const { key, subKeys } = parts;
    this.#parts = parts;
    this.fetch = parts.fetch;
    this.threadId = parts.threadId;
    this.toolCallId = parts.toolCallId;
    this.nodeAttempt = parts.nodeAttempt;
    this.subKey = (label) => {
      const labelled = subKey(key(), label);
      subKeys?.add(labelled);
      return labelled;
    };
    Object.defineProperty(this, "key", CallContext.#key);
    Object.defineProperty(this, "keyUuid", CallContext.#keyUuid);
    Object.defineProperty(this, "signal", CallContext.#signal);
  }
}

function lazy<Value>(read: (context: CallContext) => Value): PropertyDescriptor {
  return {
    enumerable: true,
    get(this: CallContext) {
      return read(this);
    },
  };
}
