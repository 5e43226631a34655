// Settling: what a receipt handle may still do - delete the message, or change how long it stays hidden.

import { invalidParameter, SqsError } from "./sqs-errors.ts";
import { messageState, type SqsMessage } from "./sqs-message.ts";
import { isFifo, type SqsChange, type SqsQueue } from "./sqs-queue.ts";

/** A message may be hidden for 12 hours counted from its receive. Source: SQS developer guide, visibility timeout. */
const FLIGHT_SECONDS_MAX = 43_200;

/** Opaque to clients; inside it names queue, message and receive, so that a stale one can be told from garbage. */
export function newReceiptHandle(queue: string, messageId: string, receiveId: string): string {
  return Buffer.from(JSON.stringify([queue, messageId, receiveId])).toString("base64");
}

/** The message a handle names, stale or not; undefined when it was deleted. Garbage throws. */
function messageByHandle(queue: SqsQueue, handle: string): SqsMessage | undefined {
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(handle, "base64").toString());
  } catch {
    parts = undefined;
  }
  if (!Array.isArray(parts) || parts.length !== 3 || parts[0] !== queue.name) {
    throw new SqsError(
      "ReceiptHandleIsInvalid",
      `The receipt handle ${handle.slice(0, 80)} is not one of queue ${queue.name}.`,
    );
  }
  return queue.messages.get(String(parts[1]));
}

/**
 * A deleted message and, on a standard queue, a stale handle both answer "deleted": success is no proof.
 * Source: DeleteMessage API reference, "the request succeeds, but the message might not be deleted".
 */
export function decideDelete(queue: SqsQueue, handle: string, at: number): readonly SqsChange[] {
  const message = messageByHandle(queue, handle);
  if (message === undefined) return [];
  const current = message.receiptHandle === handle;
  if (isFifo(queue) && (!current || messageState(message, at) === "visible")) {
    throw invalidParameter("ReceiptHandle", handle, "the receipt handle has expired");
  }
  return current ? [{ kind: "message_removed", queue: queue.name, messageId: message.id }] : [];
}

export interface SqsVisibilityChange {
  readonly handle: string;
  readonly visibilitySeconds: number;
  readonly at: number;
}

/** Touches the time only. The receive count must not move: a heartbeat is not a delivery. */
export function decideVisibility(queue: SqsQueue, change: SqsVisibilityChange): readonly SqsChange[] {
  const message = messageByHandle(queue, change.handle);
  if (
    message === undefined ||
    message.receiptHandle !== change.handle ||
    messageState(message, change.at) !== "in_flight"
  ) {
    throw new SqsError(
      "MessageNotInflight",
      "The receipt handle names no message in flight: deleted, expired or received again.",
    );
  }
  // Whole seconds, so that 43200 right after the receive passes. Beyond the cap SQS refuses; it does not clamp.
  const flownSeconds = Math.floor((change.at - (message.receivedAt ?? change.at)) / 1000);
  if (flownSeconds + change.visibilitySeconds > FLIGHT_SECONDS_MAX) {
    throw invalidParameter(
      "VisibilityTimeout",
      change.visibilitySeconds,
      `with the ${flownSeconds} s since its receive the message would be hidden beyond ${FLIGHT_SECONDS_MAX} s`,
    );
  }
  const visibleAt = change.at + 1000 * change.visibilitySeconds;
  return [{ kind: "message_put", queue: queue.name, message: { ...message, visibleAt } }];
}
