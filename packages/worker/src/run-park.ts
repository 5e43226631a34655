// Parking: a message we will not run keeps its original bytes, its code and its reason, and leaves the queue.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";

const s = PRODUCT.schema;

export interface ParkedMessage {
  readonly sqsMessageId: string;
  readonly queueUrl: string;
  readonly runId?: string;
  readonly threadId?: string;
  readonly receiveCount: number | undefined;
  readonly code: string;
  readonly reason: string;
  /** As received; stored as bytes, since text columns refuse NUL (case E01). */
  readonly body: string;
  readonly messageAttributes: unknown;
  readonly traceId: string;
}

/** What becomes of the message's run: nothing, or one of these if it is not over; `rejected` only if it has not begun. */
export type ParkedRunStatus = "parked" | "rejected";

/**
 * Stores the message and marks its run, in one statement: killed in between, a refused run would run on its redelivery. The
 * same message parked twice, after a delete that failed, is one row. The caller deletes it from the queue only after this has
 * resolved: killed in between, it is parked again.
 */
export async function park(db: Queryable, message: ParkedMessage, runStatus?: ParkedRunStatus): Promise<void> {
  await db.query(
    `with kept as (
       insert into ${s}.parked (sqs_message_id, queue_url, run_id, thread_id, receive_count, code, reason, body, message_attributes, trace_id)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
       on conflict (sqs_message_id, code) do update set parked_at = clock_timestamp(), receive_count = excluded.receive_count
     )
     update ${s}.runs set status = $11, error_code = $6, error_text = $7, updated_at = clock_timestamp(), ended_at = clock_timestamp()
     where run_id = $3 and (($11 = 'parked' and status in ('queued', 'running'))
       or ($11 = 'rejected' and status = 'queued' and first_checkpoint_id is null))`,
    [
      message.sqsMessageId,
      message.queueUrl,
      message.runId ?? null,
      message.threadId ?? null,
      message.receiveCount ?? null,
      message.code,
      message.reason,
      Buffer.from(message.body, "utf8"),
      JSON.stringify(message.messageAttributes ?? {}),
      message.traceId,
      runStatus ?? null,
    ],
  );
}
