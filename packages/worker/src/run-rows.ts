// Run rows: the statements around an admission and an end. One round trip each; decisions are made in run.ts.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import { RowBatch } from "./delivery-batch.ts";
import { type BegunDelivery, begunOf, begunSchema } from "./delivery-rows.ts";
import { storedAttributes } from "./message-attributes.ts";
import type { AdmissionEvidence, EarlierDelivery, RunRow, RunStatus } from "./run.ts";
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
  run: z.object({
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
  }),
  earlier: earlierSchema,
  lease: z.object({ runId: z.string(), deliveryId: z.string(), remainingMs: z.number() }).nullable(),
  lower_runs: z.array(z.object({ runId: z.string(), status: z.enum(["queued", "running", "interrupted"]) })),
});
const unknownSchema = z.object({ deliveryId: z.string(), run: z.null() });
const admittedSchema = rowSchema.extend({
  deliveryId: z.string(),
  fence: z.string().nullable(),
  begun: begunSchema.nullable(),
});

/** What the row of a run is made from; an answer never makes one. */
export type Asked =
  | {
      readonly kind: "run";
      readonly agent: string;
      readonly inputHash: string;
      readonly body: string;
      readonly queueUrl: string;
      readonly replyTo?: string;
    }
  | { readonly kind: "answer" };

export interface AdmitDelivery {
  readonly start: DeliveryStart;
  readonly asked: Asked;
  /** Take the thread in the same statement where it is plainly free. Absent: only the evidence. */
  readonly take?: { readonly leaseMs: number; readonly faultLimit: number; readonly graphFingerprint: string };
}

/** What an admission found, and did where it could. */
export type Admitted =
  | { readonly state: "known"; readonly evidence: RunEvidence }
  /** The thread is ours and the delivery begun; `begun` is undefined when somebody ended our row before that. */
  | {
      readonly state: "taken";
      readonly evidence: RunEvidence;
      readonly fence: string;
      readonly begun: BegunDelivery | undefined;
    }
  /** An answer to a run that is not there. */
  | { readonly state: "unknown" };

/** Writes the delivery rows and the run rows (if new), and returns what `decideAdmission` needs, by delivery id. */
export async function admitDeliveries(
  db: Queryable,
  deliveries: readonly AdmitDelivery[],
): Promise<ReadonlyMap<string, Admitted>> {
  const { rows } = await db.query(`select ${s}.admit_delivery(a) as admitted from json_array_elements($1::json) a`, [
    JSON.stringify(deliveries.map(({ start, asked, take }) => ({ ...start, ...asked, take }))),
  ]);
  return new Map(rows.map((row) => admittedOf(row["admitted"])));
}

function admittedOf(row: unknown): readonly [string, Admitted] {
  // The rare kind last: what zod says of a row that does not fit costs more than reading one that does.
  const { success, data: answer, error } = admittedSchema.safeParse(row);
  if (!success) {
    const absent = unknownSchema.safeParse(row);
    if (!absent.success) throw error;
    return [absent.data.deliveryId, { state: "unknown" }];
  }
  const evidence = evidenceOf(answer);
  const { deliveryId, fence, begun } = answer;
  if (fence === null || begun === null) return [deliveryId, { state: "known", evidence }];
  return [deliveryId, { state: "taken", evidence, fence, begun: begunOf(begun) }];
}

/** The messages of one receive are admitted by one statement. */
export function deliveryAdmissions(db: Queryable): DeliveryAdmissions {
  return new RowBatch({
    send: (deliveries) => admitDeliveries(db, deliveries),
    idOf: ({ start }) => start.deliveryId,
    lockOf: ({ start }) => start.threadId,
    gatherMs: 0,
  });
}

export type DeliveryAdmissions = RowBatch<AdmitDelivery, Admitted>;

function evidenceOf({ run: row, earlier, lease, lower_runs: lower }: z.infer<typeof rowSchema>): RunEvidence {
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
  const deliveries = earlier.map(
    (delivery): EarlierDelivery => ({
      ...delivery,
      receiveCount: delivery.receiveCount ?? undefined,
      // The column is written by `end_delivery` and the burial only, both typed.
      outcome: (delivery.outcome ?? undefined) as EarlierDelivery["outcome"],
    }),
  );
  return { run, earlier: deliveries, lease: lease ?? undefined, lower };
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
    text: `select ${s}.mark_checkpoint($1, $2, $3) as cancel_asked`,
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
