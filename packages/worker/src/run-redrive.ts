// Redrive: a parked message goes back to its queue, under a new SQS message id and the same run. What may, and its statements.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import { parseMessage } from "./message.ts";
import type { RunStatus } from "./run.ts";

const s = PRODUCT.schema;

/** A redrive that was begun and not finished is taken over after this: its process died, and whether it sent is not known. */
const TAKE_OVER_SECONDS = 60;

/** A parked message with its run, without its bytes. Times of PostgreSQL's clock. */
export interface ParkedRow {
  readonly parked_id: string;
  readonly code: string;
  readonly reason: string;
  readonly run_id: string | null;
  readonly thread_id: string | null;
  readonly agent: string | null;
  readonly run_status: RunStatus | null;
  readonly receive_count: number | null;
  readonly body_bytes: number;
  readonly queue_url: string;
  readonly sqs_message_id: string;
  readonly trace_id: string;
  readonly parked_at: Date;
  readonly redriven_at: Date | null;
  readonly redriven_by: string | null;
  /** The SQS message id that the redriven copy got. */
  readonly redriven_as: string | null;
}

export interface ParkedMessage extends ParkedRow {
  readonly body: Buffer;
  readonly message_attributes: string;
}

const COLUMNS = `
  p.parked_id::text as parked_id, p.code, p.reason, p.run_id, p.thread_id, r.agent, r.status as run_status, p.receive_count,
  octet_length(p.body) as body_bytes, p.queue_url, p.sqs_message_id, p.trace_id, p.parked_at, p.redriven_at, p.redriven_by, p.redriven_as`;
const FROM = `${s}.parked p left join ${s}.runs r on r.run_id = p.run_id`;

/** Newest first. */
export async function listParked(db: Queryable, max: number): Promise<readonly ParkedRow[]> {
  const { rows } = await db.query(`select ${COLUMNS} from ${FROM} order by p.parked_id desc limit $1`, [max]);
  // The shape is the select list of the statement.
  return rows as unknown as readonly ParkedRow[];
}

/** By the number of its row, else by its run: then the newest of it. */
export async function readParked(db: Queryable, id: string): Promise<ParkedMessage | undefined> {
  const { rows } = await db.query(
    `select ${COLUMNS}, p.body, p.message_attributes from ${FROM}
     where p.run_id = $1 or p.parked_id::text = $1 order by p.parked_id::text = $1 desc, p.parked_id desc limit 1`,
    [id],
  );
  // As above.
  return rows[0] as unknown as ParkedMessage | undefined;
}

export type RedriveDecision =
  /** `reopen`: the answer's run has to be opened first, since an answer opens none. */
  | { readonly state: "send"; readonly reopen: boolean }
  | { readonly state: "already"; readonly reason: string }
  | { readonly state: "refuse"; readonly reason: string };

/** Pure. What a worker would only settle or refuse again is not sent. */
export function decideRedrive(
  parked: Pick<ParkedRow, "run_status" | "run_id" | "redriven_at" | "redriven_as" | "parked_at">,
  kind: ReturnType<typeof kindOf>,
): RedriveDecision {
  if (parked.redriven_at !== null && parked.redriven_at >= parked.parked_at) {
    return {
      state: "already",
      reason: `sent again at ${parked.redriven_at.toISOString()} as ${parked.redriven_as ?? "?"}`,
    };
  }
  const status = parked.run_status;
  switch (status) {
    case null:
      return { state: "send", reopen: false };
    case "failed":
    case "parked":
    case "abandoned":
      return { state: "send", reopen: kind === "answer" };
    case "finished":
    case "cancelled":
      return { state: "refuse", reason: `its run ${parked.run_id} is ${status}: nothing of it is left to do` };
    case "rejected":
      return {
        state: "refuse",
        reason: `its run ${parked.run_id} was rejected before it began: send the wish under a new run_id`,
      };
    case "queued":
    case "running":
    case "interrupted":
      if (kind === "answer") return { state: "send", reopen: false };
      return { state: "refuse", reason: `its run ${parked.run_id} is ${status}: it goes on without this message` };
    default:
      return status satisfies never;
  }
}

export function kindOf(body: Buffer): "run" | "answer" | "other" {
  const message = parseMessage(body.toString("utf8"), { snsEnvelope: "unwrap" });
  return message.kind === "run" || message.kind === "answer" ? message.kind : "other";
}

/*
 * Noted before the send, so that two redrives at the same time send once; $2 is a person. The reopening is here for answers
 * alone: a run's own message is recognised by its new id and reopens at its admission, with the cause redrive. Both begin
 * the fault counters anew and withdraw a cancel.
 */
const BEGIN = `
  with mine as (
    update ${s}.parked set redrive_started_at = clock_timestamp(), redriven_by = $2
    where parked_id = $1::bigint and (redriven_at is null or redriven_at < parked_at)
      and (redrive_started_at is null or redrive_started_at < parked_at
        or redrive_started_at < clock_timestamp() - interval '${TAKE_OVER_SECONDS} seconds')
    returning run_id, redrive_started_at
  ), reopened as (
    update ${s}.runs set status = 'queued', lost_deliveries = 0, failed_deliveries = 0, cancel_requested_at = null, ended_at = null,
      updated_at = clock_timestamp()
    where $3::boolean and run_id = (select run_id from mine) and status in ('failed', 'parked', 'abandoned')
  )
  select redrive_started_at from mine`;

export interface RedriveNote {
  readonly parkedId: string;
  readonly by: string;
  readonly reopen: boolean;
}

/** False when another redrive of the same row is under way or done: then nothing may be sent. */
export async function beginRedrive(db: Queryable, note: RedriveNote): Promise<boolean> {
  const { rows } = await db.query(BEGIN, [note.parkedId, note.by, note.reopen]);
  return z.array(z.object({ redrive_started_at: z.date() })).parse(rows).length === 1;
}

/** Killed before this, after the send: a later redrive sends once more, and the run is done once all the same (its run_id). */
export async function endRedrive(db: Queryable, parkedId: string, sqsMessageId: string): Promise<void> {
  await db.query(
    `update ${s}.parked set redriven_at = clock_timestamp(), redriven_as = $2 where parked_id = $1::bigint`,
    [parkedId, sqsMessageId],
  );
}

/** SQS refused the send: nothing went out, so the next redrive need not wait. */
export async function abandonRedrive(db: Queryable, parkedId: string): Promise<void> {
  await db.query(
    `update ${s}.parked set redrive_started_at = null where parked_id = $1::bigint and redriven_at is null`,
    [parkedId],
  );
}
