// Intake: sqs-consumer as a poller and nothing else. Slots before a receive, one handler call a delivery, no delete here.
import type { Message, SQSClient } from "@aws-sdk/client-sqs";
import pLimit from "p-limit";
import { Consumer } from "sqs-consumer";
import { pollClient } from "./intake-client.ts";
import type { IntakeGate } from "./intake-gate.ts";
import { Slots } from "./intake-slots.ts";
import { backoffMs } from "./lease-time.ts";

/** One receive of a message, ours by a delivery id: SQS counts can be missing or repeat. */
export interface ReceivedMessage {
  readonly message: Message;
  /** Monotonic clock at the receive's answer. */
  readonly receivedAt: number;
}

export interface IntakeOptions {
  readonly client: SQSClient;
  readonly queueUrl: string;
  /** Closed while a delivery works alone: nothing is received then. */
  readonly gate: IntakeGate;
  readonly concurrency: number;
  readonly waitSeconds: number;
  readonly visibilitySeconds: number;
  readonly now: () => number;
  readonly random: () => number;
  /** Takes the whole life of a delivery; must not reject. */
  readonly onDelivery: (received: ReceivedMessage) => Promise<void>;
  /** A message that arrived while stopping, or while the gate was closed: to be given back unrun. */
  readonly onUnwanted: (message: Message) => Promise<void>;
  readonly onPollError: (error: unknown, retryInMs: number) => void;
}

export interface Intake {
  start(): void;
  /** Ends the poll at once and takes nothing more; resolves when the poll loop has ended. Deliveries in work go on. */
  stop(): Promise<void>;
  /** Deliveries in work. */
  active(): number;
  /** Resolves when no delivery is in work. */
  idle(): Promise<void>;
}

const RECEIVE_MAX = 10;
const BACKOFF = { baseMs: 500, maxMs: 30_000 } as const;

export function createIntake(options: IntakeOptions): Intake {
  const slots = new Slots(options.concurrency);
  const limit = pLimit(options.concurrency);
  const stopping = new AbortController();
  const working = new Set<Promise<void>>();
  let reserved = 0;
  let failures = 0;

  const accept = async (messages: readonly Message[]): Promise<void> => {
    failures = 0;
    const receivedAt = options.now();
    const unwanted = messages.filter((message) => stopping.signal.aborted || !begin({ message, receivedAt }));
    await Promise.all(unwanted.map((message) => options.onUnwanted(message)));
  };

  const begin = (received: ReceivedMessage): boolean => {
    if (!options.gate.enter()) return false;
    reserved -= 1;
    const work = limit(() => options.onDelivery(received)).finally(() => {
      working.delete(work);
      options.gate.leave();
      slots.give(1);
    });
    working.add(work);
    return true;
  };

  /** Called by sqs-consumer and awaited before each receive: here it waits for slots, an open gate, and after failures for the backoff. */
  const beforeReceive = async (): Promise<void> => {
    giveBackUnused();
    if (failures > 0) await pause(backoffMs(failures, options.random(), BACKOFF), stopping.signal);
    reserved = await slots.take(RECEIVE_MAX, stopping.signal);
    // After the slots: the gate may have been closed while they were waited for. Slots that wait here are nobody else's.
    await options.gate.opened(stopping.signal);
    if (stopping.signal.aborted) giveBackUnused();
  };
  const giveBackUnused = (): void => {
    if (reserved > 0) slots.give(reserved);
    reserved = 0;
  };

  const consumer = Consumer.create({
    queueUrl: options.queueUrl,
    sqs: pollClient(options.client, {
      taken: () => reserved,
      signal: stopping.signal,
      waitMs: options.waitSeconds * 1000,
    }),
    batchSize: RECEIVE_MAX,
    waitTimeSeconds: options.waitSeconds,
    visibilityTimeout: options.visibilitySeconds,
    // Without asking, SQS says nothing of receives and traces (case C06, M9).
    messageSystemAttributeNames: ["All"],
    messageAttributeNames: ["All"],
    shouldDeleteMessages: false,
    preReceiveMessageCallback: beforeReceive,
    suppressFifoWarning: true,
    // Our own class-free backoff covers every failure; the library's ten seconds would come on top.
    authenticationErrorTimeout: 0,
    handleMessageBatch: async (messages) => {
      await accept(messages);
      return [];
    },
  });
  consumer.on("empty", () => {
    failures = 0;
  });
  consumer.on("error", (error) => {
    if (stopping.signal.aborted) return;
    failures += 1;
    options.onPollError(error, backoffMs(failures, 1, BACKOFF));
  });

  return {
    start: () => consumer.start(),
    stop: async () => {
      consumer.stop();
      stopping.abort();
      // `stopped` fires at once, with the poll still open (facts/queue, P7): wait for the poll itself.
      while (consumer.status.isPolling) await pause(5, undefined);
      giveBackUnused();
    },
    active: () => working.size,
    idle: async () => {
      while (working.size > 0) await Promise.all(working);
    },
  };
}

/** Resolves after `ms` or when the signal fires. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done, { once: true });
  });
}
