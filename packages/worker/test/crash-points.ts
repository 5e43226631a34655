// The crash points: what a worker had done when it died, and what the next delivery does. ARCHITECTURE.md's table is this one.
import type { Kill } from "./crash-kill.ts";

export interface CrashPoint {
  readonly id: string;
  /** The two steps it died between, as `done -> not done`. */
  readonly between: string;
  /** What the next delivery, or whoever comes next, does about it. */
  readonly next: string;
  /** Where `crash.real.test.ts` kills the process. */
  readonly kill: Kill;
}

const deleteMessage = "^DeleteMessageBatchCommand";
const settleEffect = "select reprise\\.settle_effect";
const markRun = "^update reprise\\.runs set status = case";
const admit = "^select reprise\\.admit_delivery";
const begin = "^select reprise\\.begin_delivery";
const end = "^select reprise\\.end_delivery";

/** In the order of a delivery's life. */
export const CRASH_POINTS = [
  {
    id: "received",
    between: "message received -> delivery row written",
    next: "It comes back by its visibility with receive count 2 and no row: cause `phantom_receive`. It starts the run.",
    kill: { when: "before", what: admit },
  },
  {
    id: "begun",
    between: "delivery row written, thread leased, the lost buried -> first checkpoint",
    next: "It ends the row as `lost`, counts one fault and starts the run. An obituary that the dead worker had yet to export is lost with it; the row stays.",
    kill: { when: "after", what: admit },
  },
  {
    id: "checkpointing",
    between: "a checkpoint written -> committed",
    next: "Checkpoint and run row share the transaction: neither is there. It resumes from the one before, with the writes stored since.",
    kill: { when: "before", what: "^COMMIT .*checkpoints$", nth: 3 },
  },
  {
    id: "model",
    between: "the model's checkpoint stored -> the call claimed",
    next: "It resumes from that checkpoint: same call, same key, one execution.",
    kill: { when: "before", what: "select reprise\\.claim_effect" },
  },
  {
    id: "claimed",
    between: "the call claimed -> the request sent",
    next: "The claim of an older fence is taken over and the call executed under the same key. The provider sees one request.",
    kill: { when: "after", what: "select reprise\\.claim_effect" },
  },
  {
    id: "committed",
    between: "the provider committed -> the effect settled",
    next: "The claim is taken over and sent again under the same key: the provider answers with the charge it made.",
    kill: { when: "before", what: settleEffect },
  },
  {
    id: "settled",
    between: "the effect settled -> its writes stored",
    next: "The recorded effect is replayed from the ledger: no request.",
    kill: { when: "after", what: settleEffect },
  },
  {
    id: "writes",
    between: "the tool's writes stored -> the next checkpoint",
    next: "LangGraph takes the stored writes: the tool is not called at all.",
    // Both go out as one packet each, the writes first: a kill after their answer may come after the checkpoint has left.
    kill: { when: "before", what: "^COMMIT .*checkpoints", armedBy: settleEffect },
  },
  {
    id: "ended",
    between: "the last checkpoint stored -> the run marked finished",
    next: "No task is left on the run's own head: it marks the run from the state and deletes the message.",
    kill: { when: "before", what: end },
  },
  {
    id: "marked",
    between: "the run marked finished, its row ended, the thread free -> the message deleted",
    next: "It finds the run finished and deletes the message: `settled`, no lease taken.",
    kill: { when: "before", what: deleteMessage },
  },
  {
    id: "failed",
    between: "a failure counted -> the delivery row ended",
    next: "It ends the row as `lost`: the failure and the death count one fault each. It resumes.",
    kill: { when: "after", what: markRun },
  },
  {
    id: "parked-message",
    between: "a message parked -> deleted",
    next: "It parks the message again, as the same row, and deletes it.",
    kill: { when: "before", what: deleteMessage },
  },
  {
    id: "parked-run",
    between: "a run parked -> its message deleted",
    next: "The same message is no redrive: it is `settled` and deleted, the run stays parked.",
    kill: { when: "before", what: deleteMessage },
  },
  {
    id: "parked-deleted",
    between: "a parked run's message deleted -> the delivery row ended",
    next: "There is none: the run is parked and its message gone. The lease runs out, and the sweep ends the row as `lost`, without a fault.",
    kill: { when: "after", what: deleteMessage },
  },
  {
    id: "waiting-marked",
    between: "a run marked waiting -> its message deleted",
    next: "It waits again and deletes the message; the row sends it when the thread frees.",
    kill: { when: "before", what: deleteMessage },
  },
  {
    id: "waiting-deleted",
    between: "a waiting run's message deleted -> the thread free",
    next: "There is none yet: whoever ends the run before it sends the message again from the row.",
    kill: { when: "after", what: deleteMessage },
  },
  {
    id: "waiting-resent",
    between: "a waiting run marked re-sent -> its message sent",
    next: "There is none yet: a minute later any worker's sweep sends the message.",
    kill: { when: "before", what: "^SendMessageCommand" },
  },
  {
    id: "interrupted",
    between: "a run marked interrupted -> its message deleted",
    next: "It finds the run waiting for an answer and deletes the message: `settled`.",
    kill: { when: "before", what: deleteMessage },
  },
  {
    id: "answer-admitted",
    between: "an answer's delivery row written -> thread leased",
    next: "It ends the row as `lost`; no fault is counted, since nothing was begun. It uses the answer.",
    kill: { when: "after", what: admit, nth: 2 },
  },
  {
    id: "answer-leased",
    between: "thread leased for an answer -> delivery begun",
    next: "The lease ended before the visibility did: it takes a new fence, ends the row as `lost` without a fault, and uses the answer.",
    kill: { when: "before", what: begin },
  },
  {
    id: "answer-recorded",
    between: "an answer recorded -> used",
    next: "The same answer is found recorded with its interrupt still pending: it is used now.",
    kill: { when: "before", what: "^update reprise\\.answers set used_at" },
  },
  {
    id: "answer-used",
    between: "an answer used -> the resume's first checkpoint",
    next: "The interrupt is still pending: the same answer is used again, to the same effect.",
    kill: { when: "after", what: "^update reprise\\.answers set used_at" },
  },
  {
    id: "handed-back",
    between: "hand-back: row and lease ended -> visibility 0",
    next: "The message comes back by its visibility instead of at once. Cause `handback`, no fault; it resumes.",
    kill: { when: "before", what: '^ChangeMessageVisibilityBatchCommand.*"VisibilityTimeout":0' },
  },
] as const satisfies readonly CrashPoint[];

export type CrashPointId = (typeof CRASH_POINTS)[number]["id"];
