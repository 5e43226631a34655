// How a leased delivery ends: the run's row first, then what becomes of the message. Crash points are named where they matter.
import { recordError } from "@reprise/tracing";
import { interruptsText } from "./completion.ts";
import type { Ending } from "./delivery.ts";
import type { RunContext } from "./delivery-run.ts";
import { errorName, errorText, type RefusalCode, WorkerError } from "./errors.ts";
import type { DriveResult } from "./graph.ts";
import type { ResumeDecision } from "./graph-resume.ts";
import type { ThreadState } from "./graph-state.ts";
import { backoffMs } from "./lease-time.ts";
import type { RunStatus } from "./run.ts";
import { CANCELLED, leaveCallsUnknown } from "./run-cancel.ts";
import { park } from "./run-park.ts";
import { type MarkedRun, markRun } from "./run-rows.ts";

const RETRY = { baseMs: 1_000, maxMs: 300_000 } as const;
/** A run that its worker cannot take now comes back after this, and up to twice as late. */
const DEFER_MS = 1_000;
/** A run whose graph this deploy does not have comes back after this, for the deploy that has it. */
const GRAPH_CHANGED_MS = 30_000;
/** The result kept in the row; the full state is in the checkpoint. UTF-16 units of JSON. */
const RESULT_MAX = 65_536;

/** The run stops here, until somebody redrives its message. */
export interface ParkedStop {
  readonly state: "parked";
  readonly code: RefusalCode;
  readonly reason: string;
}

/** The graph was driven and came back without an error. */
export async function endDriven(context: RunContext, result: DriveResult): Promise<Ending> {
  await context.savers.settle();
  switch (result.state) {
    case "finished":
      return await finish(context, result.values, "the graph ended");
    case "interrupted": {
      const ids = result.interrupts.map((interrupt) => interrupt.id).join(", ");
      const how = { outcome: "interrupted", reason: `waits for an answer to ${ids}` } as const;
      return endWaiting(context, interruptsText(result.interrupts, RESULT_MAX), how);
    }
    case "drained":
      return handBack(context, `${handOverCause(context)}: stopped after its checkpoint`);
    default:
      return result satisfies never;
  }
}

/** Nothing was driven: the decision itself is the end. */
export async function endMarked(
  context: RunContext,
  decision: Exclude<ResumeDecision, { state: "fresh" | "resume" | "answer" }>,
  state: ThreadState,
): Promise<Ending> {
  const { reason } = decision;
  switch (decision.state) {
    case "finished":
      return finish(context, state.values, reason);
    case "interrupted":
    case "settled":
      return endWaiting(context, pendingText(state), { outcome: decision.state, reason });
    case "not_yet":
      return ending(context, { outcome: "not_yet", reason, message: { do: "return", afterMs: decision.waitMs } });
    case "refused":
      return endRefused(context, decision, state);
    default:
      return decision satisfies never;
  }
}

async function endRefused(
  context: RunContext,
  refusal: Extract<ResumeDecision, { state: "refused" }>,
  state: ThreadState,
): Promise<Ending> {
  const { code, reason } = refusal;
  const { receiveCount } = context.delivery;
  const { maxReceives } = context.parts.queue;
  const last = receiveCount !== undefined && maxReceives !== undefined && receiveCount >= maxReceives;
  if (refusal.again === "returned" && !last) {
    return ending(context, { outcome: "returned", code, reason, message: { do: "return", afterMs: GRAPH_CHANGED_MS } });
  }
  if (code === "ANSWER_CONFLICT" || code === "ANSWER_UNKNOWN_INTERRUPT") {
    // The answer is refused; the run goes on waiting for the right one.
    await keepMessage(context, code, reason, false);
    await mark(context, { status: context.evidence.run.status, interrupts: pendingText(state) });
    return ending(context, { outcome: "refused", code, reason, message: { do: "delete" } });
  }
  return parkRun(context, { code, reason });
}

/** An error ended the drive. Faults are counted on the run, in PostgreSQL; hand-backs and lost leases are none. */
export async function endFailed(context: RunContext, error: unknown): Promise<Ending> {
  const { parts, lease, delivery } = context;
  await context.savers.settle();
  if (lease.signal.aborted || isLost(error)) return leaseLost(error);
  if (parts.drain.forced.aborted || lease.wall.forced.aborted)
    return handBack(context, `${handOverCause(context)}: stopped where it was`);
  try {
    if (context.cancel.signal.aborted) return await endCancelled(context);
    recordError(delivery.root, error);
    return await failedOnce(context, context.signal.aborted ? context.signal.reason : error);
  } catch (late) {
    if (isLost(late)) return leaseLost(late);
    throw late;
  }
}

function leaseLost(error: unknown): Ending {
  const reason = errorText(error);
  return { outcome: "lease_lost", code: "LEASE_LOST", reason, message: { do: "keep" }, row: "written" };
}

async function failedOnce(context: RunContext, error: unknown): Promise<Ending> {
  const code = errorName(error);
  const reason = errorText(error);
  // Counted before the limit is looked at: the row alone knows all faults, those found at the beginning among them.
  const { faults, status } = await mark(context, {
    status: "running",
    failed: true,
    errorCode: code,
    errorText: cut(reason),
  });
  if (status === "cancelled") return cancelled(context);
  if (faults >= context.parts.config.faultLimit)
    return parkRun(context, stopAtFaultLimit(`${faults} faults; the last: ${reason}`));
  const afterMs = backoffMs(faults, context.parts.random(), RETRY);
  return ending(context, { outcome: "failed_retry", code, reason, message: { do: "return", afterMs } });
}

/** The run's signal fired, or its cancel was asked before it could begin. */
export async function endCancelled(context: RunContext): Promise<Ending> {
  // Killed after this and before the delete: the next delivery finds the run cancelled and settles the message.
  await mark(context, { status: "cancelled", errorCode: CANCELLED, errorText: "cancelled by an operator" });
  return cancelled(context);
}

/** Killed before the calls are marked, they stay reserved with a dead lease, which the operator's list counts as unknown, too. */
async function cancelled(context: RunContext): Promise<Ending> {
  await leaveCallsUnknown(context.parts.pool, context.request.runId);
  return ending(context, {
    outcome: "cancelled",
    code: CANCELLED,
    reason: "cancelled by an operator",
    message: { do: "delete" },
  });
}

/**
 * Run, row and lease in one statement, under the fence. Killed after it and before the delete: the next delivery finds the run
 * finished and settles the message. The lease's beats end first: none may find the lease given back, and take that for a loss.
 */
async function finish(context: RunContext, values: unknown, reason: string): Promise<Ending> {
  const { parts, request, delivery, lease, fence } = context;
  const result = cut(JSON.stringify(context.agent.result(values)) ?? "null");
  delivery.freeSlot();
  await lease.stop();
  const release = { threadId: request.threadId, fence };
  const finished = { runId: request.runId, result };
  const how = { outcome: "finished", reason, release } as const;
  const { held } = await parts.ends.add({ ...how, deliveryId: delivery.deliveryId, finished });
  if (!held) throw nothingMarked(request.runId);
  return { ...how, message: { do: "delete" }, row: "ended" };
}

/**
 * As `finish`, for a run that waits for a human. An answer may come the moment the run is marked: it must find the thread free, or
 * it would be given back for what the lease had left (crash.real.test.ts, the answers).
 */
async function endWaiting(
  context: RunContext,
  interrupts: string,
  how: { readonly outcome: "interrupted" | "settled"; readonly reason: string },
): Promise<Ending> {
  const { parts, request, delivery, lease, fence } = context;
  delivery.freeSlot();
  await lease.stop();
  const release = { threadId: request.threadId, fence };
  const interrupted = { runId: request.runId, interrupts };
  const { held, cancelAsked } = await parts.ends.add({ ...how, release, deliveryId: delivery.deliveryId, interrupted });
  if (!held) throw nothingMarked(request.runId);
  if (cancelAsked) return endCancelled(context);
  return { ...how, release, message: { do: "delete" }, row: "ended" };
}

/** Not now, and no fault: the message comes back soon, to whichever worker receives then. */
export function endDeferred(context: RunContext, reason: string): Ending {
  const afterMs = DEFER_MS * (1 + context.parts.random());
  return ending(context, { outcome: "deferred", reason, message: { do: "return", afterMs } });
}

function handOverCause({ parts, lease }: RunContext): string {
  return lease.wall.asked.aborted && !parts.drain.asked.aborted ? "twelve hours since the receive" : "SIGTERM";
}

/** Writes are settled already; row and lease go in one statement (closeRow), then visibility 0. */
export function handBack(context: RunContext, reason: string): Ending {
  return ending(context, { outcome: "handback", reason, message: { do: "return", afterMs: 0 } });
}

/** Killed between the count and the park: the next admission finds the limit reached. */
export function stopAtFaultLimit(reason: string): ParkedStop {
  return { state: "parked", code: "FAULT_LIMIT", reason };
}

export async function parkRun(
  context: RunContext,
  { code, reason }: Pick<ParkedStop, "code" | "reason">,
): Promise<Ending> {
  await keepMessage(context, code, reason, true);
  return ending(context, { outcome: "parked", code, reason, message: { do: "delete" } });
}

function keepMessage(
  { parts, delivery, request }: RunContext,
  code: string,
  reason: string,
  withRun: boolean,
): Promise<void> {
  const message = {
    sqsMessageId: delivery.sqsMessageId,
    queueUrl: parts.queue.url,
    runId: request.runId,
    threadId: request.threadId,
    receiveCount: delivery.receiveCount,
    code,
    reason,
    body: delivery.body,
    messageAttributes: delivery.messageAttributes,
    traceId: delivery.root.spanContext().traceId,
  };
  return park(parts.pool, message, withRun ? "parked" : undefined);
}

interface Mark {
  readonly status: RunStatus;
  readonly result?: string;
  readonly interrupts?: string;
  readonly errorCode?: string;
  readonly errorText?: string;
  readonly failed?: true;
}

/** Under the fence: a worker that lost the thread marks nothing, and learns it here. */
async function mark(context: RunContext, mark: Mark): Promise<MarkedRun> {
  const { parts, request, delivery, fence } = context;
  const marked = await markRun(parts.pool, {
    ...mark,
    runId: request.runId,
    deliveryId: delivery.deliveryId,
    threadId: request.threadId,
    fence,
  });
  if (marked === undefined) throw nothingMarked(request.runId);
  return marked;
}

function nothingMarked(runId: string): WorkerError {
  return new WorkerError("LEASE_LOST", `run ${runId} is held by another delivery; nothing was marked`);
}

function ending(context: RunContext, how: Omit<Ending, "row" | "release">): Ending {
  return { ...how, row: "written", release: { threadId: context.request.threadId, fence: context.fence } };
}

function isLost(error: unknown): boolean {
  const code = errorName(error);
  return code === "FENCE_LOST" || code === "LEASE_LOST";
}

function pendingOf(state: ThreadState): readonly { readonly id: string | undefined; readonly value: unknown }[] {
  return state.snapshot.tasks.flatMap((task) => task.interrupts.map(({ id, value }) => ({ id, value })));
}

/** What the run asks, for its row: ids stay whatever the values weigh, since an answer has to name them. */
function pendingText(state: ThreadState): string {
  return interruptsText(pendingOf(state), RESULT_MAX);
}

/** Text for a row: what does not fit is said, not lost silently; the state itself is in the checkpoint. */
function cut(text: string): string {
  return text.length <= RESULT_MAX
    ? text
    : JSON.stringify({ truncated: true, length: text.length, start: text.slice(0, 1_000) });
}
