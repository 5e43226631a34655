// The producer's side: builds the message of a run or an answer and sends it, with the trace it belongs to.
import { randomUUID } from "node:crypto";
import { SendMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { injectTrace } from "@reprise/tracing";
import { errorText, WorkerError } from "./errors.ts";
import { MESSAGE_SCHEMA, parseMessage } from "./message.ts";

export interface RunToSend {
  readonly agent: string;
  readonly threadId: string;
  readonly input: unknown;
  /** Names the wish: the same run_id again is the same run, done once. Default: a fresh UUID. */
  readonly runId?: string;
  readonly onBusy?: "enqueue" | "reject";
  readonly supersede?: boolean;
}

export interface AnswerToSend {
  readonly agent: string;
  readonly threadId: string;
  readonly runId: string;
  readonly interruptId: string;
  readonly value: unknown;
}

export interface Sent {
  readonly runId: string;
  readonly sqsMessageId: string;
}

/** SQS's limit for body and attributes together, less what our attributes take. Larger inputs: send a pointer and load it in a node. */
const BODY_MAX_BYTES = 1_048_576 - 2_048;

/**
 * Sends a run request. On a FIFO queue the thread is the message group and the run id deduplicates.
 *
 * @throws WorkerError MESSAGE_TOO_LARGE before anything is sent; SEND_FAILED when SQS did not take it
 */
export async function sendRun(client: SQSClient, queueUrl: string, run: RunToSend): Promise<Sent> {
  const runId = run.runId ?? randomUUID();
  const body = JSON.stringify({
    schema: MESSAGE_SCHEMA,
    run_id: runId,
    thread_id: run.threadId,
    agent: run.agent,
    input: run.input,
    ...(run.onBusy === undefined ? {} : { on_busy: run.onBusy }),
    ...(run.supersede === undefined ? {} : { supersede: run.supersede }),
  });
  return send(client, queueUrl, { body, runId, threadId: run.threadId, deduplicationId: runId });
}

/** Sends a human's answer to one interrupt. Sent twice, it is used once. Errors as `sendRun`. */
export async function sendAnswer(client: SQSClient, queueUrl: string, answer: AnswerToSend): Promise<Sent> {
  const { runId, threadId, agent, interruptId, value } = answer;
  const body = JSON.stringify({
    schema: MESSAGE_SCHEMA,
    run_id: runId,
    thread_id: threadId,
    agent,
    answer: { interrupt_id: interruptId, value },
  });
  return send(client, queueUrl, { body, runId, threadId, deduplicationId: `${runId}:${interruptId}` });
}

interface Outgoing {
  readonly body: string;
  readonly runId: string;
  readonly threadId: string;
  readonly deduplicationId: string;
}

async function send(client: SQSClient, queueUrl: string, message: Outgoing): Promise<Sent> {
  const bytes = Buffer.byteLength(message.body);
  if (bytes > BODY_MAX_BYTES) {
    throw new WorkerError(
      "MESSAGE_TOO_LARGE",
      `run ${message.runId} has ${bytes} bytes and SQS takes ${BODY_MAX_BYTES}; store the input and send a pointer to it`,
    );
  }
  // The same reader as the worker's: what it would refuse is refused here, where somebody reads the error.
  const parsed = parseMessage(message.body, { snsEnvelope: "refuse" });
  if (parsed.kind === "bad") throw new WorkerError("SEND_FAILED", `${parsed.code}: ${parsed.detail}; nothing was sent`);
  const fifo = queueUrl.endsWith(".fifo");
  try {
    const sent = await client.send(
      new SendMessageCommand({
        QueueUrl: queueUrl,
        MessageBody: message.body,
        MessageAttributes: injectTrace(),
        ...(fifo ? { MessageGroupId: message.threadId, MessageDeduplicationId: message.deduplicationId } : {}),
      }),
    );
    return { runId: message.runId, sqsMessageId: sent.MessageId ?? "" };
  } catch (error) {
    const text = `SQS did not take run ${message.runId}: ${errorText(error)}; sending it again under the same run_id is safe`;
    throw new WorkerError("SEND_FAILED", text, { cause: error });
  }
}
