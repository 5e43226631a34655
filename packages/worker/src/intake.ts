// Intake: sqs-consumer as a poller and nothing else. Slots before a receive, one handler call a delivery, no delete here.
import type { Message, SQSClient } from "@aws-sdk/client-sqs";
import pLimit from "p-limit";
import { Consumer } from "sqs-consumer";
import { pollClient } from "./intake-client.ts";
import type { ReceiveFailure } from "./intake-failure.ts";
import type { IntakeGate } from "./intake-gate.ts";
import { pause } from "./intake-pause.ts";
import { PollHealth, type PollState } from "./intake-poll.ts";
import { Slots } from "./intake-slots.ts";

/** One receive of a message, ours by a delivery id: SQS counts can be missing or repeat. */
export interface ReceivedMessage {
  readonly message: Message;
  /** Monotonic clock at the receive's answer. */
  readonly receivedAt: number;
  /**
   * Gives the slot away before the delivery's end, for the next receive: the run has ended and only settling is left. As many
   * may be settling as there are slots; beyond that the slot goes with the delivery. Calls after the first do nothing.
   */
  readonly freeSlot: () => void;
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
  /** A message that arrived while stopping, or while the gate was closed: to be given back unrun. Must not reject. */
  readonly onUnwanted: (message: Message) => Promise<void>;
  readonly onPollError: (error: unknown, about: PollError) => void;
  /** Called for the first message without a receive count: from then on redeliveries are not seen as such (Q11). */
  readonly onCountMissing: () => void;
}

export interface PollError {
  readonly failure: ReceiveFailure;
  readonly retryInMs: number;
}

export interface Intake {
  start(): void;
  /** Ends the poll at once and takes nothing more; resolves when the poll loop has ended. Deliveries in work go on. */
  stop(): Promise<void>;
  /** Deliveries in work, those that are only being settled among them. */
  active(): number;
  /** Resolves when no delivery is in work. */
  idle(): Promise<void>;
  /** How receiving goes, for health and metrics. */
  poll(): PollState;
}

/** SQS gives at most ten. */
const RECEIVE_MAX = 10;
/**
 * On a FIFO queue one: a batch may hold several messages of one group, and whoever has them must run them in order and stop
 * at the first failure. Received one by one, SQS keeps the order: it shows no message of a group with one in flight (Q17, C09).
 */
const RECEIVE_MAX_FIFO = 1;

export function createIntake(options: IntakeOptions): Intake {
  const slots = new Slots(options.concurrency, options.now);
  const limit = pLimit(options.concurrency);
  const health = new PollHealth(options.now);
  const stopping = new AbortController();
  const working = new Set<Promise<void>>();
  const receiveMax = options.queueUrl.endsWith(".fifo") ? RECEIVE_MAX_FIFO : RECEIVE_MAX;
  let reserved = 0;
  let settling = 0;
  let retryInMs = 0;

  const accept = async (messages: readonly Message[]): Promise<void> => {
    retryInMs = 0;
    if (health.answered(messages)) options.onCountMissing();
    const receivedAt = options.now();
    const unwanted = messages.filter((message) => stopping.signal.aborted || !begin(message, receivedAt));
    await Promise.all(unwanted.map((message) => options.onUnwanted(message)));
  };

  const begin = (message: Message, receivedAt: number): boolean => {
    if (!options.gate.enter()) return false;
    reserved -= 1;
    const ended = (): void => {
      working.delete(work);
      options.gate.leave();
    };
    // One promise, where `finally` makes several for each delivery; `onDelivery` must not reject.
    const work = inSlot((freeSlot) => options.onDelivery({ message, receivedAt, freeSlot })).then(ended, ended);
    working.add(work);
    return true;
  };

  /** p-limit bounds the runs; a run that is only being settled is none any more, and bounded by `settling`. */
  const inSlot = async (deliver: (freeSlot: () => void) => Promise<void>): Promise<void> => {
    let delivered: Promise<void> | undefined;
    await limit(
      () =>
        new Promise<void>((leaveSlot) => {
          let slot: "held" | "given" = "held";
          const give = (): void => {
            slot = "given";
            slots.give(1);
            leaveSlot();
          };
          const freeSlot = (): void => {
            if (slot === "given" || settling >= options.concurrency) return;
            settling += 1;
            give();
          };
          const leave = (): void => {
            if (slot === "given") settling -= 1;
            else give();
          };
          delivered = deliver(freeSlot).then(leave, leave);
        }),
    );
    await delivered;
  };

  /** Called by sqs-consumer and awaited before each receive: here it waits for slots, an open gate, and after failures for the backoff. */
  const beforeReceive = async (): Promise<void> => {
    giveBackUnused();
    if (retryInMs > 0) await pause(retryInMs, stopping.signal);
    reserved = await slots.take(receiveMax, stopping.signal);
    // After the slots: the gate may have been closed while they were waited for. Slots that wait here are nobody else's.
    await options.gate.opened(stopping.signal);
    if (stopping.signal.aborted) giveBackUnused();
    else health.sent();
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
    // Our own backoff covers every failure by its class; the library's ten seconds would come on top.
    authenticationErrorTimeout: 0,
    handleMessageBatch: async (messages) => {
      await accept(messages);
      return [];
    },
  });
  consumer.on("empty", () => {
    retryInMs = 0;
    health.answered([]);
  });
  consumer.on("error", (error) => {
    if (stopping.signal.aborted) return;
    const about = health.failed(error, options.random());
    retryInMs = about.retryInMs;
    options.onPollError(error, about);
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
    poll: () => health.state(),
  };
}
