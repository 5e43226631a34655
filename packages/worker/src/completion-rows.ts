// The outbox's statements: claim what is due, and say what became of it. One round trip each.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import type { CompletionRow } from "./completion.ts";
import type { RunStatus } from "./run.ts";

const s = PRODUCT.schema;

/** Whoever claims a completion and dies is waited for this long; then anybody sends it, under the same id. */
const CLAIM_SECONDS = 60;
/** One look sends at most this many; the next look sends more. */
export const CLAIM_MAX = 10;

export interface ClaimedCompletion extends CompletionRow {
  readonly reply_to: string;
  /** This send counted. */
  readonly sends: number;
  /** The run's latest delivery, whose trace the message belongs to. */
  readonly trace: { readonly traceId: string; readonly spanId: string } | null;
}

const CLAIM = `
  update ${s}.completions c set sends = c.sends + 1, next_send_at = clock_timestamp() + interval '${CLAIM_SECONDS} seconds'
  from ${s}.runs r
  where r.run_id = c.run_id and c.completion_id in (
    select completion_id from ${s}.completions
    where state = 'pending' and queue_url = $1 and next_send_at <= clock_timestamp()
    order by next_send_at limit ${CLAIM_MAX} for update skip locked)
  returning c.completion_id, c.run_id, r.thread_id, r.agent, c.reply_to, c.status, r.result, c.interrupts, c.error_code,
    c.error_text, c.sends, c.created_at,
    (select json_build_object('traceId', d.trace_id, 'spanId', d.root_span_id) from ${s}.deliveries d
      where d.run_id = c.run_id order by d.started_at desc limit 1) as trace`;

const claimedSchema = z.object({
  completion_id: z.string(),
  run_id: z.string(),
  thread_id: z.string(),
  agent: z.string(),
  reply_to: z.string(),
  status: z.custom<RunStatus>((value) => typeof value === "string"),
  result: z.string().nullable(),
  interrupts: z.string().nullable(),
  error_code: z.string().nullable(),
  error_text: z.string().nullable(),
  sends: z.number(),
  created_at: z.date(),
  trace: z.object({ traceId: z.string(), spanId: z.string() }).nullable(),
});

/** Claims what is due of this queue's runs. Safe from any number of workers at once: a claimed row is due again only later. */
export async function claimCompletions(db: Queryable, queueUrl: string): Promise<readonly ClaimedCompletion[]> {
  const { rows } = await db.query(CLAIM, [queueUrl]);
  return rows.map((row) => claimedSchema.parse(row));
}

/** What became of one send. */
export type SendOutcome =
  | { readonly state: "sent"; readonly sqsMessageId: string }
  | { readonly state: "pending"; readonly error: string; readonly afterMs: number }
  | { readonly state: "refused" | "dead"; readonly error: string };

/** Killed before this, after the send: the completion is sent again, under the same id. */
export async function settleCompletion(db: Queryable, completionId: string, outcome: SendOutcome): Promise<void> {
  await db.query(
    `update ${s}.completions set state = $2, last_error = $3, sqs_message_id = coalesce($4, sqs_message_id),
       next_send_at = clock_timestamp() + $5::int * interval '1 millisecond',
       settled_at = case when $2 = 'pending' then null else clock_timestamp() end
     where completion_id = $1 and state = 'pending'`,
    [
      completionId,
      outcome.state,
      outcome.state === "sent" ? null : outcome.error.slice(0, 1_000),
      outcome.state === "sent" ? outcome.sqsMessageId : null,
      outcome.state === "pending" ? Math.round(outcome.afterMs) : 0,
    ],
  );
}
