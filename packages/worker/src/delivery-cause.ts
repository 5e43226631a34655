// Why this delivery exists: pure, from the rows of the earlier ones and what SQS counted.
import type { EarlierDelivery } from "./run.ts";

export type RedeliveryCause =
  | "none"
  | "handback"
  | "visibility_expired"
  | "failed_retry"
  | "deferred"
  | "not_yet"
  | "lease_lost"
  | "phantom_receive"
  | "redrive"
  | "enqueued_twice"
  | "unknown";

export interface CauseEvidence {
  readonly sqsMessageId: string;
  /** As SQS counted, or undefined when it did not say (case C06: never 1 by default). */
  readonly receiveCount: number | undefined;
  /** Earlier deliveries of this run, oldest first, the lost ones already ended by the burial. */
  readonly earlier: readonly EarlierDelivery[];
  /** The run had ended as failed, parked or abandoned and this message reopened it. */
  readonly reopened: boolean;
}

export interface Redelivery {
  readonly cause: RedeliveryCause;
  /** True when anything was delivered before: what `agent.redelivered` says, for backends that cannot compare numbers. */
  readonly redelivered: boolean;
  /** Receives that SQS counted for this message and no worker of ours has a row for; undefined without a count. */
  readonly unseenReceives: number | undefined;
}

/**
 * Names the cause. Identity beats counting: a run under a second SQS message id was enqueued twice or redriven,
 * whatever its receive count says (case C14); a count above one without a row is a receive nobody handled (case C04).
 */
export function redeliveryCause(evidence: CauseEvidence): Redelivery {
  const same = evidence.earlier.filter((delivery) => delivery.sqsMessageId === evidence.sqsMessageId);
  const unseen = evidence.receiveCount === undefined ? undefined : Math.max(0, evidence.receiveCount - same.length - 1);
  const counted = (evidence.receiveCount ?? 1) > 1;
  return {
    cause: causeOf(evidence, same, counted),
    // A run that only waited its turn was never worked on: our own re-send is its first delivery in all but name.
    redelivered: counted || evidence.earlier.some((delivery) => delivery.outcome !== "waiting"),
    unseenReceives: unseen,
  };
}

function causeOf(evidence: CauseEvidence, same: readonly EarlierDelivery[], counted: boolean): RedeliveryCause {
  const last = same.at(-1);
  if (last === undefined) {
    if (evidence.reopened) return "redrive";
    if (evidence.earlier.length > 0) return enqueuedAgain(evidence.earlier, counted);
    return counted ? "phantom_receive" : "none";
  }
  switch (last.outcome) {
    case "lost":
      return "visibility_expired";
    case "handback":
    case "failed_retry":
    case "deferred":
    case "not_yet":
    case "lease_lost":
      return last.outcome;
    case "returned":
      return "not_yet";
    case undefined:
      return "unknown";
    default:
      // It ended for good, and SQS delivered it again: the delete was not seen, or came too late.
      return counted ? "visibility_expired" : "unknown";
  }
}

/** A waiting run is re-sent by ourselves under a new message id when its thread frees: that is no duplicate. */
function enqueuedAgain(earlier: readonly EarlierDelivery[], counted: boolean): RedeliveryCause {
  if (earlier.at(-1)?.outcome !== "waiting") return "enqueued_twice";
  return counted ? "phantom_receive" : "none";
}
