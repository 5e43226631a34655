// The barrier: an effectful call may run only when what names it is stored. Evidence, not a setting.
import type { RunnableConfig } from "@langchain/core/runnables";
import { getCurrentTaskInput } from "@langchain/langgraph";
import { CallRefused } from "../errors.ts";
import { type FoundCall, findCall } from "./barrier-input.ts";
import { type BarrierSaver, type CheckpointRef, isBarrierSaver } from "./barrier-saver.ts";
import type { CallRefSource } from "./boundary-ids.ts";
import { isWeakId } from "./boundary-weak.ts";

export interface CallToCheck {
  readonly id: string | undefined;
  readonly tool: string;
}

/** What the barrier learned about the call, for the ledger's owner and the span. */
export interface CallEvidence {
  readonly id: string;
  readonly threadId: string;
  readonly assistantMessageId?: string;
  readonly position?: number;
  /** The arguments as they stand in the stored state: the fingerprint is of these (G03). */
  readonly args: unknown;
  readonly source: CallRefSource | "state_id";
  readonly cut: boolean;
}

const WAIT_MS = 1_000;

/** Rejects with CallRefused, its body not run, when the key of this call would not survive a crash. */
export async function passBarrier(
  config: RunnableConfig,
  call: CallToCheck,
  options: { readonly waitMs?: number } = {},
): Promise<CallEvidence> {
  const threadId = requireThread(config, call);
  const id = requireId(call, threadId);
  const found = requireInInput(config, id, call.tool, threadId);
  const source = requireStrong({ id, found, tool: call.tool, threadId });
  const waiting = requireDurable(config, { threadId, tool: call.tool, waitMs: options.waitMs ?? WAIT_MS });
  if (waiting !== undefined) await waiting;
  const { assistantMessageId, position, args, cut } = found;
  return {
    id,
    threadId,
    ...(assistantMessageId === undefined ? {} : { assistantMessageId }),
    ...(position === undefined ? {} : { position }),
    args,
    source,
    cut,
  };
}

function requireThread(config: RunnableConfig, call: CallToCheck): string {
  const threadId: unknown = config.configurable?.["thread_id"];
  if (typeof threadId === "string" && threadId !== "") return threadId;
  throw new CallRefused(
    "NO_THREAD_ID",
    `Tool ${call.tool} has effects and was called without a thread. Invoke the graph with configurable.thread_id.`,
  );
}

function requireId(call: CallToCheck, threadId: string): string {
  if (call.id !== undefined && call.id !== "") return call.id;
  throw noCallId(call.tool, threadId);
}

export function noCallId(tool: string, threadId?: string): CallRefused {
  return new CallRefused(
    "NO_CALL_ID",
    `Tool ${tool} has effects and was called without a tool-call id. Pass the model's whole tool call, not its arguments; if the model gives no ids, call stampCalls in the model node.`,
    threadId === undefined ? {} : { threadId },
  );
}

function requireInInput(config: RunnableConfig, id: string, tool: string, threadId: string): FoundCall {
  const found = findCall(currentInput(config), { id, tool });
  if (found !== undefined) return withState(config, found, { id, tool });
  throw new CallRefused(
    "CALL_NOT_CHECKPOINTED",
    `Call ${id} of tool ${tool} is not in the input of its task, so it is not in a stored checkpoint. Run the model and its tools in separate nodes, and hand the tool node the messages or a Send with the call.`,
    { threadId },
  );
}

/**
 * A Send with the bare call says nothing of the message it stood in. The state the task stands on usually does: who owns the
 * call, and whether it was cut. Only evidence: a graph that keeps its messages elsewhere does without.
 */
function withState(
  config: RunnableConfig,
  found: FoundCall,
  call: { readonly id: string; readonly tool: string },
): FoundCall {
  if (found.assistantMessageId !== undefined) return found;
  const inState = findCall({ messages: stateMessages(config) }, call);
  if (inState === undefined) return found;
  return { ...inState, ...found, cut: inState.cut || found.cut, repeated: inState.repeated };
}

// LangGraph's own reader of the checkpointed channels (pregel/algo.js, CONFIG_KEY_READ); it throws for unknown channels.
function stateMessages(config: RunnableConfig): unknown {
  const read: unknown = config.configurable?.["__pregel_read"];
  if (typeof read !== "function") return undefined;
  try {
    return read("messages");
  } catch {
    return undefined;
  }
}

// Outside a graph there is no task and no input; LangGraph says so by throwing.
function currentInput(config: RunnableConfig): unknown {
  try {
    return getCurrentTaskInput(config);
  } catch {
    return undefined;
  }
}

interface StrongCheck {
  readonly id: string;
  readonly found: FoundCall;
  readonly tool: string;
  readonly threadId: string;
}

function requireStrong({ id, found, tool, threadId }: StrongCheck): CallEvidence["source"] {
  if (found.source !== undefined) return found.source;
  const prefix = found.assistantMessageId;
  const ours = /^.+#\d+$/.test(id) && (prefix === undefined || id.startsWith(`${prefix}#`));
  if (ours) return "state_id";
  if (found.repeated || isWeakId(id, tool)) {
    throw new CallRefused(
      "WEAK_CALL_ID",
      `Call id ${id} of tool ${tool} does not name one call on this thread: providers repeat ids like it. Call stampCalls on the assistant message in the model node, before it returns.`,
      { threadId },
    );
  }
  return "provider";
}

interface DurableCheck {
  readonly threadId: string;
  readonly tool: string;
  readonly waitMs: number;
}

/**
 * The task's own checkpoint and one for each graph around it: LangGraph lists them all in the task's checkpoint_map. Undefined
 * when all of them are stored already, as they mostly are: a promise that waits for nothing costs each call its turn.
 */
function requireDurable(config: RunnableConfig, check: DurableCheck): Promise<void> | undefined {
  const { threadId } = check;
  const saver: unknown = config.configurable?.["__pregel_checkpointer"];
  if (!isBarrierSaver(saver)) {
    throw notDurable(
      check,
      "its graph has no saver that tells what is stored",
      "Compile the graph with new BarrierSaver(yourSaver).",
    );
  }
  const refs = checkpointsOf(config, threadId);
  if (refs.length === 0)
    throw notDurable(check, "its task names no checkpoint", "Call the tool from a node of a compiled graph.");
  const waitedFor = refs.filter((ref) => !saver.isDurable(ref));
  return waitedFor.length === 0 ? undefined : waitUntilDurable(saver, waitedFor, check);
}

async function waitUntilDurable(
  saver: BarrierSaver,
  refs: readonly CheckpointRef[],
  check: DurableCheck,
): Promise<void> {
  const durable = await Promise.all(refs.map((ref) => saver.whenDurable(ref, check.waitMs)));
  const missing = refs[durable.indexOf(false)];
  if (missing === undefined) return;
  throw notDurable(
    check,
    `checkpoint ${missing.id}${missing.ns === "" ? "" : ` of ${missing.ns}`} was not stored within ${check.waitMs} ms`,
    'Invoke the graph with durability "sync", and compile subagents with a checkpointer that is not false.',
  );
}

function notDurable({ threadId, tool }: DurableCheck, what: string, fix: string): CallRefused {
  return new CallRefused("CHECKPOINT_NOT_DURABLE", `Tool ${tool} has effects, and ${what}. ${fix}`, { threadId });
}

function checkpointsOf(config: RunnableConfig, threadId: string): readonly CheckpointRef[] {
  const map: unknown = config.configurable?.["checkpoint_map"];
  if (typeof map !== "object" || map === null) return [];
  return Object.entries(map).flatMap(([ns, id]) => (typeof id === "string" ? [{ threadId, ns, id }] : []));
}
