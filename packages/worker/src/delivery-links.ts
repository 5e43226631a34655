// The links from a delivery's root span to the earlier ones of its run: each is a trace of its own, and these are the way back.
import type { Span } from "@opentelemetry/api";
import type { LostDeliveryRow } from "./delivery-rows.ts";
import type { DeliveryOutcome, EarlierDelivery } from "./run.ts";

/**
 * Links to each lost delivery and to the last that worked on the run, days before a human's answer as it may have been. The ids
 * come from the rows, so no process has to remember them (F04; `delivery-spans.real.test.ts`).
 *
 * @param earlier oldest first
 */
export function linkEarlier(
  root: Span,
  earlier: readonly EarlierDelivery[],
  lost: readonly Pick<LostDeliveryRow, "deliveryId" | "traceId" | "rootSpanId">[],
): void {
  const lostIds = new Set(lost.map(({ deliveryId }) => deliveryId));
  const last = earlier.findLast(({ outcome, deliveryId }) => workedOn(outcome) && !lostIds.has(deliveryId));
  for (const { traceId, rootSpanId: spanId } of last === undefined ? lost : [...lost, last])
    root.addLink({ context: { traceId, spanId, traceFlags: 1, isRemote: true } });
}

/** Copies that were given back, settled or refused on sight say nothing of the run. */
function workedOn(outcome: DeliveryOutcome | undefined): boolean {
  return outcome !== undefined && !["deferred", "settled", "waiting", "refused", "returned"].includes(outcome);
}
