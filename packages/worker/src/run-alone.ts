// Working alone: a run that was lost without progress waits until its worker does nothing else, and keeps it that way.
import { ATTR } from "@reprise/tracing";
import type { Ending } from "./delivery.ts";
import { noteAlone } from "./delivery-rows.ts";
import type { RunContext } from "./delivery-run.ts";
import { endDeferred, handBack } from "./run-end.ts";
import { firstOf } from "./signals.ts";

/**
 * Runs `go` with the worker to itself. The wait ends with the lease, the drain, or the run deadline, which each of the others
 * has too and counts from an earlier start; then the message is given back, and no fault is counted.
 */
export async function workAlone(context: RunContext, go: () => Promise<Ending>): Promise<Ending> {
  const { parts, lease, deadline, delivery } = context;
  const { asked } = parts.drain;
  const stop = firstOf([context.signal, asked]);
  const entry = await parts.gate.alone(stop.signal).finally(stop.release);
  switch (entry.state) {
    case "alone":
      try {
        // Noted before the thread's state is read: reading it may be what kills. Killed before this line, it was not alone.
        await noteAlone(parts.pool, delivery.deliveryId);
        delivery.root.setAttribute(ATTR.alone, true);
        deadline.restart();
        return await go();
      } finally {
        entry.leave();
      }
    case "busy":
      return endDeferred(context, "another run works alone on this worker, or waits to");
    case "waited":
      if (lease.signal.aborted) throw lease.signal.reason;
      if (asked.aborted) return handBack(context, "SIGTERM: before it could work alone");
      return endDeferred(context, `${entry.others} other deliveries did not end, and it has to work alone`);
    default:
      return entry satisfies never;
  }
}
