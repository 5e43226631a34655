// The leased part of a delivery: bury the lost, name the cause, decide how to resume, drive the graph, mark the end.

import { RunControl } from "@langchain/langgraph";
import { ATTR, isControlFlow, recordError } from "@reprise/tracing";
import { type Agent, loadedInput } from "./agent.ts";
import { recordAnswer, useAnswer } from "./answer.ts";
import type { Delivery, Ending, WorkerParts } from "./delivery.ts";
import { redeliveryCause } from "./delivery-cause.ts";
import { type Deadline, startDeadline } from "./delivery-deadline.ts";
import { saverFor, startLease } from "./delivery-lease.ts";
import { linkEarlier } from "./delivery-links.ts";
import { type BegunDelivery, beginDelivery, type LostDeliveryRow, noteCause } from "./delivery-rows.ts";
import type { DeliverySaver } from "./delivery-saver.ts";
import { WorkerError } from "./errors.ts";
import { type DriveResult, drive, type Invocation } from "./graph.ts";
import { NodeBodies } from "./graph-bodies.ts";
import { closeOpenCalls } from "./graph-close.ts";
import { decideResume, type ResumeDecision } from "./graph-resume.ts";
import { graphFit, readThread, type ThreadState } from "./graph-state.ts";
import { pause } from "./intake-pause.ts";
import type { Lease } from "./lease.ts";
import type { AnswerRequest, RunRequest } from "./message.ts";
import { workAlone } from "./run-alone.ts";
import { type Cancel, startCancel } from "./run-cancel.ts";
import { endCancelled, endDriven, endFailed, endMarked, parkRun, stopAtFaultLimit } from "./run-end.ts";
import { decideProgress } from "./run-progress.ts";
import type { RunEvidence } from "./run-rows.ts";
import { firstOf, onFirst } from "./signals.ts";

export interface LeasedRun {
  readonly request: RunRequest | AnswerRequest;
  readonly agent: Agent;
  readonly evidence: RunEvidence;
  readonly fence: string;
  readonly reopen: boolean;
  /** Begun by the admission already; its `row` is undefined when our own row was ended meanwhile. */
  readonly begun?: { readonly row: BegunDelivery | undefined };
}

/** A head in the future is waited for this long; more is given back (DESIGN section 5.5). */
const SKEW_WAIT_MAX_MS = 10_000;

/** What the steps of one leased delivery share. */
export interface RunContext extends LeasedRun {
  readonly parts: WorkerParts;
  readonly delivery: Delivery;
  readonly lease: Lease;
  readonly savers: DeliverySaver;
  readonly deadline: Deadline;
  readonly cancel: Cancel;
  /** Lease lost, deadline, cancel, forced drain: whatever fires first. */
  readonly signal: AbortSignal;
}

export async function runDelivery(parts: WorkerParts, delivery: Delivery, leased: LeasedRun): Promise<Ending> {
  const cancel = startCancel(leased.request.runId);
  const lease = startLease(parts, delivery, { ...leased, cancel });
  const unwatch = parts.leases.add(lease, delivery.receivedAt);
  const deadline = startDeadline(parts.clock, parts.config.runDeadlineSeconds);
  const { wall } = lease;
  const stop = firstOf([lease.signal, parts.drain.forced, wall.forced, deadline.signal, cancel.signal]);
  const { request, agent, evidence, fence, reopen } = leased;
  // By name: an object of so many fields takes ten times as long to make by spreading another.
  const context: RunContext = {
    request,
    agent,
    evidence,
    fence,
    reopen,
    ...(leased.begun === undefined ? {} : { begun: leased.begun }),
    parts,
    delivery,
    lease,
    savers: saverFor(parts, delivery, { ...leased, cancel, lease }),
    deadline,
    cancel,
    signal: stop.signal,
  };
  try {
    return await leasedSteps(context);
  } catch (error) {
    return await endFailed(context, error);
  } finally {
    deadline.cancel();
    // Whatever ends the delivery must find no beat in flight on the same handle (complaint Q01, Q03).
    await lease.stop();
    stop.release();
    unwatch();
  }
}

// `return await` on the way of each delivery: on V8 a promise that is returned without it takes three turns of the microtask queue.
async function leasedSteps(context: RunContext): Promise<Ending> {
  const { parts, delivery } = context;
  const begun = context.begun === undefined ? await begin(context) : context.begun.row;
  if (begun === undefined)
    throw new WorkerError("LEASE_LOST", "this delivery was ended by a later one before it began");
  linkEarlier(delivery.root, context.evidence.earlier, begun.lost);
  if (begun.lost.length > 0) await bury(context, begun.lost);
  const cause = nameCause(context, begun.lost);
  if (begun.cancelAsked) return endCancelled(context);
  const next =
    begun.faults >= parts.config.faultLimit
      ? stopAtFaultLimit(`${begun.faults} faults; the last: a worker that was lost`)
      : decideProgress(begun.lostWork);
  if (next.state === "together") return await resumeSteps(context, cause, undefined);
  await noteCause(parts.pool, delivery.deliveryId, { cause, resumedFromStep: undefined });
  return next.state === "parked"
    ? parkRun(context, next)
    : workAlone(context, () => resumeSteps(context, cause, next.reason));
}

function begin(context: RunContext): Promise<BegunDelivery | undefined> {
  return beginDelivery(context.parts.pool, {
    runId: context.request.runId,
    deliveryId: context.delivery.deliveryId,
    fence: context.fence,
    sqsMessageId: context.delivery.sqsMessageId,
    graphFingerprint: context.agent.fingerprint,
    reopen: context.reopen,
  });
}

async function resumeSteps(context: RunContext, cause: string, alone: string | undefined): Promise<Ending> {
  const { parts, delivery, evidence } = context;
  const { decision, state } = await decide(context);
  // The row of a run's first delivery was written with its cause, which can only be "none" (admit_delivery).
  if (!evidence.run.isNew || cause !== "none" || "step" in decision) {
    const resumedFromStep = "step" in decision ? decision.step : undefined;
    await noteCause(parts.pool, delivery.deliveryId, { cause, resumedFromStep });
  }
  const reason = alone === undefined ? decision.reason : `${decision.reason}; ${alone}`;
  delivery.root.setAttributes({
    [ATTR.resumeDecision]: decision.state,
    [ATTR.resumeReason]: reason,
    ...("step" in decision ? { [ATTR.resumedFromStep]: decision.step } : {}),
  });
  delivery.log.info(
    {
      receive_count: delivery.receiveCount,
      cause,
      decision: decision.state,
      earlier: evidence.earlier.length,
      alone: alone !== undefined,
    },
    reason,
  );
  return await follow(context, decision, state);
}

async function bury(context: RunContext, lost: readonly LostDeliveryRow[]): Promise<void> {
  const { parts, request, agent } = context;
  const run = { runId: request.runId, threadId: request.threadId, agent: agent.name };
  for (const row of lost) {
    await parts.burial.bury(row, run);
  }
}

function nameCause(context: RunContext, lost: readonly LostDeliveryRow[]): string {
  const { delivery, evidence, request } = context;
  const lostIds = new Set(lost.map((row) => row.deliveryId));
  // An answer is a message of its own: only its own earlier deliveries make it a redelivery.
  const relevant = evidence.earlier.filter(
    (row) => request.kind === "run" || row.sqsMessageId === delivery.sqsMessageId,
  );
  const redelivery = redeliveryCause({
    sqsMessageId: delivery.sqsMessageId,
    receiveCount: delivery.receiveCount,
    earlier: relevant.map((row) => (lostIds.has(row.deliveryId) ? { ...row, outcome: "lost" as const } : row)),
    reopened: context.reopen,
  });
  context.parts.metrics.redelivered(redelivery);
  delivery.root.setAttributes({
    [ATTR.redelivered]: redelivery.redelivered,
    [ATTR.redeliveryCause]: redelivery.cause,
    ...(redelivery.unseenReceives === undefined ? {} : { [ATTR.unseenReceives]: redelivery.unseenReceives }),
  });
  return redelivery.cause;
}

interface Decided {
  readonly decision: ResumeDecision;
  readonly state: ThreadState;
}

/** Reads and decides; waits out a small clock skew once, and decides again. */
async function decide(context: RunContext): Promise<Decided> {
  const first = await decideOnce(context);
  if (first.decision.state !== "not_yet" || first.decision.waitMs > SKEW_WAIT_MAX_MS) return first;
  await pause(first.decision.waitMs, context.signal);
  return decideOnce(context);
}

async function decideOnce(context: RunContext): Promise<Decided> {
  const { agent, request, savers, evidence, parts, delivery } = context;
  const state = await readThread(agent, request.threadId, savers.saver);
  const { run } = evidence;
  const fit = await graphFit(
    agent,
    { threadId: request.threadId, graphFingerprint: run.graphFingerprint, begun: run.firstCheckpointId !== undefined },
    savers.saver,
  );
  const answer =
    request.kind === "answer"
      ? await recordAnswer(parts.pool, request, { state, deliveryId: delivery.deliveryId })
      : undefined;
  const decision = decideResume({
    runId: request.runId,
    firstCheckpointId: run.firstCheckpointId,
    latestCheckpointId: run.latestCheckpointId,
    head: state.head,
    graph: fit,
    nowMs: parts.wallNow(),
    ...(answer === undefined ? {} : { answer }),
  });
  return { decision, state };
}

async function follow(context: RunContext, decision: ResumeDecision, state: ThreadState): Promise<Ending> {
  switch (decision.state) {
    case "fresh":
      if (state.head !== undefined) await closeOpenCalls(context, state);
      return await invoke(context, { kind: "fresh", input: await inputOf(context) });
    case "resume":
      return await invoke(context, { kind: "resume" });
    case "answer": {
      if (context.request.kind !== "answer") throw new TypeError("only an answer can be decided as one");
      await useAnswer(context.parts.pool, context.request.interruptId);
      return await invoke(context, {
        kind: "answer",
        interruptId: context.request.interruptId,
        value: context.request.value,
      });
    }
    case "interrupted":
    case "finished":
    case "settled":
    case "not_yet":
    case "refused":
      return endMarked(context, decision, state);
    default:
      return decision satisfies never;
  }
}

/** What the run starts with: the message's own input, or what stands behind its reference. */
async function inputOf({ request, agent, signal }: RunContext): Promise<unknown> {
  if (request.kind !== "run") return null;
  return request.inputRef === undefined
    ? request.input
    : loadedInput(agent, request.inputRef, { runId: request.runId, threadId: request.threadId, signal });
}

async function invoke(context: RunContext, invocation: Invocation): Promise<Ending> {
  const { agent, parts, request, delivery, savers, lease } = context;
  const control = new RunControl();
  // SIGTERM and SQS's twelve hours ask for the same: stop at the next checkpoint, and the message is given back.
  const release = onFirst([parts.drain.asked, lease.wall.asked], () => control.requestDrain("handover"));
  const bodies = new NodeBodies();
  try {
    const result: DriveResult = await drive(agent, invocation, {
      runId: request.runId,
      threadId: request.threadId,
      saver: savers.saver,
      effects: {
        ledger: parts.ledger,
        runId: request.runId,
        deliveryId: delivery.deliveryId,
        holder: parts.worker,
        threadFence: context.fence,
        gate: parts.spanGate,
        signal: context.signal,
        isLeaseLive: () => lease.isLive(),
        ...(delivery.receiveCount === undefined ? {} : { receiveCount: delivery.receiveCount }),
      },
      signal: context.signal,
      control,
      onBody: bodies.add,
      recursionLimit: parts.config.recursionLimit,
      toolsPerRun: parts.config.toolsPerRun,
    });
    return await endDriven(context, result);
  } catch (error) {
    if (!isControlFlow(error) && !context.cancel.signal.aborted) recordError(delivery.root, error);
    throw error;
  } finally {
    release();
    if (bodies.running > 0) await bodiesEnded(context, bodies);
  }
}

/**
 * A node that ignores its signal goes on after its run was stopped. The lease is held for it, so that no second copy begins
 * beside it (Q04); only a lease that is gone, or a process that leaves, does not wait.
 */
async function bodiesEnded({ parts, delivery, lease }: RunContext, bodies: NodeBodies): Promise<void> {
  delivery.log.warn(
    { bodies: bodies.running },
    "the run was stopped and nodes of it go on; its lease is held until they end",
  );
  const left = firstOf([lease.signal, parts.drain.forced, lease.wall.forced]);
  await bodies.ended(left.signal).finally(left.release);
}
