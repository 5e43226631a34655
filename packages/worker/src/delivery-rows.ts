// Delivery rows: begin (with the burial of the lost), beat, end. One statement each, all on PostgreSQL's clock.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import type { DeliveryOutcome } from "./run.ts";
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

/*
 * Begin: under our new fence, mark the run running, put the fence on our row, and end every unended delivery of this
 * run under an older fence. The update returns a row to one caller only, so each obituary is written once, and never of
 * a living holder: it would have a newer fence than ours. A delivery without a fence died between its admission and its
 * lease; it is ended only when it is of the same message (SQS gave us a later receive) or long silent, since another
 * copy may be on its way to the lease at this moment, and would then find its own row ended. A redrive starts the counters at
 * zero: whoever is found lost then died after the run had ended. The lost deliveries that count are the latest ones, as many
 * as are counted, so those from before a redrive are not among them.
 */
const BEGIN = `
  with mine as (
    update ${s}.deliveries set fence = $3::bigint, last_beat = clock_timestamp(),
      checkpoint_at_begin = (select latest_checkpoint_id from ${s}.runs where run_id = $1)
    where delivery_id = $2 and ended_at is null returning 1
  ), lost as (
    update ${s}.deliveries d set ended_at = clock_timestamp(), outcome = 'lost'
    where d.run_id = $1 and d.ended_at is null and d.delivery_id <> $2 and exists (select 1 from mine)
      and (d.fence < $3::bigint or (d.fence is null and (d.sqs_message_id = $4 or d.started_at < clock_timestamp() - interval '1 minute')))
    returning d.*
  ), run as (
    update ${s}.runs set status = 'running', graph_fingerprint = coalesce(graph_fingerprint, $5), ended_at = null, interrupts = null,
      lost_deliveries = case when $6 then 0 else lost_deliveries + (select count(*)::int from lost where fence is not null) end,
      failed_deliveries = case when $6 then 0 else failed_deliveries end,
      cancel_requested_at = case when $6 then null else cancel_requested_at end, updated_at = clock_timestamp()
    where run_id = $1 and exists (select 1 from mine) returning *
  ), counted as (
    select checkpoint_at_begin, alone, fence from (
      select * from ${s}.deliveries where run_id = $1 and outcome = 'lost' union all select * from lost) every
    where fence is not null order by fence desc limit (select lost_deliveries from run)
  )
  select (select count(*)::int from mine) as mine, (select cancel_requested_at is not null from run) as cancel_asked, (select lost_deliveries + failed_deliveries from run) as faults,
    coalesce((select json_agg(row_to_json(l) order by l.started_ms) from (select ${lostColumns("lost")} from lost) l), '[]') as lost,
    coalesce((select json_agg(row_to_json(c) order by c.fence desc) from counted c), '[]') as counted,
    (select json_build_object('first_step', first_step, 'latest_step', latest_step, 'latest_checkpoint_id', latest_checkpoint_id)
      from run) as standing`;

const begunSchema = z.object({
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
  const { rows } = await db.query(BEGIN, [
    begin.runId,
    begin.deliveryId,
    begin.fence,
    begin.sqsMessageId,
    begin.graphFingerprint,
    begin.reopen,
  ]);
  const answer = begunSchema.parse(rows[0]);
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

export interface EndDelivery {
  readonly deliveryId: string;
  readonly outcome: DeliveryOutcome;
  readonly code?: string;
  readonly reason?: string;
  /** Release this lease in the same statement, so that nobody sees an ended delivery hold a thread. */
  readonly release?: { readonly threadId: string; readonly fence: string };
}

/** Ends the row and gives the thread back (the lease row goes, so a straggling write is refused too). False when somebody else ended it: we were thought lost (`agent.superseded`). */
export async function endDelivery(db: Queryable, end: EndDelivery): Promise<boolean> {
  const { rows } = await db.query(
    `with ended as (
       update ${s}.deliveries set ended_at = clock_timestamp(), outcome = $2, outcome_code = $3, outcome_reason = $4
       where delivery_id = $1 and ended_at is null returning 1
     ), released as (
       delete from ${s}.thread_leases where thread_id = $5 and fence = $6::bigint
     )
     select count(*)::int as ended from ended`,
    [
      end.deliveryId,
      end.outcome,
      end.code ?? null,
      end.reason ?? null,
      end.release?.threadId ?? null,
      end.release?.fence ?? null,
    ],
  );
  return z.object({ ended: z.number() }).parse(rows[0]).ended === 1;
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
