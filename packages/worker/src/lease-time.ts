// Lease arithmetic: pure. A redelivery by expiry must find a dead lease, so the lease ends before the visibility does.

/** Kept between the end of the lease and the end of the visibility, for clocks' rates and a reply's way back. */
const MARGIN_MAX_MS = 5_000;
/** With a short visibility the margin is a share of it. */
const MARGIN_SHARE = 0.2;

export function leaseMarginMs(visibilityMs: number): number {
  return Math.min(MARGIN_MAX_MS, visibilityMs * MARGIN_SHARE);
}

/**
 * How long the lease may run, asked for `elapsedMs` after the send of the request that set the visibility: SQS counts from
 * a moment between that send and its reply, so the send is the safe end to count from. Never negative.
 */
export function leaseLengthMs(visibilityMs: number, elapsedMs: number): number {
  return Math.max(0, visibilityMs - elapsedMs - leaseMarginMs(visibilityMs));
}

/** SQS extends no visibility past twelve hours after the receive, and refuses to (ChangeMessageVisibility, SQS API reference). */
export const WALL_MS = 43_200_000;
/** The receive is counted from its answer, SQS counts from the hand-out: what lies between may not be asked for. */
const WALL_MARGIN_MS = 5_000;
/** Before the wall the run is asked to stop at its next checkpoint, and later made to stop wherever it is. */
const WALL_ASK_MS = 600_000;
const WALL_FORCE_MS = 60_000;

/** The visibility that may still be asked for, `sinceMs` after the receive: whole seconds, zero when the wall is reached (Q16). */
export function visibilityBeforeWallMs(visibilityMs: number, sinceMs: number): number {
  const left = Math.floor((WALL_MS - WALL_MARGIN_MS - sinceMs) / 1000) * 1000;
  return Math.max(0, Math.min(visibilityMs, left));
}

/** How long after the receive the hand-over before the wall is asked for, and forced. */
export const WALL_HANDOVER = { askMs: WALL_MS - WALL_ASK_MS, forceMs: WALL_MS - WALL_FORCE_MS } as const;

/** When the next beat is due: a third of the visibility, shortened by up to a fifth of itself so that workers spread out. */
export function beatDelayMs(visibilityMs: number, random: number): number {
  const third = visibilityMs / 3;
  return third * (1 - 0.2 * random);
}

/** Full jitter (AWS Architecture Blog, "Exponential Backoff And Jitter"): anywhere between zero and the capped doubling. */
export function backoffMs(
  failures: number,
  random: number,
  options: { readonly baseMs: number; readonly maxMs: number },
): number {
  const ceiling = Math.min(options.maxMs, options.baseMs * 2 ** Math.min(failures, 30));
  return ceiling * random;
}
