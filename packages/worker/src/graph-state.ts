// Reads a thread's head for the resume decision: one getState, and the raw checkpoint only when the graph has changed.

import type { StateSnapshot } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { Agent } from "./agent.ts";
import { nodesOf } from "./agent.ts";
import type { GraphFit, Head } from "./graph-resume.ts";

export interface ThreadState {
  readonly head: Head | undefined;
  /** The graph's state values, for the result of a run that had ended before its row could say so. */
  readonly values: unknown;
  readonly snapshot: StateSnapshot;
}

/** LangGraph lends a subgraph its parent's saver under this key, and takes one for the root from it just the same. */
export const LENT_SAVER = "__pregel_checkpointer";

/** @param saver the delivery's saver; lent to the graph for this read */
export async function readThread(agent: Agent, threadId: string, saver: BaseCheckpointSaver): Promise<ThreadState> {
  const snapshot = await agent.graph.getState({ configurable: { thread_id: threadId, [LENT_SAVER]: saver } });
  return { head: headOf(snapshot), values: snapshot.values, snapshot };
}

function headOf(snapshot: StateSnapshot): Head | undefined {
  // `metadata === undefined` is LangGraph's way to say that there is no checkpoint (facts/langgraph, section 2).
  const metadata = snapshot.metadata as Readonly<Record<string, unknown>> | undefined;
  const checkpointId: unknown = snapshot.config.configurable?.["checkpoint_id"];
  if (metadata === undefined || typeof checkpointId !== "string") return undefined;
  const parent: unknown = snapshot.parentConfig?.configurable?.["checkpoint_id"];
  const runId = metadata["run_id"];
  return {
    checkpointId,
    parentCheckpointId: typeof parent === "string" ? parent : undefined,
    runId: typeof runId === "string" ? runId : undefined,
    source: String(metadata["source"]),
    step: Number(metadata["step"]),
    writtenAtMs: Date.parse(snapshot.createdAt ?? ""),
    openTasks: snapshot.tasks.length,
    pendingInterruptIds: snapshot.tasks.flatMap((task) => task.interrupts.flatMap((interrupt) => interrupt.id ?? [])),
  };
}

/** Compares the run's graph with the deployed one; reads the raw checkpoint only when they differ. */
export function graphFit(
  agent: Agent,
  run: { readonly threadId: string; readonly graphFingerprint: string | undefined; readonly begun: boolean },
  saver: BaseCheckpointSaver,
): Promise<GraphFit> | GraphFit {
  const { graphFingerprint: from, threadId } = run;
  const to = agent.fingerprint;
  if (from === undefined || from === to || !run.begun) return { fit: "same" };
  return changedFit(agent, { threadId, from, to }, saver);
}

async function changedFit(
  agent: Agent,
  { threadId, from, to }: { readonly threadId: string; readonly from: string; readonly to: string },
  saver: BaseCheckpointSaver,
): Promise<GraphFit> {
  const tuple = await saver.getTuple({ configurable: { thread_id: threadId } });
  const known = new Set(nodesOf(agent.graph).map(([name]) => name));
  const missing = pendingNodes(tuple?.checkpoint.channel_values ?? {}).filter((node) => !known.has(node));
  return missing.length === 0 ? { fit: "compatible", from, to } : { fit: "incompatible", from, to, missing };
}

/** LangGraph's own channels: `branch:to:<node>` is a pending edge, `__pregel_tasks` holds pending Sends. */
export function pendingNodes(channelValues: Readonly<Record<string, unknown>>): readonly string[] {
  const edges = Object.keys(channelValues).flatMap((channel) => /^branch:to:(.+)$/.exec(channel)?.[1] ?? []);
  const tasks = channelValues["__pregel_tasks"];
  const sends = Array.isArray(tasks) ? tasks.flatMap((task: unknown) => sendTarget(task)) : [];
  return [...new Set([...edges, ...sends])];
}

function sendTarget(task: unknown): readonly string[] {
  return typeof task === "object" && task !== null && "node" in task && typeof task.node === "string"
    ? [task.node]
    : [];
}
