// One SQS message: its record, the state it is in at a given time, and the view a receiver gets of it.

import { createHash } from "node:crypto";
import { SqsError } from "./sqs-errors.ts";
import {
  attributesMd5,
  isWanted,
  type SqsAttributes,
  type SqsAttributeValue,
  wantedAttributes,
} from "./sqs-message-attributes.ts";

/** Immutable: a change of state is a new record, so a journal line is a whole message. Times are epoch milliseconds. */
export interface SqsMessage {
  readonly id: string;
  readonly body: string;
  readonly attributes: SqsAttributes;
  /** The only system attribute a producer may set. */
  readonly traceHeader: SqsAttributeValue | null;
  readonly groupId: string | null;
  /** Null on standard queues, where SQS does not deduplicate. */
  readonly dedupId: string | null;
  /** Per queue, growing; shown as SequenceNumber on FIFO queues only. */
  readonly sequence: number;
  readonly sentAt: number;
  readonly firstReceivedAt: number | null;
  /** Start of the current flight: the 12 hour cap counts from here. */
  readonly receivedAt: number | null;
  /** Grows by one for each receive and for nothing else: the value this whole endpoint exists for. */
  readonly receiveCount: number;
  /** The handle of the latest receive; an older handle still names the message but no longer settles it. */
  readonly receiptHandle: string | null;
  readonly visibleAt: number;
  /** Where a dead-letter move took it from. */
  readonly sourceArn: string | null;
}

export type SqsMessageState = "visible" | "in_flight" | "delayed";

export function messageState(message: SqsMessage, at: number): SqsMessageState {
  if (message.visibleAt <= at) return "visible";
  return message.receiptHandle === null ? "delayed" : "in_flight";
}

export function md5(text: string): string {
  return createHash("md5").update(text).digest("hex");
}

export function sequenceNumber(sequence: number): string {
  return String(sequence).padStart(20, "0");
}

/** SQS takes the characters of XML 1.0. Source: SendMessage API reference, MessageBody. */
export function checkBody(body: string): void {
  if (body === "") throw new SqsError("MissingParameter", "The request must contain the parameter MessageBody.");
  for (let index = 0; index < body.length; index += 1) {
    const unit = body.charCodeAt(index);
    const forbidden = unit < 0x20 ? unit !== 0x9 && unit !== 0xa && unit !== 0xd : unit >= 0xfffe;
    if (forbidden) {
      const name = `U+${unit.toString(16).toUpperCase().padStart(4, "0")}`;
      throw new SqsError(
        "InvalidMessageContents",
        `The message body has the character ${name}, which SQS does not take.`,
      );
    }
  }
}

/** What ReceiveMessage returns for one message, in wire names. */
export interface SqsReceivedMessage {
  readonly MessageId: string;
  readonly ReceiptHandle: string | null;
  readonly MD5OfBody: string;
  readonly Body: string;
  readonly Attributes?: Readonly<Record<string, string>>;
  readonly MessageAttributes?: SqsAttributes;
  readonly MD5OfMessageAttributes?: string;
}

export interface SqsViewOptions {
  readonly systemNames: readonly string[];
  readonly attributeNames: readonly string[];
  /** The `count_missing` fault: as if SQS had not said how often the message was received. */
  readonly countMissing: boolean;
}

function systemAttributes(message: SqsMessage): Readonly<Record<string, string>> {
  const fifo = message.dedupId !== null;
  return {
    SenderId: "AIDALOCALDEVSTACK",
    SentTimestamp: String(message.sentAt),
    ApproximateReceiveCount: String(message.receiveCount),
    ...(message.firstReceivedAt !== null && { ApproximateFirstReceiveTimestamp: String(message.firstReceivedAt) }),
    ...(message.groupId !== null && { MessageGroupId: message.groupId }),
    ...(fifo && { MessageDeduplicationId: message.dedupId, SequenceNumber: sequenceNumber(message.sequence) }),
    ...(message.sourceArn !== null && { DeadLetterQueueSourceArn: message.sourceArn }),
    ...(message.traceHeader !== null &&
      "StringValue" in message.traceHeader && { AWSTraceHeader: message.traceHeader.StringValue }),
  };
}

/** Nothing that was not asked for is shown: a consumer that forgets to ask must notice here, not in production. */
export function viewMessage(message: SqsMessage, options: SqsViewOptions): SqsReceivedMessage {
  const system = Object.entries(systemAttributes(message)).filter(
    ([name]) => isWanted(name, options.systemNames) && !(options.countMissing && name === "ApproximateReceiveCount"),
  );
  const attributes = wantedAttributes(message.attributes, options.attributeNames);
  // The digest covers the returned attributes, not the sent ones: that is what the SDK can check.
  const digest = attributesMd5(attributes);
  return {
    MessageId: message.id,
    ReceiptHandle: message.receiptHandle,
    MD5OfBody: md5(message.body),
    Body: message.body,
    ...(system.length > 0 && { Attributes: Object.fromEntries(system) }),
    ...(digest !== undefined && { MessageAttributes: attributes, MD5OfMessageAttributes: digest }),
  };
}
