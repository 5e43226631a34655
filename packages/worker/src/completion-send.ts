// Sends completions from the outbox to the queues that runs named, under stable ids; never in a run's way.
import { SendMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { type Context, context, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import type { Queryable } from "@reprise/tools";
import { injectTrace } from "@reprise/tracing";
import { completionBody } from "./completion.ts";
import {
  CLAIM_MAX,
  type ClaimedCompletion,
  claimCompletions,
  type SendOutcome,
  settleCompletion,
} from "./completion-rows.ts";
import { errorText } from "./errors.ts";
import { backoffMs } from "./lease-time.ts";
import type { Logger } from "./log.ts";
import { fifoFields } from "./producer-fifo.ts";

export interface CompletionParts {
  readonly db: Queryable;
  readonly client: SQSClient;
  /** Only completions of this queue's runs are ours to send. */
  readonly queueUrl: string;
  /**
   * The queues that may be named. A message's sender chooses `reply_to` and the worker's role does the sending, so a list
   * that anybody could extend would lend that role to whoever may write to the run queue (a confused deputy).
   */
  readonly allowed: ReadonlySet<string>;
  readonly random: () => number;
  readonly log: Logger;
}

/** About an hour and a half of tries, doubling from five seconds to fifteen minutes. */
const SENDS_MAX = 12;
const RETRY = { baseMs: 5_000, maxMs: 900_000 } as const;
/** A send that does not answer may not keep the others. */
const SEND_TIMEOUT_MS = 10_000;
/** One call sends at most this many rounds of CLAIM_MAX; what is left is due at the next look. */
const ROUNDS_MAX = 20;

/** Sends what is due. Rejects only when the database does; a queue's failure is that completion's own. */
export async function sendCompletions(
  parts: CompletionParts,
  count: (state: SendOutcome["state"]) => void = () => {},
): Promise<void> {
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const claimed = await claimCompletions(parts.db, parts.queueUrl);
    await Promise.all(claimed.map((completion) => sendClaimed(parts, completion, count)));
    if (claimed.length < CLAIM_MAX) return;
  }
}

async function sendClaimed(
  parts: CompletionParts,
  completion: ClaimedCompletion,
  count: (state: SendOutcome["state"]) => void,
): Promise<void> {
  const outcome = await outcomeOf(parts, completion);
  count(outcome.state);
  await settleCompletion(parts.db, completion.completion_id, outcome);
  if (outcome.state === "sent") return;
  const { run_id, completion_id, reply_to, sends } = completion;
  const fields = { run_id, completion_id, reply_to, sends, error: outcome.error };
  if (outcome.state === "pending") parts.log.warn(fields, "a completion was not taken; it is sent again");
  else parts.log.error(fields, `a completion is ${outcome.state}: its run ended, and its reply queue was not told`);
}

async function outcomeOf(parts: CompletionParts, completion: ClaimedCompletion): Promise<SendOutcome> {
  if (!parts.allowed.has(completion.reply_to)) {
    return { state: "refused", error: "REPLY_QUEUE_REFUSED: the queue is not among the worker's reply queues" };
  }
  try {
    return { state: "sent", sqsMessageId: await send(parts, completion) };
  } catch (error) {
    const text = errorText(error);
    if (completion.sends >= SENDS_MAX) return { state: "dead", error: text };
    // Half of it fixed: full jitter could spend all twelve tries at once.
    const afterMs = (backoffMs(completion.sends, 1, RETRY) * (1 + parts.random())) / 2;
    return { state: "pending", error: text, afterMs };
  }
}

async function send(parts: CompletionParts, completion: ClaimedCompletion): Promise<string> {
  const { reply_to: queueUrl, thread_id: threadId, completion_id: id } = completion;
  const parent = traceOf(completion);
  const cut = new AbortController();
  const timer = setTimeout(() => cut.abort(), SEND_TIMEOUT_MS);
  try {
    const command = new SendMessageCommand({
      QueueUrl: queueUrl,
      MessageBody: completionBody(completion),
      MessageAttributes: injectTrace({}, parent),
      ...fifoFields(queueUrl, { threadId, deduplicationId: id }),
    });
    // In the run's trace, also when another worker sends it later: an instrumented client writes its own context into the message.
    const sent = await context.with(parent, () => parts.client.send(command, { abortSignal: cut.signal }));
    return sent.MessageId ?? "";
  } finally {
    clearTimeout(timer);
  }
}

function traceOf({ trace: ids }: ClaimedCompletion): Context {
  return ids === null
    ? ROOT_CONTEXT
    : trace.setSpanContext(ROOT_CONTEXT, { traceId: ids.traceId, spanId: ids.spanId, traceFlags: 1, isRemote: true });
}
