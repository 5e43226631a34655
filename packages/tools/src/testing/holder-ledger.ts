// A ledger that stands still where the kit wants to strike: right before and after a claim, and around the settlement.
import type { Ledger } from "../effect.ts";
import type { Delivery } from "./holder-messages.ts";
import type { Point } from "./points.ts";

/** Resolves at once, except at the point of this delivery. */
export type StopAt = (point: Point) => Promise<void>;

export function stoppingLedger(inner: Ledger, delivery: Delivery, stop: StopAt): Ledger {
  const { leaseMs, retentionMs } = delivery;
  return {
    claim: async (claim) => {
      await stop("before_claim");
      const changed = { ...claim, leaseMs, ...(retentionMs === undefined ? {} : { retentionMs }) };
      const decision = await inner.claim(changed);
      // Whoever waits or replays holds nothing: a strike there would show nothing.
      if (decision.kind === "execute" || decision.kind === "resend" || decision.kind === "reconcile") {
        await stop("after_claim");
      }
      return decision;
    },
    settle: async (settlement) => {
      await stop("after_reply");
      const answer = await inner.settle(settlement);
      await stop("after_settle");
      return answer;
    },
    release: (claim) => inner.release(claim),
    find: (key) => inner.find(key),
    findEcho: (query) => inner.findEcho(query),
    openExecutions: (deliveryId) => inner.openExecutions(deliveryId),
  };
}
