// Step 2 of 5 - run: what is known of a run and its earlier deliveries in, what to do with this delivery out. Pure.
import type { RefusalCode } from "./errors.ts";

/** `finished`, `cancelled` and `rejected` in this row are the only proof that a run needs nothing more. */
export type RunStatus =
  | "queued"
  | "running"
  | "interrupted"
  | "finished"
  | "failed"
  | "cancelled"
  | "rejected"
  | "parked"
  | "abandoned";

export interface RunRow {
  readonly runId: string;
  readonly threadId: string;
  readonly agent: string;
  /** Place on the thread: a run waits only for lower ones. */
  readonly position: bigint;
  readonly status: RunStatus;
  readonly inputHash: string;
  readonly graphFingerprint: string | undefined;
  readonly firstCheckpointId: string | undefined;
  readonly latestCheckpointId: string | undefined;
  readonly latestStep: number | undefined;
  readonly lostDeliveries: number;
  readonly failedDeliveries: number;
  /** True when this very admission created the row. */
  readonly isNew: boolean;
}

/** How a delivery ended. Only `lost` and `failed_retry` count as faults of its run. */
export type DeliveryOutcome =
  | "finished"
  | "interrupted"
  | "failed"
  | "failed_retry"
  | "handback"
  | "deferred"
  | "not_yet"
  | "waiting"
  | "settled"
  | "refused"
  | "returned"
  | "parked"
  | "cancelled"
  | "lease_lost"
  | "lost";

/** An earlier delivery of the same run, as its row tells it. */
export interface EarlierDelivery {
  readonly deliveryId: string;
  readonly sqsMessageId: string;
  readonly receiveCount: number | undefined;
  readonly outcome: DeliveryOutcome | undefined;
  readonly traceId: string;
  readonly rootSpanId: string;
  readonly startedAtMs: number;
}

export interface ThreadLease {
  readonly runId: string;
  readonly deliveryId: string;
  readonly remainingMs: number;
}

/** An unfinished run of the same thread with a lower position. */
export interface LowerRun {
  readonly runId: string;
  readonly status: "queued" | "running" | "interrupted";
}

export interface AdmissionEvidence {
  readonly run: RunRow;
  readonly request: { readonly inputHash: string; readonly onBusy: "enqueue" | "reject"; readonly supersede: boolean };
  readonly sqsMessageId: string;
  readonly earlier: readonly EarlierDelivery[];
  /** The thread's lease if it is live. */
  readonly lease: ThreadLease | undefined;
  readonly lower: readonly LowerRun[];
  readonly faultLimit: number;
}

export type Admission =
  | { readonly state: "settle"; readonly reason: string }
  | { readonly state: "defer"; readonly afterMs: number; readonly reason: string }
  | { readonly state: "wait"; readonly reason: string }
  | { readonly state: "refuse"; readonly code: RefusalCode; readonly reason: string }
  | {
      readonly state: "take";
      readonly reopen: boolean;
      readonly supersedes: readonly string[];
      readonly reason: string;
    };

/** Decides what a delivery of a run request leads to. DESIGN "Admit"; the tests are one per line of it. */
export function decideAdmission(evidence: AdmissionEvidence): Admission {
  const { run, request, lease } = evidence;
  if (run.inputHash !== request.inputHash) {
    return { state: "refuse", code: "RUN_ID_REUSED", reason: `run ${run.runId} was asked for with another input` };
  }
  const ended = decideEnded(evidence);
  if (ended !== undefined) return ended;
  if (lease !== undefined && lease.runId === run.runId) {
    return { state: "defer", afterMs: lease.remainingMs, reason: "another worker holds this run" };
  }
  const busy = decideBusy(evidence);
  if (busy !== undefined) return busy;
  if (lease !== undefined) {
    return { state: "defer", afterMs: lease.remainingMs, reason: `run ${lease.runId} still holds the thread` };
  }
  if (run.lostDeliveries + run.failedDeliveries >= evidence.faultLimit && !isReopened(evidence)) {
    return {
      state: "refuse",
      code: "FAULT_LIMIT",
      reason: `${run.lostDeliveries} lost and ${run.failedDeliveries} failed deliveries`,
    };
  }
  return {
    state: "take",
    reopen: isReopened(evidence),
    supersedes: evidence.lower.filter((lower) => lower.status === "interrupted").map((lower) => lower.runId),
    reason: isReopened(evidence) ? `reopened after ${run.status}` : "free",
  };
}

/** Finished is settled on sight. Failed, parked and abandoned reopen only under a message SQS has not shown us before: a redrive. */
function decideEnded(evidence: AdmissionEvidence): Admission | undefined {
  const { status } = evidence.run;
  switch (status) {
    case "finished":
    case "cancelled":
    case "rejected":
      return { state: "settle", reason: `already ${status}` };
    case "interrupted":
      return { state: "settle", reason: "waits for a human answer" };
    case "failed":
    case "parked":
    case "abandoned":
      return isReopened(evidence) ? undefined : { state: "settle", reason: `already ${status}` };
    case "queued":
    case "running":
      return undefined;
    default:
      return status satisfies never;
  }
}

function isReopened({ run, sqsMessageId, earlier }: AdmissionEvidence): boolean {
  const ended = run.status === "failed" || run.status === "parked" || run.status === "abandoned";
  return ended && earlier.every((delivery) => delivery.sqsMessageId !== sqsMessageId);
}

function decideBusy({ lower, request }: AdmissionEvidence): Admission | undefined {
  const awaiting = lower.find((run) => run.status === "interrupted");
  if (awaiting !== undefined && !request.supersede) {
    return { state: "refuse", code: "THREAD_AWAITS_ANSWER", reason: `run ${awaiting.runId} waits for a human` };
  }
  const working = lower.find((run) => run.status !== "interrupted");
  if (working === undefined) return undefined;
  if (request.onBusy === "reject") {
    return { state: "refuse", code: "THREAD_BUSY", reason: `run ${working.runId} is not finished` };
  }
  return { state: "wait", reason: `run ${working.runId} comes first` };
}
