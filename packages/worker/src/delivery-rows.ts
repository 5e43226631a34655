// Delivery rows: begin (with the burial of the lost), notes, beat. One statement each, all on PostgreSQL's clock; delivery-end.ts ends them.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import { type LostDelivery, progressOf } from "./run-progress.ts";

const s = PRODUCT.schema;

/** A delivery that ended without saying so, ended now by its guarded update: whoever got the row tells its story. */
export interface LostDeliveryRow {
  readonly deliveryId: string;
  readonly sqsMessageId: string;
  readonly receiveCount: number | undefined;
  readonly worker: string;
  readonly traceId: string;
  readonly rootSpanId: string;
  readonly startedAtMs: number;
  readonly lastBeatAtMs: number | undefined;
  readonly fenced: boolean;
}

/** The columns of a lost delivery, for the two statements that end one; milliseconds as float8, which pg reads as numbers. */
export function lostColumns(from: string): string {
  return `${from}.delivery_id, ${from}.sqs_message_id, ${from}.receive_count, ${from}.worker, ${from}.trace_id, ${from}.root_span_id,
    ${from}.fence is not null as fenced, (extract(epoch from ${from}.started_at) * 1000)::float8 as started_ms,
    (extract(epoch from ${from}.last_beat) * 1000)::float8 as beat_ms`;
}

export const lostSchema = z.object({
  delivery_id: z.string(),
  sqs_message_id: z.string(),
  receive_count: z.number().nullable(),
  worker: z.string(),
  trace_id: z.string(),
  root_span_id: z.string(),
  started_ms: z.number(),
  beat_ms: z.number().nullable(),
  fenced: z.boolean(),
});

export const begunSchema = z.object({
  mine: z.number(),
  cancel_asked: z.boolean().nullable(),
  faults: z.number().nullable(),
  lost: z.array(lostSchema),
  counted: z.array(z.object({ checkpoint_at_begin: z.string().nullable(), alone: z.boolean() })),
  standing: z
    .object({
      first_step: z.number().nullable(),
      latest_step: z.number().nullable(),
      latest_checkpoint_id: z.string().nullable(),
    })
    .nullable(),
});

export interface BeginDelivery {
  readonly runId: string;
  readonly deliveryId: string;
  readonly fence: string;
  readonly sqsMessageId: string;
  readonly graphFingerprint: string;
  /** A redrive starts the fault counters again. */
  readonly reopen: boolean;
}

export interface BegunDelivery {
  /** The deliveries this call ended. */
  readonly lost: readonly LostDeliveryRow[];
  /** All faults of the run, those of `lost` among them: the admission could not know of these yet. */
  readonly faults: number;
  /** Those lost deliveries among the faults, most recent first, and whether the run got on in them. */
  readonly lostWork: readonly LostDelivery[];
  /** Somebody asked for the run's end, and the delivery that was to end it is among the lost, or handed back. */
  readonly cancelAsked: boolean;
}

/** @returns undefined when our own row was ended meanwhile: we are the late one. */
export async function beginDelivery(db: Queryable, begin: BeginDelivery): Promise<BegunDelivery | undefined> {
  const { rows } = await db.query(`select ${s}.begin_delivery($1, $2, $3::bigint, $4, $5, $6) as begun`, [
    begin.runId,
    begin.deliveryId,
    begin.fence,
    begin.sqsMessageId,
    begin.graphFingerprint,
    begin.reopen,
  ]);
  return begunOf(begunSchema.parse(rows[0]?.["begun"]));
}

/** What `begin_delivery` found, read; undefined as for `beginDelivery`. */
export function begunOf(answer: z.infer<typeof begunSchema>): BegunDelivery | undefined {
  if (answer.mine === 0) return undefined;
  const standing = {
    firstStep: answer.standing?.first_step ?? undefined,
    latestStep: answer.standing?.latest_step ?? undefined,
    latestCheckpointId: answer.standing?.latest_checkpoint_id ?? undefined,
  };
  const lostWork = answer.counted.map(({ checkpoint_at_begin, alone }) =>
    progressOf({ checkpointAtBegin: checkpoint_at_begin ?? undefined, alone }, standing),
  );
  return {
    lost: answer.lost.map(lostRowOf),
    faults: answer.faults ?? 0,
    lostWork,
    cancelAsked: answer.cancel_asked === true,
  };
}

export function lostRowOf(row: z.infer<typeof lostSchema>): LostDeliveryRow {
  return {
    deliveryId: row.delivery_id,
    sqsMessageId: row.sqs_message_id,
    receiveCount: row.receive_count ?? undefined,
    worker: row.worker,
    traceId: row.trace_id,
    rootSpanId: row.root_span_id,
    startedAtMs: row.started_ms,
    lastBeatAtMs: row.beat_ms ?? undefined,
    fenced: row.fenced,
  };
}

/** Notes why this delivery exists and where it resumed, for `reprise runs` and the next holder. */
export async function noteCause(
  db: Queryable,
  deliveryId: string,
  note: { readonly cause: string; readonly resumedFromStep: number | undefined },
): Promise<void> {
  await db.query(`update ${s}.deliveries set cause = $2, resumed_from_step = $3 where delivery_id = $1`, [
    deliveryId,
    note.cause,
    note.resumedFromStep ?? null,
  ]);
}

/** Notes that this delivery has its worker to itself, before it does anything that could kill it. */
export async function noteAlone(db: Queryable, deliveryId: string): Promise<void> {
  await db.query(`update ${s}.deliveries set alone = true where delivery_id = $1`, [deliveryId]);
}

export interface Beat {
  /** False when the fence is no longer ours. */
  readonly held: boolean;
  /** Somebody asked for the run's cancel: the beat brings it. */
  readonly cancelAsked: boolean;
}

/** One beat: lease and last_beat together. */
export async function beatDelivery(
  db: Queryable,
  beat: { readonly deliveryId: string; readonly threadId: string; readonly fence: string; readonly leaseMs: number },
): Promise<Beat> {
  const { rows } = await db.query(
    `with lease as (
       update ${s}.thread_leases set expires_at = clock_timestamp() + $4::int * interval '1 millisecond'
       where thread_id = $2 and fence = $3::bigint returning 1
     ), beat as (
       update ${s}.deliveries set last_beat = clock_timestamp() where delivery_id = $1 and exists (select 1 from lease) returning run_id
     )
     select (select count(*)::int from lease) as held,
       (select cancel_requested_at is not null from ${s}.runs r join beat on r.run_id = beat.run_id) as cancel_asked`,
    [beat.deliveryId, beat.threadId, beat.fence, Math.round(beat.leaseMs)],
  );
  const { held, cancel_asked } = z.object({ held: z.number(), cancel_asked: z.boolean().nullable() }).parse(rows[0]);
  return { held: held === 1, cancelAsked: cancel_asked === true };
}
