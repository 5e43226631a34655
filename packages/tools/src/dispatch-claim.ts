// Claims a call's key, and waits, bounded, while another holder is at it.
import type { Clock } from "./dispatch-body.ts";
import type { ClaimDecision, EffectClaim, Ledger } from "./effect.ts";

export type FinalDecision = Exclude<ClaimDecision, { readonly kind: "wait" }> | StillRunning;

/** The other holder outlived even its own lease's end by our patience. */
export interface StillRunning {
  readonly kind: "still_running";
  readonly seen: number;
  readonly holder: string;
}

export interface ClaimOptions {
  readonly clock: Clock;
  /** How long to wait for another holder in all. */
  readonly waitMaxMs: number;
  /** Longest pause between two looks. */
  readonly pollMs: number;
  /** Rejects when the run has stopped or lost its lease; asked before every look. */
  readonly check: () => void;
}

export async function claimOrWait(ledger: Ledger, claim: EffectClaim, options: ClaimOptions): Promise<FinalDecision> {
  const { clock, waitMaxMs, pollMs } = options;
  const deadlineMs = clock.now() + waitMaxMs;
  for (;;) {
    options.check();
    const decision = await ledger.claim(claim);
    if (decision.kind !== "wait") return decision;
    const leftMs = deadlineMs - clock.now();
    if (leftMs <= 0) return { kind: "still_running", seen: decision.seen, holder: decision.holder };
    // One millisecond past the lease, so that the look after it finds it run out.
    await clock.sleep(Math.min(leftMs, pollMs, decision.untilMs + 1));
  }
}
