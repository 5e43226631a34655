// Run rows: the statements around an admission and an end. One round trip each; decisions are made in run.ts.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import { storedAttributes } from "./message-attributes.ts";
import type { AdmissionEvidence, EarlierDelivery, LowerRun, RunRow, RunStatus, ThreadLease } from "./run.ts";
import { CANCELLED } from "./run-cancel.ts";

const s = PRODUCT.schema;

/** What a delivery writes about itself before anything else. */
export interface DeliveryStart {
  readonly deliveryId: string;
  readonly sqsMessageId: string;
  readonly receiveCount: number | undefined;
  readonly runId: string;
  readonly threadId: string;
  readonly worker: string;
  readonly traceId: string;
  readonly rootSpanId: string;
}

export type RunEvidence = Pick<AdmissionEvidence, "run" | "earlier" | "lease" | "lower">;

// The insert is invisible to the selects beside it (one snapshot), so `earlier` never holds this very delivery.
const INSERT_DELIVERY = `
  delivery as (
    insert into ${s}.deliveries (delivery_id, sqs_message_id, receive_count, run_id, thread_id, worker, trace_id, root_span_id)
    values ($1, $2, $3, $4, $5, $6, $7, $8)
  )`;

const EVIDENCE = `
  select run.run_id, run.thread_id, run.agent, run.position::text as position, run.status, run.input_hash, run.graph_fingerprint,
    run.first_checkpoint_id, run.latest_checkpoint_id, run.latest_step, run.lost_deliveries, run.failed_deliveries, run.is_new,
    coalesce((select json_agg(json_build_object(
        'deliveryId', d.delivery_id, 'sqsMessageId', d.sqs_message_id, 'receiveCount', d.receive_count, 'outcome', d.outcome,
        'traceId', d.trace_id, 'rootSpanId', d.root_span_id, 'startedAtMs', extract(epoch from d.started_at) * 1000) order by d.started_at)
      from (select * from ${s}.deliveries where run_id = $4 order by started_at desc limit 100) d), '[]') as earlier,
    (select json_build_object('runId', l.run_id, 'deliveryId', l.delivery_id,
        'remainingMs', extract(epoch from l.expires_at - clock_timestamp()) * 1000)
      from ${s}.thread_leases l where l.thread_id = run.thread_id and l.expires_at > clock_timestamp()) as lease,
    coalesce((select json_agg(json_build_object('runId', o.run_id, 'status', o.status) order by o.position)
      from ${s}.runs o where o.thread_id = run.thread_id and o.position < run.position
        and o.status in ('queued', 'running', 'interrupted')), '[]') as lower_runs
  from run`;

const ADMIT_RUN = `
  with ${INSERT_DELIVERY},
  run as (
    insert into ${s}.runs as r (run_id, thread_id, agent, status, input_hash, body, queue_url, reply_to)
    values ($4, $5, $9, 'queued', $10, $11, $12, $13)
    on conflict (run_id) do update set updated_at = clock_timestamp(), waiting_since = null
    returning r.*, (xmax = 0) as is_new
  ) ${EVIDENCE}`;

const ADMIT_ANSWER = `
  with ${INSERT_DELIVERY},
  run as (select r.*, false as is_new from ${s}.runs r where r.run_id = $4) ${EVIDENCE}`;

const earlierSchema = z.array(
  z.object({
    deliveryId: z.string(),
    sqsMessageId: z.string(),
    receiveCount: z.number().nullable(),
    outcome: z.string().nullable(),
    traceId: z.string(),
    rootSpanId: z.string(),
    startedAtMs: z.number(),
  }),
);
const rowSchema = z.object({
  run_id: z.string(),
  thread_id: z.string(),
  agent: z.string(),
  position: z.string(),
  status: z.custom<RunStatus>((value) => typeof value === "string"),
  input_hash: z.string(),
  graph_fingerprint: z.string().nullable(),
  first_checkpoint_id: z.string().nullable(),
  latest_checkpoint_id: z.string().nullable(),
  latest_step: z.number().nullable(),
  lost_deliveries: z.number(),
  failed_deliveries: z.number(),
  is_new: z.boolean(),
  earlier: earlierSchema,
  lease: z.object({ runId: z.string(), deliveryId: z.string(), remainingMs: z.number() }).nullable(),
  lower_runs: z.array(z.object({ runId: z.string(), status: z.enum(["queued", "running", "interrupted"]) })),
});

/** Writes the delivery row and the run row (if new), and returns what `decideAdmission` needs. */
export async function admitRun(
  db: Queryable,
  start: DeliveryStart,
  run: {
    readonly agent: string;
    readonly inputHash: string;
    readonly body: string;
    readonly queueUrl: string;
    readonly replyTo?: string;
  },
): Promise<RunEvidence> {
  const values = [...startValues(start), run.agent, run.inputHash, run.body, run.queueUrl, run.replyTo ?? null];
  const { rows } = await db.query(ADMIT_RUN, values);
  return evidenceOf(rowSchema.parse(rows[0]));
}

/** The same for an answer, which never creates a run: undefined when the run is unknown. */
export async function admitAnswer(db: Queryable, start: DeliveryStart): Promise<RunEvidence | undefined> {
  const { rows } = await db.query(ADMIT_ANSWER, startValues(start));
  return rows[0] === undefined ? undefined : evidenceOf(rowSchema.parse(rows[0]));
}

function startValues(start: DeliveryStart): unknown[] {
  return [
    start.deliveryId,
    start.sqsMessageId,
    start.receiveCount ?? null,
    start.runId,
    start.threadId,
    start.worker,
    start.traceId,
    start.rootSpanId,
  ];
}

function evidenceOf(row: z.infer<typeof rowSchema>): RunEvidence {
  const run: RunRow = {
    runId: row.run_id,
    threadId: row.thread_id,
    agent: row.agent,
    position: BigInt(row.position),
    status: row.status,
    inputHash: row.input_hash,
    graphFingerprint: row.graph_fingerprint ?? undefined,
    firstCheckpointId: row.first_checkpoint_id ?? undefined,
    latestCheckpointId: row.latest_checkpoint_id ?? undefined,
    latestStep: row.latest_step ?? undefined,
    lostDeliveries: row.lost_deliveries,
    failedDeliveries: row.failed_deliveries,
    isNew: row.is_new,
  };
  const earlier = row.earlier.map(
    (delivery): EarlierDelivery => ({
      ...delivery,
      receiveCount: delivery.receiveCount ?? undefined,
      // The column is written by `endDelivery` and the burial only, both typed.
      outcome: (delivery.outcome ?? undefined) as EarlierDelivery["outcome"],
    }),
  );
  const lease: ThreadLease | undefined = row.lease ?? undefined;
  const lower: readonly LowerRun[] = row.lower_runs;
  return { run, earlier, lease, lower };
}

/**
 * The statement that goes into the saver's own transaction with each root checkpoint: the run row and the checkpoint
 * can never disagree about which one is the latest (killed between the two: neither is there).
 */
export function checkpointMark(
  runId: string,
  checkpointId: string,
  step: number,
): { readonly text: string; readonly values: unknown[] } {
  return {
    text: `update ${s}.runs set first_checkpoint_id = coalesce(first_checkpoint_id, $2), first_step = coalesce(first_step, $3),
             latest_checkpoint_id = $2, latest_step = $3, updated_at = clock_timestamp() where run_id = $1
           returning cancel_requested_at is not null as cancel_asked`,
    values: [runId, checkpointId, step],
  };
}

/** How a delivery and, where it ends, its run are closed. */
export interface RunEnd {
  readonly runId: string;
  readonly deliveryId: string;
  readonly threadId: string;
  readonly fence: string;
  readonly status: RunStatus;
  readonly result?: string;
  readonly interrupts?: string;
  readonly errorCode?: string;
  readonly errorText?: string;
  readonly failed?: boolean;
}

export interface MarkedRun {
  /** Lost and failed deliveries. */
  readonly faults: number;
  /** The status asked for, or `cancelled`: an unfinished run whose cancel was asked meanwhile ends here. */
  readonly status: RunStatus;
}

/**
 * Sets the run's status under the fence.
 *
 * @returns undefined when the fence is no longer ours: then nothing was written
 */
export async function markRun(db: Queryable, end: RunEnd): Promise<MarkedRun | undefined> {
  const { rows } = await db.query(
    `update ${s}.runs set status = case when ${cancelNow("$3")} then 'cancelled' else $3 end,
       result = coalesce($4, result), interrupts = $5, error_text = $7,
       error_code = case when ${cancelNow("$3")} then '${CANCELLED}' else $6 end,
       failed_deliveries = failed_deliveries + $8, updated_at = clock_timestamp(),
       ended_at = case when $3 not in ('queued', 'running', 'interrupted') or ${cancelNow("$3")} then clock_timestamp() end
     where run_id = $1 and exists (select 1 from ${s}.thread_leases l where l.thread_id = $9 and l.fence = $2::bigint)
     returning lost_deliveries + failed_deliveries as faults, status`,
    [
      end.runId,
      end.fence,
      end.status,
      end.result ?? null,
      end.interrupts ?? null,
      end.errorCode ?? null,
      end.errorText ?? null,
      end.failed === true ? 1 : 0,
      end.threadId,
    ],
  );
  return rows[0] === undefined ? undefined : markedSchema.parse(rows[0]);
}

const markedSchema = z.object({
  faults: z.number(),
  status: z.custom<RunStatus>((value) => typeof value === "string"),
});

/** Asked while the delivery ran to an end that is none: nobody else would look at the request again. */
function cancelNow(status: string): string {
  return `${status} in ('queued', 'running', 'interrupted') and cancel_requested_at is not null`;
}

/** Runs that a new one supersedes: they waited for a human, and no longer do. */
export async function cancelRuns(db: Queryable, runIds: readonly string[]): Promise<void> {
  await db.query(
    `update ${s}.runs set status = 'cancelled', error_code = 'SUPERSEDED', updated_at = clock_timestamp(), ended_at = clock_timestamp()
     where run_id = any($1) and status = 'interrupted'`,
    [runIds],
  );
}

/**
 * Leaves the run waiting for a lower one, and ends this delivery with it: its message is deleted next, and `run-waiting.ts`
 * sends it again, at once if the thread has just become free. The new delivery must find this one ended.
 */
export async function setWaiting(
  db: Queryable,
  wait: {
    readonly runId: string;
    readonly deliveryId: string;
    readonly reason: string;
    /** Of the message that is deleted now: the one sent in its place carries them on. */
    readonly messageAttributes: unknown;
  },
): Promise<void> {
  await db.query(
    `with ended as (
       update ${s}.deliveries set ended_at = clock_timestamp(), outcome = 'waiting', outcome_reason = $3 where delivery_id = $2
     )
     update ${s}.runs set waiting_since = coalesce(waiting_since, clock_timestamp()), message_attributes = $4
     where run_id = $1 and status = 'queued'`,
    [wait.runId, wait.deliveryId, wait.reason, storedAttributes(wait.messageAttributes)],
  );
}
