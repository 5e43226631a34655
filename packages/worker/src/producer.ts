// The producer's side: sends a run request or an answer, with the trace it belongs to.
import { SendMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { injectTrace } from "@reprise/tracing";
import { errorText, WorkerError } from "./errors.ts";
import { fifoFields } from "./producer-fifo.ts";
import { type AnswerToSend, answerMessage, type Outgoing, type RunToSend, runMessage } from "./producer-message.ts";

export interface Sent {
  readonly runId: string;
  readonly sqsMessageId: string;
}

/**
 * Sends a run request. On a FIFO queue the thread is the message group and the run id deduplicates.
 *
 * @throws WorkerError MESSAGE_TOO_LARGE before anything is sent; SEND_FAILED when SQS did not take it
 */
export async function sendRun(client: SQSClient, queueUrl: string, run: RunToSend): Promise<Sent> {
  return send(client, queueUrl, runMessage(run));
}

/** Sends a human's answer to one interrupt. Sent twice, it is used once. Errors as `sendRun`. */
export async function sendAnswer(client: SQSClient, queueUrl: string, answer: AnswerToSend): Promise<Sent> {
  return send(client, queueUrl, answerMessage(answer));
}

async function send(client: SQSClient, queueUrl: string, message: Outgoing): Promise<Sent> {
  try {
    const sent = await client.send(
      new SendMessageCommand({
        QueueUrl: queueUrl,
        MessageBody: message.body,
        MessageAttributes: injectTrace(),
        ...fifoFields(queueUrl, message),
      }),
    );
    return { runId: message.runId, sqsMessageId: sent.MessageId ?? "" };
  } catch (error) {
    throw notTaken(message.runId, errorText(error), error);
  }
}

/** A reply may be lost after SQS took the message: only sending it again tells, and that is safe. */
export function notTaken(runId: string, why: string, cause: unknown): WorkerError {
  const text = `SQS did not take run ${runId}: ${why}; sending it again under the same run_id is safe`;
  return new WorkerError("SEND_FAILED", text, { cause });
}
