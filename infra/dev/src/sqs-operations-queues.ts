// Operations on queues: make, find, describe, purge, delete, and the way back out of a dead-letter queue.

import { randomUUID } from "node:crypto";
import type { SqsCall, SqsReply } from "./sqs-call.ts";
import { invalidParameter, SqsError } from "./sqs-errors.ts";
import { countMessages, type SqsQueue } from "./sqs-queue.ts";
import { checkQueueAttributes, QUEUE_ATTRIBUTE_DEFAULTS, redrivePolicy } from "./sqs-queue-attributes.ts";
import { decideMove } from "./sqs-queue-move.ts";
import { optionalText, requiredText, textList, textRecord } from "./sqs-request.ts";

const QUEUE_NAME = /^[A-Za-z0-9_-]{1,80}$|^[A-Za-z0-9_-]{1,75}\.fifo$/;

export function calledQueue(call: SqsCall): SqsQueue {
  return call.store.queue(requiredText(call.parameters, "QueueUrl"));
}

/** Asking again with the same attributes finds the queue; with another value it is refused, as SQS does. */
export function createQueue(call: SqsCall): SqsReply {
  const name = requiredText(call.parameters, "QueueName");
  const attributes = textRecord(call.parameters, "Attributes");
  checkQueueAttributes(attributes);
  const existing = call.store.find(name);
  if (existing === undefined) makeQueue(call, { name, attributes });
  else refuseOtherValues(existing, attributes);
  return { QueueUrl: call.store.url(name, call.host) };
}

interface QueueToMake {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
}

function makeQueue(call: SqsCall, { name, attributes }: QueueToMake): void {
  if (!QUEUE_NAME.test(name)) {
    throw invalidParameter(
      "QueueName",
      name,
      "it is not 1 to 80 letters, digits, hyphens or underscores (with .fifo for FIFO)",
    );
  }
  if (name.endsWith(".fifo") !== (attributes["FifoQueue"] === "true")) {
    throw invalidParameter("QueueName", name, "a FIFO queue, and no other, ends with .fifo");
  }
  call.store.roomForQueue();
  const at = call.clock.now();
  const all = { ...QUEUE_ATTRIBUTE_DEFAULTS, ...attributes };
  call.store.commit([
    { kind: "queue_set", queue: name, attributes: all, createdAt: at, modifiedAt: at, lastSequence: 0 },
  ]);
}

function refuseOtherValues(existing: SqsQueue, attributes: Readonly<Record<string, string>>): void {
  for (const [key, value] of Object.entries(attributes)) {
    if (existing.attributes[key] === value) continue;
    throw new SqsError("QueueNameExists", `Queue ${existing.name} exists with another value for attribute ${key}.`);
  }
}

export function getQueueUrl(call: SqsCall): SqsReply {
  return { QueueUrl: call.store.url(call.store.queue(requiredText(call.parameters, "QueueName")).name, call.host) };
}

/** All at once: this endpoint does not page. No match, no list, as SQS answers. */
export function listQueues(call: SqsCall): SqsReply {
  const prefix = optionalText(call.parameters, "QueueNamePrefix") ?? "";
  const names = [...call.store.queues()].map((queue) => queue.name).filter((name) => name.startsWith(prefix));
  return names.length === 0 ? {} : { QueueUrls: names.map((name) => call.store.url(name, call.host)) };
}

export function getQueueAttributes(call: SqsCall): SqsReply {
  const queue = calledQueue(call);
  const counts = countMessages(queue, call.clock.now());
  const all: Readonly<Record<string, string>> = {
    ...queue.attributes,
    QueueArn: call.store.arn(queue.name),
    CreatedTimestamp: String(Math.floor(queue.createdAt / 1000)),
    LastModifiedTimestamp: String(Math.floor(queue.modifiedAt / 1000)),
    ApproximateNumberOfMessages: String(counts.visible),
    ApproximateNumberOfMessagesNotVisible: String(counts.inFlight),
    ApproximateNumberOfMessagesDelayed: String(counts.delayed),
  };
  const wanted = textList(call.parameters, "AttributeNames");
  const shown = Object.entries(all).filter(([name]) => wanted.includes("All") || wanted.includes(name));
  return shown.length === 0 ? {} : { Attributes: Object.fromEntries(shown) };
}

export function setQueueAttributes(call: SqsCall): SqsReply {
  const queue = calledQueue(call);
  const attributes = textRecord(call.parameters, "Attributes");
  checkQueueAttributes(attributes);
  call.store.commit([
    {
      kind: "queue_set",
      queue: queue.name,
      attributes: { ...queue.attributes, ...attributes },
      createdAt: queue.createdAt,
      modifiedAt: call.clock.now(),
      lastSequence: queue.lastSequence,
    },
  ]);
  return {};
}

/** At once and as often as asked: the one-minute rules of SQS on purging and re-creating would only slow tests. */
export function purgeQueue(call: SqsCall): SqsReply {
  call.store.commit([{ kind: "queue_purged", queue: calledQueue(call).name }]);
  return {};
}

export function deleteQueue(call: SqsCall): SqsReply {
  const queue = calledQueue(call);
  call.store.commit([{ kind: "queue_deleted", queue: queue.name }]);
  call.polls.endAll(queue.name);
  call.faults.clear(queue.name);
  return {};
}

function sourceQueues(call: SqsCall, deadLetterArn: string): readonly SqsQueue[] {
  return [...call.store.queues()].filter(
    (queue) => redrivePolicy(queue.attributes)?.deadLetterTargetArn === deadLetterArn,
  );
}

export function listDeadLetterSourceQueues(call: SqsCall): SqsReply {
  const sources = sourceQueues(call, call.store.arn(calledQueue(call).name));
  // Lower case first letter: the one reply member of the whole API that is spelled so.
  return { queueUrls: sources.map((queue) => call.store.url(queue.name, call.host)) };
}

/** Done when answered; the task handle is for show, no task is kept. */
export function startMessageMoveTask(call: SqsCall): SqsReply {
  const sourceArn = requiredText(call.parameters, "SourceArn");
  const destinationArn = optionalText(call.parameters, "DestinationArn");
  const source = call.store.findByArn(sourceArn);
  const named = destinationArn === undefined ? undefined : call.store.findByArn(destinationArn);
  if (source === undefined || (destinationArn !== undefined && named === undefined)) {
    throw new SqsError(
      "ResourceNotFoundException",
      `There is no queue ${source === undefined ? sourceArn : destinationArn}.`,
    );
  }
  if (sourceQueues(call, sourceArn).length === 0) {
    throw invalidParameter("SourceArn", sourceArn, "the source queue is no queue's dead-letter queue");
  }
  call.store.commit(
    decideMove(source, {
      at: call.clock.now(),
      destinationOf: (message) =>
        named ?? (message.sourceArn === null ? undefined : call.store.findByArn(message.sourceArn)),
    }),
  );
  return { TaskHandle: randomUUID() };
}
