// One SQS queue: its state, and the only function that changes it. Deciding is done next door (send, receive, settle, move).

import { SqsError } from "./sqs-errors.ts";
import { messageState, type SqsMessage } from "./sqs-message.ts";
import { attributeNumber, type SqsQueueAttributes } from "./sqs-queue-attributes.ts";

export interface SqsDedupEntry {
  readonly at: number;
  readonly messageId: string;
  readonly sequence: number;
}

/** Mutable on purpose and only by `applyChange`: a batch decides entry by entry against the state so far. */
export interface SqsQueue {
  readonly name: string;
  readonly createdAt: number;
  attributes: SqsQueueAttributes;
  modifiedAt: number;
  lastSequence: number;
  /** In order of arrival: a Map keeps the place of a key that is set again, and FIFO order rests on that. */
  readonly messages: Map<string, SqsMessage>;
  /** FIFO only; outlives the message it names, as the five-minute window does. */
  readonly dedup: Map<string, SqsDedupEntry>;
}

/** Everything that can happen to queues. Also the lines of the journal: adding a kind is a format change. */
export type SqsChange =
  | {
      readonly kind: "queue_set";
      readonly queue: string;
      readonly attributes: SqsQueueAttributes;
      readonly createdAt: number;
      readonly modifiedAt: number;
      readonly lastSequence: number;
    }
  | { readonly kind: "queue_deleted"; readonly queue: string }
  | { readonly kind: "queue_purged"; readonly queue: string }
  | { readonly kind: "message_put"; readonly queue: string; readonly message: SqsMessage }
  | { readonly kind: "message_removed"; readonly queue: string; readonly messageId: string }
  | { readonly kind: "dedup_put"; readonly queue: string; readonly dedupId: string; readonly entry: SqsDedupEntry };

export const DEDUP_WINDOW_MS = 300_000;
/** A bound of this endpoint, far above what a development stack needs. SQS itself has none. */
export const MESSAGES_MAX = 100_000;

export function isFifo(queue: Pick<SqsQueue, "attributes">): boolean {
  return queue.attributes["FifoQueue"] === "true";
}

export function roomForMessage(queue: SqsQueue): void {
  if (queue.messages.size < MESSAGES_MAX) return;
  throw new SqsError(
    "OverLimit",
    `Queue ${queue.name} holds ${MESSAGES_MAX} messages, the bound of the embedded endpoint.`,
    {
      bound: "messages",
    },
  );
}

/** Live and replayed changes go through here alike, which is what makes a restart land in the same state. */
export function applyChange(queues: Map<string, SqsQueue>, change: SqsChange): void {
  const queue = queues.get(change.queue);
  switch (change.kind) {
    case "queue_set":
      setQueue(queues, change);
      return;
    case "queue_deleted":
      queues.delete(change.queue);
      return;
    case "queue_purged":
      queue?.messages.clear();
      return;
    case "message_put":
      if (queue === undefined) return;
      queue.messages.set(change.message.id, change.message);
      queue.lastSequence = Math.max(queue.lastSequence, change.message.sequence);
      return;
    case "message_removed":
      queue?.messages.delete(change.messageId);
      return;
    case "dedup_put":
      if (queue === undefined) return;
      forgetOldDedup(queue, change.entry.at);
      queue.dedup.delete(change.dedupId);
      queue.dedup.set(change.dedupId, change.entry);
      return;
    default:
      throw unknownChange(change);
  }
}

function setQueue(queues: Map<string, SqsQueue>, change: Extract<SqsChange, { kind: "queue_set" }>): void {
  const queue = queues.get(change.queue);
  if (queue !== undefined) {
    queue.attributes = change.attributes;
    queue.modifiedAt = change.modifiedAt;
    return;
  }
  queues.set(change.queue, {
    name: change.queue,
    createdAt: change.createdAt,
    attributes: change.attributes,
    modifiedAt: change.modifiedAt,
    lastSequence: change.lastSequence,
    messages: new Map(),
    dedup: new Map(),
  });
}

function unknownChange(change: never): Error {
  return new Error(`unknown queue change ${JSON.stringify(change)}`);
}

/** Bounds the dedup map by time: entries are in order of `at`, so the walk stops at the first that is young enough. */
function forgetOldDedup(queue: SqsQueue, at: number): void {
  for (const [dedupId, entry] of queue.dedup) {
    if (entry.at + DEDUP_WINDOW_MS > at) return;
    queue.dedup.delete(dedupId);
  }
}

export interface SqsQueueCounts {
  readonly visible: number;
  readonly inFlight: number;
  readonly delayed: number;
}

/** Counted afresh each time, so an expiry nobody received still shows. */
export function countMessages(queue: SqsQueue, at: number): SqsQueueCounts {
  const counts = { visible: 0, inFlight: 0, delayed: 0 };
  const retentionMs = 1000 * attributeNumber(queue.attributes, "MessageRetentionPeriod");
  for (const message of queue.messages.values()) {
    if (message.sentAt + retentionMs < at) continue;
    const state = messageState(message, at);
    if (state === "visible") counts.visible += 1;
    else if (state === "in_flight") counts.inFlight += 1;
    else counts.delayed += 1;
  }
  return counts;
}

/** When the next hidden message appears; undefined when none is hidden. Wakes the long polls that wait for it. */
export function nextVisibleAt(queue: SqsQueue, at: number): number | undefined {
  let next: number | undefined;
  for (const message of queue.messages.values()) {
    if (message.visibleAt > at && (next === undefined || message.visibleAt < next)) next = message.visibleAt;
  }
  return next;
}

/** The shortest list of changes that builds the same state again: what a journal is compacted to. */
export function snapshotChanges(queues: ReadonlyMap<string, SqsQueue>): readonly SqsChange[] {
  const changes: SqsChange[] = [];
  for (const queue of queues.values()) {
    const { name, attributes, createdAt, modifiedAt, lastSequence } = queue;
    changes.push({ kind: "queue_set", queue: name, attributes, createdAt, modifiedAt, lastSequence });
    for (const [dedupId, entry] of queue.dedup) changes.push({ kind: "dedup_put", queue: name, dedupId, entry });
    for (const message of queue.messages.values()) changes.push({ kind: "message_put", queue: name, message });
  }
  return changes;
}
