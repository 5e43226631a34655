// Operations on messages: send, receive (with the long poll), delete and change visibility, single and in batches.

import type { SqsCall, SqsReply } from "./sqs-call.ts";
import { SqsError } from "./sqs-errors.ts";
import type { SqsFaultTarget } from "./sqs-faults.ts";
import { md5, type SqsMessage, sequenceNumber, viewMessage } from "./sqs-message.ts";
import { attributesMd5, parseAttributes } from "./sqs-message-attributes.ts";
import { calledQueue } from "./sqs-operations-queues.ts";
import { isFifo, nextVisibleAt, type SqsQueue } from "./sqs-queue.ts";
import {
  attributeNumber,
  DELAY_SECONDS,
  redrivePolicy,
  VISIBILITY_SECONDS,
  WAIT_SECONDS,
} from "./sqs-queue-attributes.ts";
import { decideReceive } from "./sqs-queue-receive.ts";
import { decideSend, messageBytes, type SqsSend } from "./sqs-queue-send.ts";
import { decideDelete, decideVisibility } from "./sqs-queue-settle.ts";
import {
  batchEntries,
  optionalInteger,
  optionalRecord,
  optionalText,
  requiredInteger,
  requiredText,
  type SqsParameters,
  textList,
} from "./sqs-request.ts";

const BATCH_BYTES_MAX = 1_048_576;

function readSend(parameters: SqsParameters): SqsSend {
  const system = parseAttributes(optionalRecord(parameters, "MessageSystemAttributes"));
  return {
    body: requiredText(parameters, "MessageBody"),
    attributes: parseAttributes(optionalRecord(parameters, "MessageAttributes")),
    traceHeader: system["AWSTraceHeader"] ?? null,
    groupId: optionalText(parameters, "MessageGroupId"),
    dedupId: optionalText(parameters, "MessageDeduplicationId"),
    delaySeconds: optionalInteger(parameters, "DelaySeconds", DELAY_SECONDS),
  };
}

function sendOne(call: SqsCall, queue: SqsQueue, send: SqsSend): SqsReply {
  const decision = decideSend(queue, send, call.clock.now());
  call.store.commit(decision.changes);
  const attributesDigest = attributesMd5(send.attributes);
  const systemDigest = send.traceHeader === null ? undefined : attributesMd5({ AWSTraceHeader: send.traceHeader });
  return {
    MessageId: decision.messageId,
    MD5OfMessageBody: md5(send.body),
    ...(attributesDigest !== undefined && { MD5OfMessageAttributes: attributesDigest }),
    ...(systemDigest !== undefined && { MD5OfMessageSystemAttributes: systemDigest }),
    ...(isFifo(queue) && { SequenceNumber: sequenceNumber(decision.sequence) }),
  };
}

export function sendMessage(call: SqsCall): SqsReply {
  return sendOne(call, calledQueue(call), readSend(call.parameters));
}

export function sendMessageBatch(call: SqsCall): SqsReply {
  const queue = calledQueue(call);
  const bytes = batchEntries(call.parameters).reduce((sum, entry) => sum + entryBytes(entry.parameters), 0);
  if (bytes > BATCH_BYTES_MAX) {
    throw new SqsError(
      "BatchRequestTooLong",
      `The messages of the batch have ${bytes} bytes together; SQS takes ${BATCH_BYTES_MAX}.`,
    );
  }
  return eachEntry(call, (parameters) => sendOne(call, queue, readSend(parameters)));
}

/** Measures what can be measured: an entry that is wrong in itself fails alone, later. */
function entryBytes(parameters: SqsParameters): number {
  try {
    const { body, attributes } = readSend(parameters);
    return messageBytes(body, attributes);
  } catch (error) {
    if (error instanceof SqsError) return 0;
    throw error;
  }
}

/** Partial success is a 200 with Failed entries: callers that read only the status lose messages. */
function eachEntry(call: SqsCall, run: (parameters: SqsParameters) => SqsReply): SqsReply {
  const Successful: SqsReply[] = [];
  const Failed: SqsReply[] = [];
  for (const entry of batchEntries(call.parameters)) {
    try {
      Successful.push({ Id: entry.id, ...run(entry.parameters) });
    } catch (error) {
      if (!(error instanceof SqsError)) throw error;
      Failed.push({ Id: entry.id, SenderFault: true, Code: error.code, Message: error.message });
    }
  }
  return { Successful, Failed };
}

export async function receiveMessage(call: SqsCall): Promise<SqsReply> {
  const queue = calledQueue(call);
  const target: SqsFaultTarget = { operation: "ReceiveMessage", queue: queue.name };
  const take = receiver(call, queue, target);
  const names = shownNames(call);
  const waitSeconds =
    optionalInteger(call.parameters, "WaitTimeSeconds", WAIT_SECONDS) ??
    attributeNumber(queue.attributes, "ReceiveMessageWaitTimeSeconds");
  let received = take();
  if (received.length === 0 && waitSeconds > 0) {
    received = await call.polls.wait(queue.name, {
      waitMs: 1000 * waitSeconds,
      connection: call.connection,
      take,
      nextVisibleAt: () => nextVisibleAt(queue, call.clock.now()),
      isSwallowed: () => call.faults.use("swallow_aborted_poll", target) !== undefined,
    });
  }
  return received.length === 0
    ? {}
    : {
        Messages: received.map((message) =>
          viewMessage(message, { ...names, countMissing: countMissing(call, target) }),
        ),
      };
}

/** Its parameters are checked before anything is taken or waits: a wrong one costs neither a message nor 20 s. */
function receiver(call: SqsCall, queue: SqsQueue, target: SqsFaultTarget): () => readonly SqsMessage[] {
  const messagesMax = optionalInteger(call.parameters, "MaxNumberOfMessages", { min: 1, max: 10 }) ?? 1;
  const visibility = optionalInteger(call.parameters, "VisibilityTimeout", VISIBILITY_SECONDS);
  return () => {
    // Read at the take, not at the call: attributes may change during a long poll.
    const policy = redrivePolicy(queue.attributes);
    const decision = decideReceive(queue, {
      messagesMax,
      visibilitySeconds: visibility ?? attributeNumber(queue.attributes, "VisibilityTimeout"),
      at: call.clock.now(),
      queueArn: call.store.arn(queue.name),
      deadLetter: policy === undefined ? undefined : call.store.findByArn(policy.deadLetterTargetArn),
      stayVisible: call.faults.budget("deliver_twice", target),
    });
    // Spent before the commit: the commit wakes other polls, and they must see what is left of the fault.
    call.faults.spend(
      "deliver_twice",
      target,
      Math.min(decision.received.length, call.faults.budget("deliver_twice", target)),
    );
    call.store.commit(decision.changes);
    return decision.received;
  };
}

interface ShownNames {
  readonly systemNames: readonly string[];
  readonly attributeNames: readonly string[];
}

function shownNames(call: SqsCall): ShownNames {
  return {
    // AttributeNames is the older spelling of the same list; SDKs of both ages are out there.
    systemNames: [
      ...textList(call.parameters, "MessageSystemAttributeNames"),
      ...textList(call.parameters, "AttributeNames"),
    ],
    attributeNames: textList(call.parameters, "MessageAttributeNames"),
  };
}

function countMissing(call: SqsCall, target: SqsFaultTarget): boolean {
  return call.faults.use("count_missing", target) !== undefined;
}

function deleteOne(call: SqsCall, queue: SqsQueue, parameters: SqsParameters): SqsReply {
  call.store.commit(decideDelete(queue, requiredText(parameters, "ReceiptHandle"), call.clock.now()));
  return {};
}

export function deleteMessage(call: SqsCall): SqsReply {
  return deleteOne(call, calledQueue(call), call.parameters);
}

export function deleteMessageBatch(call: SqsCall): SqsReply {
  const queue = calledQueue(call);
  return eachEntry(call, (parameters) => deleteOne(call, queue, parameters));
}

function changeOne(call: SqsCall, queue: SqsQueue, parameters: SqsParameters): SqsReply {
  const handle = requiredText(parameters, "ReceiptHandle");
  const visibilitySeconds = requiredInteger(parameters, "VisibilityTimeout", VISIBILITY_SECONDS);
  call.store.commit(decideVisibility(queue, { handle, visibilitySeconds, at: call.clock.now() }));
  return {};
}

export function changeMessageVisibility(call: SqsCall): SqsReply {
  return changeOne(call, calledQueue(call), call.parameters);
}

export function changeMessageVisibilityBatch(call: SqsCall): SqsReply {
  const queue = calledQueue(call);
  return eachEntry(call, (parameters) => changeOne(call, queue, parameters));
}
