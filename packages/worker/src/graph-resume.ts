// The resume decision: what the thread's head says and what the run row says in, how to invoke the graph out. Pure.
import type { RefusalCode } from "./errors.ts";

/** The thread's latest checkpoint, as LangGraph's `getState` and the saver's metadata tell it. */
export interface Head {
  readonly checkpointId: string;
  readonly parentCheckpointId: string | undefined;
  /** `run_id` that our saver put into the metadata; absent on checkpoints of a stock saver. */
  readonly runId: string | undefined;
  readonly source: string;
  readonly step: number;
  /** `checkpoint.ts` of the writer's clock. */
  readonly writtenAtMs: number;
  /** Tasks still to do. Zero means nothing is left; `next` does not say so (facts: it is empty before a lost put, too). */
  readonly openTasks: number;
  readonly pendingInterruptIds: readonly string[];
}

/** Whether the deployed graph can carry the run on. */
export type GraphFit =
  | { readonly fit: "same" }
  | { readonly fit: "compatible"; readonly from: string; readonly to: string }
  | { readonly fit: "incompatible"; readonly from: string; readonly to: string; readonly missing: readonly string[] };

export interface AnswerEvidence {
  readonly interruptId: string;
  /** Whether this interrupt was answered before, by whatever delivery, and if so with the same value. */
  readonly recorded: "no" | "same" | "other";
}

export interface ResumeEvidence {
  readonly runId: string;
  readonly firstCheckpointId: string | undefined;
  readonly latestCheckpointId: string | undefined;
  readonly head: Head | undefined;
  readonly graph: GraphFit;
  readonly nowMs: number;
  readonly answer?: AnswerEvidence;
}

export type ResumeDecision =
  /** Invoke with the run's input. */
  | { readonly state: "fresh"; readonly reason: string }
  /** Invoke with null: go on from the head. */
  | { readonly state: "resume"; readonly step: number; readonly reason: string }
  /** Invoke with the answer, by interrupt id. */
  | { readonly state: "answer"; readonly step: number; readonly reason: string }
  /** The run waits for a human; nothing to invoke. */
  | { readonly state: "interrupted"; readonly reason: string }
  /** The graph had ended before the row could say so; mark it from the state. */
  | { readonly state: "finished"; readonly reason: string }
  /** The head lies in our clock's future: resuming now would write checkpoints that sort before it. */
  | { readonly state: "not_yet"; readonly waitMs: number; readonly reason: string }
  /** The answer is used up; the message needs nothing more. */
  | { readonly state: "settled"; readonly reason: string }
  /** `returned` deliveries wait for another deploy; `never` is final. */
  | {
      readonly state: "refused";
      readonly code: RefusalCode;
      readonly again: "returned" | "never";
      readonly reason: string;
    };

/** DESIGN section 5.5. Every branch has a test in `test/graph-resume.test.ts`; none of them guesses "fresh". */
export function decideResume(evidence: ResumeEvidence): ResumeDecision {
  const { head } = evidence;
  if (head === undefined) return withoutHead(evidence);
  const skewMs = head.writtenAtMs - evidence.nowMs;
  if (skewMs > 0)
    return { state: "not_yet", waitMs: skewMs, reason: `the head was written ${skewMs} ms in this host's future` };
  if (!isOwnHead(evidence, head)) return onForeignHead(evidence, head);
  if (evidence.answer !== undefined) return withAnswer(evidence, head, evidence.answer);
  if (head.pendingInterruptIds.length > 0) {
    return { state: "interrupted", reason: `waits for ${head.pendingInterruptIds.length} answer(s)` };
  }
  // Zero tasks proves the end only on the graph that wrote them: a renamed node also leaves none (facts/langgraph, 7).
  if (evidence.graph.fit === "incompatible") return graphChanged(evidence.graph);
  if (head.openTasks === 0) return { state: "finished", reason: `nothing left after step ${head.step}` };
  return resumeFrom(evidence, head);
}

function withoutHead({ firstCheckpointId, answer }: ResumeEvidence): ResumeDecision {
  if (firstCheckpointId !== undefined) {
    return never("HEAD_NOT_OWN", `the run wrote checkpoint ${firstCheckpointId}, and the thread has none`);
  }
  if (answer !== undefined) return never("ANSWER_UNKNOWN_INTERRUPT", "the run has not begun");
  return { state: "fresh", reason: "new thread" };
}

/** An `update` (updateState by a person or a tool) on top of our latest checkpoint is still our run. */
function isOwnHead({ runId, latestCheckpointId }: ResumeEvidence, head: Head): boolean {
  if (head.runId === runId) return true;
  return head.source === "update" && latestCheckpointId !== undefined && head.parentCheckpointId === latestCheckpointId;
}

function onForeignHead(evidence: ResumeEvidence, head: Head): ResumeDecision {
  if (evidence.firstCheckpointId !== undefined) {
    const owner = head.runId === undefined ? "something without a run_id" : `run ${head.runId}`;
    return never("HEAD_NOT_OWN", `checkpoint ${head.checkpointId} was written by ${owner}`);
  }
  if (evidence.answer !== undefined) return never("ANSWER_UNKNOWN_INTERRUPT", "the run has not begun");
  return { state: "fresh", reason: `first checkpoint of this run, after step ${head.step} of the thread` };
}

function withAnswer(evidence: ResumeEvidence, head: Head, answer: AnswerEvidence): ResumeDecision {
  if (answer.recorded === "other")
    return never("ANSWER_CONFLICT", `interrupt ${answer.interruptId} has another answer`);
  if (head.pendingInterruptIds.includes(answer.interruptId)) {
    if (evidence.graph.fit === "incompatible") return graphChanged(evidence.graph);
    return {
      state: "answer",
      step: head.step,
      reason: answer.recorded === "same" ? "answered before, still pending" : "answered",
    };
  }
  if (answer.recorded === "no") {
    return never("ANSWER_UNKNOWN_INTERRUPT", `interrupt ${answer.interruptId} is not pending on this run`);
  }
  // The answer was used by an earlier delivery: what is left is either nothing, another question, or unfinished work.
  if (head.pendingInterruptIds.length > 0)
    return { state: "settled", reason: "used; the run waits for another answer" };
  if (evidence.graph.fit === "incompatible") return graphChanged(evidence.graph);
  if (head.openTasks === 0) return { state: "finished", reason: `nothing left after step ${head.step}` };
  return resumeFrom(evidence, head);
}

function resumeFrom({ graph }: ResumeEvidence, head: Head): ResumeDecision {
  switch (graph.fit) {
    case "same":
      return { state: "resume", step: head.step, reason: `${head.openTasks} open task(s) after step ${head.step}` };
    case "compatible":
      return {
        state: "resume",
        step: head.step,
        reason: `graph changed from ${graph.from} to ${graph.to}; every pending node still exists`,
      };
    case "incompatible":
      return graphChanged(graph);
    default:
      return graph satisfies never;
  }
}

function graphChanged(graph: Extract<GraphFit, { fit: "incompatible" }>): ResumeDecision {
  const reason = `graph changed from ${graph.from} to ${graph.to}; gone: ${graph.missing.join(", ")}`;
  return { state: "refused", code: "GRAPH_CHANGED", again: "returned", reason };
}

function never(code: RefusalCode, reason: string): ResumeDecision {
  return { state: "refused", code, again: "never", reason };
}
