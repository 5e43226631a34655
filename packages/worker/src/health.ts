// Health: what the worker did lately in, alive or not and ready or not out, each with its reasons. Pure.
import type { PollState } from "./intake-poll.ts";

export type DatabaseState =
  | { readonly state: "reachable" }
  | { readonly state: "unreachable"; readonly reason: string };

export interface LiveEvidence {
  /** Monotonic, the intake's. */
  readonly nowMs: number;
  readonly draining: boolean;
  readonly poll: PollState;
  /** The event loop's worst delay in the last seconds. */
  readonly loopLagMs: number;
  /** How long ago the oldest dead lease ended whose run has not let go yet; 0 without one. */
  readonly leaseOverdueMs: number;
}

export interface ReadyEvidence {
  readonly nowMs: number;
  readonly draining: boolean;
  readonly poll: PollState;
  readonly database: DatabaseState;
}

/** `reasons` is empty exactly when the status is `pass`. Fit for a body that anybody may read: no addresses, no error texts. */
export interface Health {
  readonly status: "pass" | "fail";
  readonly reasons: readonly string[];
}

export const HEALTH_LIMITS = {
  /** A loop blocked longer than this answers nobody in time: no beat, no abort, no probe. */
  loopLagMs: 5_000,
  /** A run that has not let go this long after its lease ended holds a slot, and whatever it still does is not ours any more. */
  leaseOverdueMs: 120_000,
  /** Polls that the watchdog had to cut, in a row. One is a lost connection (complaint Q13); a third says that new ones hang, too. */
  stuckPolls: 3,
  /** A receive that is open this long beyond its wait time has outlived the watchdog itself. */
  pollSilentMs: 60_000,
  /** Receives that failed in a row before the worker says that it is not ready. */
  failedPolls: 3,
  /** Or the time since SQS last answered, beyond one long poll. */
  answerMs: 15_000,
} as const;

/**
 * Whether a restart would help. It answers from the worker's own progress and never from a dependency: with Postgres or SQS
 * away every replica would be restarted at once, and none would be better off. So failed receives leave it alone.
 */
export function decideLive(evidence: LiveEvidence, waitMs: number): Health {
  const { poll, nowMs } = evidence;
  const reasons: string[] = [];
  if (evidence.loopLagMs > HEALTH_LIMITS.loopLagMs)
    reasons.push(`the event loop was blocked for ${seconds(evidence.loopLagMs)}`);
  if (evidence.leaseOverdueMs > HEALTH_LIMITS.leaseOverdueMs)
    reasons.push(`a run has not let go ${seconds(evidence.leaseOverdueMs)} after its lease ended`);
  if (evidence.draining) return health(reasons);
  const stuck = poll.failing?.stuckInRow ?? 0;
  if (stuck >= HEALTH_LIMITS.stuckPolls) reasons.push(`${stuck} receives in a row got no answer at all and were cut`);
  const openMs = nowMs - (poll.openSince ?? nowMs);
  if (openMs > waitMs + HEALTH_LIMITS.pollSilentMs)
    reasons.push(`a receive of ${seconds(waitMs)} has been open for ${seconds(openMs)}`);
  return health(reasons);
}

/** Whether the worker gets work done: SQS answers it, PostgreSQL answers it, and it is not on its way out. */
export function decideReady(evidence: ReadyEvidence, waitMs: number): Health {
  const reasons: string[] = [];
  if (evidence.draining) reasons.push("draining");
  else reasons.push(...pollReasons(evidence, waitMs));
  if (evidence.database.state === "unreachable") reasons.push(`database: ${evidence.database.reason}`);
  return health(reasons);
}

function pollReasons({ poll, nowMs }: ReadyEvidence, waitMs: number): string[] {
  const { answeredAt, openSince, failing } = poll;
  if (failing !== undefined && failing.consecutive >= HEALTH_LIMITS.failedPolls)
    return [`${failing.consecutive} receives in a row failed, the last by ${failing.failure}`];
  if (answeredAt === undefined) return ["no receive has been answered yet"];
  // Nothing is asked while all slots are busy, and nothing has to be.
  const quietSince = failing === undefined ? openSince : answeredAt;
  const quietMs = nowMs - (quietSince ?? nowMs);
  return quietMs > waitMs + HEALTH_LIMITS.answerMs ? [`no receive has been answered for ${seconds(quietMs)}`] : [];
}

function health(reasons: readonly string[]): Health {
  return { status: reasons.length === 0 ? "pass" : "fail", reasons };
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}
