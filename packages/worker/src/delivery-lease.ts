// What one leased delivery works with: its lease, and the saver of its thread.
import { trace } from "@opentelemetry/api";
import { EVENT } from "@reprise/tracing";
import type { Delivery, WorkerParts } from "./delivery.ts";
import { beatDelivery } from "./delivery-rows.ts";
import type { LeasedRun } from "./delivery-run.ts";
import { type DeliverySaver, deliverySaver } from "./delivery-saver.ts";
import { errorText } from "./errors.ts";
import { Lease } from "./lease.ts";
import type { Cancel } from "./run-cancel.ts";

type Cancellable = LeasedRun & { readonly cancel: Cancel };

/** The lease of a delivery, beating: SQS first, then the thread's row, whose answer brings a cancel along. */
export function startLease(parts: WorkerParts, delivery: Delivery, leased: Cancellable): Lease {
  const { threadId } = leased.request;
  const lease = new Lease(
    {
      visibilityMs: parts.config.visibilitySeconds * 1000,
      clock: parts.clock,
      random: parts.random,
      beats: parts.beats,
      extend: (visibilityMs) => parts.settler.extend(delivery.receipt.handle, visibilityMs / 1000),
      renew: async (leaseMs) => {
        const beat = { deliveryId: delivery.deliveryId, threadId, fence: leased.fence, leaseMs };
        const { held, cancelAsked } = await beatDelivery(parts.pool, beat);
        if (held && cancelAsked) leased.cancel.ask();
        return held;
      },
      onLost: (error) => {
        delivery.root.addEvent(EVENT.leaseLost, { reason: error.message });
        delivery.log.warn({}, error.message);
      },
      onWallNear: () => {
        delivery.root.addEvent(EVENT.leaseWallNear);
        delivery.log.warn(
          {},
          "SQS's twelve hours are nearly over: the run stops at its next checkpoint and is given back",
        );
      },
      onBeatFailed: (error) => delivery.log.warn({ error: errorText(error) }, "a beat failed; trying again"),
    },
    delivery.receivedAt,
  );
  lease.start();
  return lease;
}

/** The saver lent to the graph for this delivery, under its fence; each checkpoint says who wrote it. */
export function saverFor(
  parts: WorkerParts,
  delivery: Delivery,
  leased: Cancellable & { readonly lease: Lease },
): DeliverySaver {
  const context = trace.getActiveSpan()?.spanContext();
  return deliverySaver({
    pool: parts.pool,
    schema: parts.config.checkpointSchema,
    runId: leased.request.runId,
    threadId: leased.request.threadId,
    fence: leased.fence,
    isLive: () => leased.lease.isLive(),
    onCancelAsked: () => leased.cancel.ask(),
    metadata: {
      run_id: leased.request.runId,
      delivery_id: delivery.deliveryId,
      worker: parts.worker,
      ...(delivery.receiveCount === undefined ? {} : { receive_count: delivery.receiveCount }),
      ...(context === undefined ? {} : { trace_id: context.traceId, root_span_id: context.spanId }),
    },
  });
}
