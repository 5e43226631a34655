// Sending: one message into one queue, with the size limit, the delay and the FIFO deduplication window.

import { createHash, randomUUID } from "node:crypto";
import { invalidParameter, SqsError } from "./sqs-errors.ts";
import { checkBody, type SqsMessage } from "./sqs-message.ts";
import { attributeBytes, type SqsAttributes, type SqsAttributeValue } from "./sqs-message-attributes.ts";
import { DEDUP_WINDOW_MS, isFifo, roomForMessage, type SqsChange, type SqsQueue } from "./sqs-queue.ts";
import { attributeNumber } from "./sqs-queue-attributes.ts";

export interface SqsSend {
  readonly body: string;
  readonly attributes: SqsAttributes;
  readonly traceHeader: SqsAttributeValue | null;
  readonly groupId?: string | undefined;
  readonly dedupId?: string | undefined;
  readonly delaySeconds?: number | undefined;
}

/** A repeat inside the window is answered with the first message's ids and changes nothing. */
export interface SqsSendDecision {
  readonly reason: "stored" | "repeat_within_window";
  readonly changes: readonly SqsChange[];
  readonly messageId: string;
  readonly sequence: number;
}

export function messageBytes(body: string, attributes: SqsAttributes): number {
  return Buffer.byteLength(body) + attributeBytes(attributes);
}

export function decideSend(queue: SqsQueue, send: SqsSend, at: number): SqsSendDecision {
  checkBody(send.body);
  checkSize(queue, send);
  const dedupId = isFifo(queue) ? fifoDedupId(queue, send) : null;
  const earlier = dedupId === null ? undefined : queue.dedup.get(dedupId);
  if (earlier !== undefined && earlier.at + DEDUP_WINDOW_MS > at) {
    return { reason: "repeat_within_window", changes: [], messageId: earlier.messageId, sequence: earlier.sequence };
  }
  roomForMessage(queue);
  const message = newMessage(queue, { send, dedupId, at });
  const changes: SqsChange[] = [{ kind: "message_put", queue: queue.name, message }];
  if (dedupId !== null) {
    const entry = { at, messageId: message.id, sequence: message.sequence };
    changes.push({ kind: "dedup_put", queue: queue.name, dedupId, entry });
  }
  return { reason: "stored", changes, messageId: message.id, sequence: message.sequence };
}

function checkSize(queue: SqsQueue, send: SqsSend): void {
  const bytesMax = attributeNumber(queue.attributes, "MaximumMessageSize");
  const bytes = messageBytes(send.body, send.attributes);
  if (bytes > bytesMax) {
    throw new SqsError(
      "InvalidParameterValue",
      `The message has ${bytes} bytes with its attributes; ${queue.name} takes ${bytesMax}.`,
    );
  }
}

function fifoDedupId(queue: SqsQueue, send: SqsSend): string {
  if (send.groupId === undefined || send.groupId === "") {
    throw new SqsError("MissingParameter", "A message for a FIFO queue needs the parameter MessageGroupId.");
  }
  if (send.delaySeconds !== undefined && send.delaySeconds > 0) {
    throw invalidParameter("DelaySeconds", send.delaySeconds, "a FIFO queue delays all messages or none");
  }
  if (send.dedupId !== undefined && send.dedupId !== "") return send.dedupId;
  if (queue.attributes["ContentBasedDeduplication"] === "true") {
    return createHash("sha256").update(send.body).digest("hex");
  }
  throw new SqsError(
    "InvalidParameterValue",
    "The queue needs ContentBasedDeduplication or the message a MessageDeduplicationId.",
  );
}

interface NewMessage {
  readonly send: SqsSend;
  readonly dedupId: string | null;
  readonly at: number;
}

function newMessage(queue: SqsQueue, { send, dedupId, at }: NewMessage): SqsMessage {
  const delaySeconds = send.delaySeconds ?? attributeNumber(queue.attributes, "DelaySeconds");
  return {
    id: randomUUID(),
    body: send.body,
    attributes: send.attributes,
    traceHeader: send.traceHeader,
    // Standard queues keep the group as well: SQS uses it for fair queues and shows it on receive.
    groupId: send.groupId ?? null,
    dedupId,
    sequence: queue.lastSequence + 1,
    sentAt: at,
    firstReceivedAt: null,
    receivedAt: null,
    receiveCount: 0,
    receiptHandle: null,
    visibleAt: at + 1000 * delaySeconds,
    sourceArn: null,
  };
}
