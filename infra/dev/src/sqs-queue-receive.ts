// Receiving: which messages a receive takes now, what it does to each one it meets, and why.

import { randomUUID } from "node:crypto";
import { messageState, type SqsMessage } from "./sqs-message.ts";
import { isFifo, type SqsChange, type SqsQueue } from "./sqs-queue.ts";
import { attributeNumber, redrivePolicy } from "./sqs-queue-attributes.ts";
import { newReceiptHandle } from "./sqs-queue-settle.ts";

export interface SqsReceive {
  readonly messagesMax: number;
  readonly visibilitySeconds: number;
  readonly at: number;
  readonly queueArn: string;
  /** The queue that exhausted messages move to; undefined without a redrive policy or when that queue is gone. */
  readonly deadLetter: SqsQueue | undefined;
  /** The `deliver_twice` fault: this many of the taken messages stay visible. */
  readonly stayVisible: number;
}

export interface SqsReceiveDecision {
  readonly changes: readonly SqsChange[];
  readonly received: readonly SqsMessage[];
}

/** What a receive does with one message. */
export type SqsMessageFate = "taken" | "hidden" | "group_locked" | "past_retention" | "exhausted";

interface FateContext {
  readonly at: number;
  readonly retentionMs: number;
  /** Undefined: nothing is ever exhausted. */
  readonly receiveCountMax: number | undefined;
  readonly lockedGroups: ReadonlySet<string>;
}

function fateOf(message: SqsMessage, context: FateContext): SqsMessageFate {
  if (message.sentAt + context.retentionMs < context.at) return "past_retention";
  if (messageState(message, context.at) !== "visible") return "hidden";
  if (message.groupId !== null && context.lockedGroups.has(message.groupId)) return "group_locked";
  // SQS moves a message when someone would receive it once too often, not when its last visibility ends.
  if (context.receiveCountMax !== undefined && message.receiveCount >= context.receiveCountMax) return "exhausted";
  return "taken";
}

export function decideReceive(queue: SqsQueue, ask: SqsReceive): SqsReceiveDecision {
  const fifo = isFifo(queue);
  const lockedGroups = fifo ? groupsInFlight(queue, ask.at) : new Set<string>();
  const context: FateContext = {
    at: ask.at,
    retentionMs: 1000 * attributeNumber(queue.attributes, "MessageRetentionPeriod"),
    receiveCountMax: ask.deadLetter === undefined ? undefined : redrivePolicy(queue.attributes)?.maxReceiveCount,
    lockedGroups,
  };
  const changes: SqsChange[] = [];
  const received: SqsMessage[] = [];
  let deadLetters = 0;
  for (const message of queue.messages.values()) {
    if (received.length >= ask.messagesMax) break;
    const fate = fateOf(message, context);
    switch (fate) {
      case "taken": {
        const taken = take(queue, message, { ...ask, staysVisible: received.length < ask.stayVisible });
        changes.push({ kind: "message_put", queue: queue.name, message: taken });
        received.push(taken);
        break;
      }
      case "hidden":
      case "group_locked":
        // Order inside a group: once one message of it has to wait, every later one waits too.
        if (fifo && message.groupId !== null) lockedGroups.add(message.groupId);
        break;
      case "past_retention":
        changes.push({ kind: "message_removed", queue: queue.name, messageId: message.id });
        break;
      case "exhausted":
        deadLetters += 1;
        changes.push(...toDeadLetter(queue, message, { ...ask, nth: deadLetters }));
        break;
      default:
        throw unknownFate(fate);
    }
  }
  return { changes, received };
}

function unknownFate(fate: never): Error {
  return new Error(`unknown message fate ${String(fate)}`);
}

/** Looked up before the walk: after a visibility of 0 the earlier message is free while later ones are still out. */
function groupsInFlight(queue: SqsQueue, at: number): Set<string> {
  const groups = new Set<string>();
  for (const message of queue.messages.values()) {
    if (message.groupId !== null && messageState(message, at) === "in_flight") groups.add(message.groupId);
  }
  return groups;
}

function take(queue: SqsQueue, message: SqsMessage, ask: SqsReceive & { readonly staysVisible: boolean }): SqsMessage {
  return {
    ...message,
    receiveCount: message.receiveCount + 1,
    firstReceivedAt: message.firstReceivedAt ?? ask.at,
    receivedAt: ask.at,
    receiptHandle: newReceiptHandle(queue.name, message.id, randomUUID()),
    visibleAt: ask.staysVisible ? ask.at : ask.at + 1000 * ask.visibilitySeconds,
  };
}

/**
 * Same message id, body, attributes and send time; the receive count is carried on, which was never verified
 * against AWS: assert nothing on it.
 */
function toDeadLetter(
  queue: SqsQueue,
  message: SqsMessage,
  ask: SqsReceive & { readonly nth: number },
): readonly SqsChange[] {
  if (ask.deadLetter === undefined) return [];
  const moved: SqsMessage = {
    ...message,
    receiptHandle: null,
    receivedAt: null,
    visibleAt: ask.at,
    sequence: ask.deadLetter.lastSequence + ask.nth,
    sourceArn: ask.queueArn,
  };
  return [
    { kind: "message_removed", queue: queue.name, messageId: message.id },
    { kind: "message_put", queue: ask.deadLetter.name, message: moved },
  ];
}
