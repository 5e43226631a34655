// What `reprise run` reads: the run's row, its deliveries and its answers.
import { PRODUCT } from "@reprise/tracing";
import type pg from "pg";

const s = PRODUCT.schema;
/** The newest; a run that was deferred thousands of times shows the end of its story. */
const DELIVERIES_MAX = 200;

export interface RunOfReport {
  readonly run_id: string;
  readonly thread_id: string;
  readonly agent: string;
  readonly status: string;
  readonly input_hash: string;
  readonly queue_url: string;
  readonly graph_fingerprint: string | null;
  readonly first_checkpoint_id: string | null;
  readonly latest_checkpoint_id: string | null;
  readonly latest_step: number | null;
  readonly lost_deliveries: number;
  readonly failed_deliveries: number;
  readonly interrupts: string | null;
  readonly result: string | null;
  readonly error_code: string | null;
  readonly error_text: string | null;
  readonly cancel_requested_at: Date | null;
  readonly cancel_reason: string | null;
  readonly waiting_since: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly ended_at: Date | null;
}

export interface DeliveryOfRun {
  readonly delivery_id: string;
  readonly sqs_message_id: string;
  readonly receive_count: number | null;
  readonly cause: string | null;
  readonly resumed_from_step: number | null;
  readonly outcome: string | null;
  readonly outcome_code: string | null;
  readonly outcome_reason: string | null;
  readonly worker: string;
  readonly alone: boolean;
  readonly trace_id: string;
  readonly started_at: Date;
  readonly last_beat: Date | null;
  readonly ended_at: Date | null;
}

export interface AnswerOfRun {
  readonly interrupt_id: string;
  readonly recorded_at: Date;
  readonly used_at: Date | null;
}

/** Deliveries and answers oldest first. The message's body stays out: it is the user's input. */
export async function readRun(
  pool: pg.Pool,
  runId: string,
): Promise<
  | {
      readonly run: RunOfReport;
      readonly deliveries: readonly DeliveryOfRun[];
      readonly answers: readonly AnswerOfRun[];
    }
  | undefined
> {
  const runs = await pool.query<RunOfReport>(
    `select run_id, thread_id, agent, status, input_hash, queue_url, graph_fingerprint, first_checkpoint_id, latest_checkpoint_id,
       latest_step, lost_deliveries, failed_deliveries, interrupts, result, error_code, error_text, cancel_requested_at,
       cancel_reason, waiting_since, created_at, updated_at, ended_at
     from ${s}.runs where run_id = $1`,
    [runId],
  );
  const [run] = runs.rows;
  if (run === undefined) return undefined;
  const deliveries = await pool.query<DeliveryOfRun>(
    `select delivery_id, sqs_message_id, receive_count, cause, resumed_from_step, outcome, outcome_code, outcome_reason, worker, alone,
       trace_id, started_at, last_beat, ended_at
     from ${s}.deliveries where run_id = $1 order by started_at desc limit ${DELIVERIES_MAX}`,
    [runId],
  );
  const answers = await pool.query<AnswerOfRun>(
    `select interrupt_id, recorded_at, used_at from ${s}.answers where run_id = $1 order by recorded_at`,
    [runId],
  );
  return { run, deliveries: deliveries.rows.toReversed(), answers: answers.rows };
}
