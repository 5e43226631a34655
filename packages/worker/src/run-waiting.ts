// Waiting runs: the row is the outbox. When a thread frees, the next run's message is sent again, as it was.
import { SendMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import { attributesOf } from "./message-attributes.ts";
import { fifoFields } from "./producer-fifo.ts";

const s = PRODUCT.schema;

/** A send that was not followed by an admission is repeated after this: killed between the mark and the send, nothing is lost. */
const RESEND_AFTER_SECONDS = 60;
/** One look sends at most this many; the next look sends more. */
const SEND_MAX = 10;

export interface WaitingParts {
  readonly db: Queryable;
  readonly client: SQSClient;
  readonly queueUrl: string;
}

const waitingSchema = z.object({
  run_id: z.string(),
  thread_id: z.string(),
  body: z.string(),
  message_attributes: z.string(),
});

/**
 * Sends the first waiting run of every free thread (or of some threads). Safe from any number of workers at once: rows are
 * marked under `skip locked`, and a message sent twice is one run (`run_id`).
 *
 * @returns the run ids sent
 */
export async function sendWaiting(parts: WaitingParts, threadIds?: readonly string[]): Promise<readonly string[]> {
  const { rows } = await parts.db.query(
    `update ${s}.runs set resent_at = clock_timestamp() where run_id in (
       select w.run_id from ${s}.runs w
       where w.waiting_since is not null and w.status = 'queued' and w.queue_url = $2 and ($1::text[] is null or w.thread_id = any($1))
         and (w.resent_at is null or w.resent_at < clock_timestamp() - interval '${RESEND_AFTER_SECONDS} seconds')
         and not exists (select 1 from ${s}.runs o where o.thread_id = w.thread_id and o.position < w.position
           and o.status in ('queued', 'running', 'interrupted'))
       order by w.position limit ${SEND_MAX} for update skip locked)
     returning run_id, thread_id, body, message_attributes`,
    [threadIds ?? null, parts.queueUrl],
  );
  const waiting = rows.map((row) => waitingSchema.parse(row));
  for (const run of waiting) await send(parts, run);
  return waiting.map((run) => run.run_id);
}

/** The producer's message under a new SQS id: its run_id, its trace and its other attributes of text go on with it. */
async function send(parts: WaitingParts, run: z.infer<typeof waitingSchema>): Promise<void> {
  await parts.client.send(
    new SendMessageCommand({
      QueueUrl: parts.queueUrl,
      MessageBody: run.body,
      MessageAttributes: attributesOf(run.message_attributes),
      // The first copy's deduplication id may still be remembered: this one is a new message by intent.
      ...fifoFields(parts.queueUrl, {
        threadId: run.thread_id,
        deduplicationId: `${run.run_id}:resent:${Date.now()}`,
      }),
    }),
  );
}
