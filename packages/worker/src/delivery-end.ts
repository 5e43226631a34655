// The end of a delivery: its row, the lease and, when its run has finished or waits, the run, in one statement for all that end together.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import { RowBatch } from "./delivery-batch.ts";
import type { DeliveryOutcome } from "./run.ts";

const s = PRODUCT.schema;

export interface EndDelivery {
  readonly deliveryId: string;
  readonly outcome: DeliveryOutcome;
  readonly code?: string;
  readonly reason?: string;
  /** Release this lease in the same statement, so that nobody sees an ended delivery hold a thread. */
  readonly release?: { readonly threadId: string; readonly fence: string };
  /** Mark the run finished with this result, under the fence of `release`: without it nothing at all is written. */
  readonly finished?: { readonly runId: string; readonly result: string };
  /** Mark the run as waiting for answers, likewise; not when its cancel was asked, see `cancelAsked`. */
  readonly interrupted?: { readonly runId: string; readonly interrupts: string };
}

export interface EndedDelivery {
  /** The lease was still ours when it was given back; true when none was to be given back. */
  readonly held: boolean;
  /** False when somebody else ended the row: we were thought lost (`agent.superseded`). */
  readonly ended: boolean;
  /** True when `interrupted` met a run whose cancel was asked: nothing was written, the caller ends it as cancelled. */
  readonly cancelAsked: boolean;
}

/** Deliveries that end within this share a statement, milliseconds. */
const GATHER_MS = 8;

const answerSchema = z.object({
  ended: z.object({
    deliveryId: z.string(),
    held: z.boolean(),
    ended: z.boolean(),
    cancelAsked: z.boolean().default(false),
  }),
});

/** The lease row goes with the lease, so a straggling write is refused, too. */
export async function endDeliveries(
  db: Queryable,
  ends: readonly EndDelivery[],
): Promise<ReadonlyMap<string, EndedDelivery>> {
  const { rows } = await db.query(`select ${s}.end_delivery(e) as ended from json_array_elements($1::json) e`, [
    JSON.stringify(ends.map(asked)),
  ]);
  return new Map(rows.map((row) => answerSchema.parse(row).ended).map((ended) => [ended.deliveryId, ended]));
}

function asked({ release, ...end }: EndDelivery): Readonly<Record<string, unknown>> {
  const runId = (end.finished ?? end.interrupted)?.runId;
  return { ...end, ...release, ...(runId === undefined ? {} : { runId }) };
}

export type DeliveryEnds = RowBatch<EndDelivery, EndedDelivery>;

export function deliveryEnds(db: Queryable): DeliveryEnds {
  return new RowBatch({
    send: (ends) => endDeliveries(db, ends),
    idOf: (end) => end.deliveryId,
    lockOf: (end) => end.release?.threadId ?? "",
    gatherMs: GATHER_MS,
  });
}
