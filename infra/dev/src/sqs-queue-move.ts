// Redriving a dead-letter queue: every visible message goes back, as a new message that remembers nothing of its life.

import { randomUUID } from "node:crypto";
import { messageState, type SqsMessage } from "./sqs-message.ts";
import type { SqsChange, SqsQueue } from "./sqs-queue.ts";

export interface SqsMove {
  /** The queue a message belongs to, by the ARN in its record or the one the caller named; undefined leaves it. */
  readonly destinationOf: (message: SqsMessage) => SqsQueue | undefined;
  readonly at: number;
}

/**
 * AWS moves at up to 500 messages a second; here all at once. A moved message has a *new* id, send time and a receive
 * count of 0, so only the ids inside the body tell that it is the same work.
 * Source: SQS developer guide, "Configure a dead-letter queue redrive".
 */
export function decideMove(source: SqsQueue, move: SqsMove): readonly SqsChange[] {
  const changes: SqsChange[] = [];
  const moved = new Map<string, number>();
  for (const message of source.messages.values()) {
    const destination = move.destinationOf(message);
    // A message in flight belongs to the consumer that is looking at it; one sent here directly has no way home.
    if (destination === undefined || messageState(message, move.at) !== "visible") continue;
    const nth = (moved.get(destination.name) ?? 0) + 1;
    moved.set(destination.name, nth);
    changes.push({ kind: "message_removed", queue: source.name, messageId: message.id });
    changes.push({
      kind: "message_put",
      queue: destination.name,
      message: reborn(message, { at: move.at, sequence: destination.lastSequence + nth }),
    });
  }
  return changes;
}

function reborn(message: SqsMessage, birth: { readonly at: number; readonly sequence: number }): SqsMessage {
  const id = randomUUID();
  return {
    ...message,
    id,
    // FIFO to FIFO: the old deduplication id would make the queue swallow the message, so it gets a fresh one.
    dedupId: message.dedupId === null ? null : id,
    sequence: birth.sequence,
    sentAt: birth.at,
    firstReceivedAt: null,
    receivedAt: null,
    receiveCount: 0,
    receiptHandle: null,
    visibleAt: birth.at,
    sourceArn: null,
  };
}
