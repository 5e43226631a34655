// Proves the intake around sqs-consumer with a fake client: slots, stopping, backoff, and that polls never touch deletes.
import { ReceiveMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createIntake, type Intake, type IntakeOptions, type ReceivedMessage } from "../src/intake.ts";
import { IntakeGate } from "../src/intake-gate.ts";
import { pause } from "../src/intake-pause.ts";

interface Options {
  readonly abortSignal: AbortSignal;
}
type Answer = (count: number, options: Options) => Promise<unknown>;

const receives: { readonly at: number; readonly count: number; readonly command: ReceiveMessageCommand }[] = [];
const others: unknown[] = [];
let answers: Answer[];
let startedAt: number;
let intake: Intake;
let gate: IntakeGate;
const onUnwanted = vi.fn<IntakeOptions["onUnwanted"]>();
const onPollError = vi.fn<IntakeOptions["onPollError"]>();
const onCountMissing = vi.fn<IntakeOptions["onCountMissing"]>();
const handled: string[] = [];
let onDelivery: IntakeOptions["onDelivery"];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  startedAt = Date.now();
  receives.length = 0;
  others.length = 0;
  handled.length = 0;
  answers = [];
  gate = new IntakeGate();
  onUnwanted.mockReset().mockResolvedValue(undefined);
  onPollError.mockReset();
  onCountMissing.mockReset();
  onDelivery = async () => {};
});

afterEach(async () => {
  const stop = intake.stop();
  // A poll that hears no signal is waited for a second.
  await vi.advanceTimersByTimeAsync(1_100);
  await stop;
  vi.useRealTimers();
});

const now = (): number => Date.now() - startedAt;

/** Answers each receive from the script; when it is used up, a receive waits like a long poll until it is cut. */
const client = {
  send: async (command: unknown, options: Options): Promise<unknown> => {
    if (!(command instanceof ReceiveMessageCommand)) {
      others.push(command);
      return {};
    }
    const count = command.input.MaxNumberOfMessages ?? 0;
    receives.push({ at: now(), count, command });
    return (answers.shift() ?? longPoll)(count, options);
  },
} as unknown as SQSClient;

const longPoll: Answer = (_count, { abortSignal }) =>
  new Promise((_resolve, reject) => {
    abortSignal.addEventListener("abort", () => reject(named("AbortError")), { once: true });
  });

/** Twenty seconds without a message, as SQS answers it. */
const emptyPoll: Answer = async (_count, { abortSignal }) => {
  await pause(20_000, abortSignal);
  return {};
};

let nextId = 0;
const messages = (wanted: number): Answer => {
  return async (count) => ({
    Messages: Array.from({ length: Math.min(wanted, count) }, () => {
      nextId += 1;
      const Attributes = { ApproximateReceiveCount: "1" };
      return { MessageId: `m${nextId}`, ReceiptHandle: `r${nextId}`, Body: "{}", Attributes };
    }),
  });
};
const nothing: Answer = async () => ({});
const fails = (name: string): Answer => {
  return async () => {
    throw named(name);
  };
};
const named = (name: string): Error => Object.assign(new Error(`${name} happened`), { name });

interface Begin {
  readonly random?: () => number;
  readonly queue?: string;
}

function begin(concurrency: number, { random = () => 0.5, queue = "q" }: Begin = {}): void {
  intake = createIntake({
    client,
    queueUrl: `http://127.0.0.1:1/000000000000/${queue}`,
    gate,
    concurrency,
    waitSeconds: 20,
    visibilitySeconds: 60,
    now,
    random,
    onDelivery: (received: ReceivedMessage) => {
      handled.push(received.message.MessageId ?? "");
      return onDelivery(received);
    },
    onUnwanted,
    onPollError,
    onCountMissing,
  });
  intake.start();
}

const advance = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

describe("receiving", () => {
  test("asks for the receive count and the trace, which SQS leaves out otherwise (C06)", async () => {
    begin(5);
    await advance(0);
    expect(receives[0]?.command.input).toMatchObject({
      MessageSystemAttributeNames: ["All"],
      MessageAttributeNames: ["All"],
      WaitTimeSeconds: 20,
      VisibilityTimeout: 60,
    });
  });

  test("one slow run among nine quick ones does not hold back the next receive (Q05)", async () => {
    answers = [messages(10), messages(10)];
    let first = true;
    onDelivery = () => {
      const slow = first;
      first = false;
      return pause(slow ? 60_000 : 50, undefined);
    };
    begin(20);
    await advance(200);
    expect(receives.length).toBeGreaterThanOrEqual(3);
    expect(receives[1]?.at).toBeLessThan(200);
    expect(handled).toHaveLength(20);
    expect(intake.active()).toBe(1);
  });

  test("no more messages are asked for than runs can start at once", async () => {
    answers = [messages(10), messages(10)];
    onDelivery = () => pause(1_000, undefined);
    begin(12);
    await advance(100);
    expect(receives.map((receive) => receive.count)).toEqual([10, 2]);
    expect(intake.active()).toBe(12);
  });

  test("with every slot in use no receive is sent, and the first free slot sends one for one message", async () => {
    answers = [messages(3)];
    let ended = (): void => {};
    onDelivery = ({ message }) =>
      message.MessageId === handled[0]
        ? new Promise((resolve) => {
            ended = resolve;
          })
        : pause(10_000, undefined);
    begin(3);
    await advance(5_000);
    expect(receives).toHaveLength(1);
    ended();
    await advance(20);
    expect(receives.map((receive) => receive.count)).toEqual([3, 1]);
  });

  test("with two slots never more than two are received: what nobody can start stays in the queue (Q06)", async () => {
    answers = [messages(10), messages(10), messages(10)];
    onDelivery = () => pause(20_000, undefined);
    begin(2);
    await advance(19_999);
    expect(receives.map((receive) => receive.count)).toEqual([2]);
    expect(intake.active()).toBe(2);
    await advance(100);
    expect(receives.map((receive) => receive.count)).toEqual([2, 2]);
  });

  test("on a FIFO queue one message is received at a time, so that SQS keeps the order of each group (Q17, C09)", async () => {
    answers = [messages(10), messages(10), messages(10)];
    onDelivery = () => pause(60_000, undefined);
    begin(10, { queue: "q.fifo" });
    await advance(100);
    expect(receives.map((receive) => receive.count)).toEqual([1, 1, 1, 1]);
    expect(handled).toHaveLength(3);
  });

  test("a slot is free once the run has ended, also while its message is still being settled", async () => {
    answers = [messages(2), messages(2)];
    onDelivery = async ({ freeSlot }) => {
      await pause(1_000, undefined);
      freeSlot();
      freeSlot();
      await pause(500, undefined);
    };
    begin(2);
    await advance(1_100);
    expect(handled).toHaveLength(4);
    expect(intake.active()).toBe(4);
    expect(receives.map((receive) => receive.count)).toEqual([2, 2]);
  });

  test("no more deliveries are being settled than there are slots: a settling that hangs stops the receives", async () => {
    answers = Array.from({ length: 10 }, () => messages(2));
    onDelivery = async ({ freeSlot }) => {
      freeSlot();
      await pause(3_600_000, undefined);
    };
    begin(2);
    await advance(60_000);
    expect(intake.active()).toBe(4);
    expect(receives).toHaveLength(2);
  });

  test("the first message without a receive count is said, once, and its run is not held back (Q11)", async () => {
    const without: Answer = async () => ({ Messages: [{ MessageId: "m", ReceiptHandle: "r", Body: "{}" }] });
    answers = [messages(1), without, without];
    begin(5);
    await advance(100);
    expect(onCountMissing).toHaveBeenCalledTimes(1);
    expect(handled).toHaveLength(3);
  });

  test("slots of a receive that brought less than it asked for are free again", async () => {
    answers = [messages(1), nothing, nothing];
    onDelivery = () => pause(60_000, undefined);
    begin(10);
    await advance(100);
    expect(receives.map((receive) => receive.count)).toEqual([10, 9, 9, 9]);
  });

  test("each delivery knows when its receive was answered", async () => {
    const times: number[] = [];
    answers = [
      async (count, options) => {
        await pause(7_000, undefined);
        return messages(2)(count, options);
      },
    ];
    onDelivery = async ({ receivedAt }) => void times.push(receivedAt);
    begin(5);
    await advance(8_000);
    expect(times).toEqual([7_000, 7_000]);
  });

  test("idle resolves when the last delivery has ended", async () => {
    answers = [messages(2)];
    onDelivery = () => pause(500, undefined);
    begin(5);
    await advance(100);
    let idle = false;
    void intake.idle().then(() => {
      idle = true;
    });
    await advance(399);
    expect(idle).toBe(false);
    await advance(1);
    expect(idle).toBe(true);
    expect(intake.active()).toBe(0);
  });
});

describe("stopping", () => {
  test("an idle worker stops at once, not after the rest of its long poll (Q08)", async () => {
    begin(5);
    await advance(3_000);
    const at = now();
    let took: number | undefined;
    void intake.stop().then(() => {
      took = now() - at;
    });
    await advance(1_500);
    expect(took).toBeLessThan(100);
    await advance(60_000);
    expect(receives).toHaveLength(1);
  });

  test("messages that arrive after the stop are given back unrun (Q07, C02)", async () => {
    // The answer was on the wire already: cutting the poll comes too late for it.
    answers = [
      async (count, options) => {
        await pause(5, undefined);
        return messages(3)(count, options);
      },
    ];
    begin(5);
    await advance(0);
    const stop = intake.stop();
    await advance(20);
    await stop;
    expect(handled).toEqual([]);
    expect(onUnwanted.mock.calls.map(([message]) => message.ReceiptHandle)).toHaveLength(3);
    await advance(60_000);
    expect(receives).toHaveLength(1);
  });

  test("stop waits until the messages that came too late are given back", async () => {
    answers = [
      async (count, options) => {
        await pause(5, undefined);
        return messages(1)(count, options);
      },
    ];
    onUnwanted.mockImplementation(() => pause(300, undefined));
    begin(5);
    await advance(0);
    let stopped = false;
    void intake.stop().then(() => {
      stopped = true;
    });
    await advance(304);
    expect(stopped).toBe(false);
    await advance(20);
    expect(stopped).toBe(true);
  });

  test("a give-back that fails does not keep stop from ending", async () => {
    answers = [
      async (count, options) => {
        await pause(5, undefined);
        return messages(2)(count, options);
      },
    ];
    // A rejection breaks the contract; it must not keep the loop all the same.
    onUnwanted.mockRejectedValue(named("ThrottlingException"));
    begin(5);
    await advance(0);
    const stop = intake.stop();
    await advance(50);
    await expect(stop).resolves.toBeUndefined();
  });

  test("a run in work goes on after the stop, and the poll's client was never asked to delete (Q09)", async () => {
    answers = [messages(1)];
    let ended = false;
    onDelivery = async () => {
      await pause(5_000, undefined);
      ended = true;
    };
    begin(1);
    await advance(10);
    const stop = intake.stop();
    await advance(20);
    await stop;
    expect(ended).toBe(false);
    expect(intake.active()).toBe(1);
    await advance(5_000);
    expect(ended).toBe(true);
    expect(intake.active()).toBe(0);
    expect(others).toEqual([]);
  });

  test("stop ends while every slot is in use, without another receive", async () => {
    answers = [messages(1)];
    onDelivery = () => pause(5_000, undefined);
    begin(1);
    await advance(10);
    const stop = intake.stop();
    await advance(20);
    await stop;
    await advance(60_000);
    expect(receives).toHaveLength(1);
  });

  test("stop ends a backoff", async () => {
    answers = Array.from({ length: 8 }, () => fails("ExpiredToken"));
    begin(5, { random: () => 0.99 });
    await advance(35_000);
    const stop = intake.stop();
    await advance(20);
    await expect(stop).resolves.toBeUndefined();
  });

  test("the cut of the poll by stop is not reported as a failed receive", async () => {
    begin(5);
    await advance(10);
    const stop = intake.stop();
    await advance(20);
    await stop;
    expect(onPollError).not.toHaveBeenCalled();
  });
});

describe("failing receives", () => {
  /** SQS answers this until `until`, and one message from then on. */
  const outage = (name: string, until: number): void => {
    const broken: Answer = async (count, options) => {
      if (now() < until) throw named(name);
      return (handled.length === 0 ? messages(1) : emptyPoll)(count, options);
    };
    answers = Array.from({ length: 2_000 }, () => broken);
  };
  const draws = [
    ["the lowest draw each time", () => 0],
    ["the middle draw each time", () => 0.5],
    ["the highest draw each time", () => 0.999],
  ] as const;

  test.each([
    ["ExpiredToken", "auth"],
    ["KmsAccessDeniedException", "kms"],
    ["ThrottlingException", "throttle"],
    ["ECONNREFUSED", "network"],
    ["CredentialsError", "auth"],
    ["QueueDoesNotExist", "queue_gone"],
  ])("a minute of %s takes at most 20 receives, then the worker goes on alone (Q12)", async (name, failure) => {
    outage(name, 60_000);
    begin(5);
    await advance(60_000);
    expect(receives.length).toBeLessThanOrEqual(20);
    expect(receives.length).toBeGreaterThan(3);
    expect(handled).toEqual([]);
    expect(intake.poll()).toMatchObject({ failing: { failure, consecutive: receives.length } });
    await advance(60_000);
    expect(handled).toHaveLength(1);
    expect(intake.poll().failing).toBeUndefined();
  });

  test.each(draws)("ten minutes without credentials take at most 60 receives with %s (Q12)", async (_name, random) => {
    outage("ExpiredToken", 600_000);
    begin(5, { random });
    await advance(600_000);
    expect(receives.length).toBeLessThanOrEqual(60);
    expect(intake.poll()).toMatchObject({ answeredAt: undefined, messages: 0, failing: { failure: "auth", since: 0 } });
    expect(intake.poll().failures.auth).toBe(receives.length);
    await advance(61_000);
    expect(handled).toHaveLength(1);
  });

  test("a refused connection with the lowest draw each time is no hot loop (Q12)", async () => {
    outage("ECONNREFUSED", 60_000);
    begin(5, { random: () => 0 });
    await advance(60_000);
    expect(receives.length).toBeLessThanOrEqual(25);
  });

  test("each failed receive is reported with its kind and its wait, which grows and is capped, and is what is waited", async () => {
    answers = Array.from({ length: 12 }, () => fails("ExpiredToken"));
    begin(5, { random: () => 1 });
    await advance(200_000);
    const reported = onPollError.mock.calls.map(([, about]) => about);
    expect(reported.slice(0, 4)).toEqual(
      [2_000, 4_000, 8_000, 16_000].map((retryInMs) => ({ failure: "auth", retryInMs })),
    );
    expect(Math.max(...reported.map(({ retryInMs }) => retryInMs))).toBe(60_000);
    expect(String(onPollError.mock.calls[0]?.[0])).toContain("ExpiredToken");
    const gaps = receives.slice(1).map(({ at }, index) => at - (receives[index]?.at ?? 0));
    expect(gaps.slice(0, 4).map((gap) => Math.round(gap / 1_000))).toEqual([2, 4, 8, 16]);
  });

  test("an answered receive, also an empty one, ends the backoff", async () => {
    answers = [fails("ExpiredToken"), fails("ExpiredToken"), nothing, fails("ExpiredToken")];
    begin(5, { random: () => 1 });
    await advance(10_000);
    expect(onPollError.mock.calls.map(([, { retryInMs }]) => retryInMs)).toEqual([2_000, 4_000, 2_000]);
  });

  test("a receive that never answers is cut, reported as stuck, and followed by another (Q13)", async () => {
    answers = [() => new Promise(() => {}), messages(1)];
    begin(5);
    await advance(25_000 + 1_000);
    expect(onPollError).toHaveBeenCalledTimes(1);
    expect(onPollError.mock.calls[0]?.[1]).toMatchObject({ failure: "stuck" });
    expect(intake.poll()).toMatchObject({ failing: { failure: "stuck", consecutive: 1 } });
    await advance(1_000);
    expect(handled).toHaveLength(1);
    expect(intake.poll()).toMatchObject({ failing: undefined, failures: { stuck: 1 } });
  });

  test("each further poll that never answers counts on, so that health can tell one from many (Q13)", async () => {
    answers = Array.from({ length: 9 }, () => () => new Promise(() => {}));
    begin(5);
    await advance(3 * 31_000);
    expect(intake.poll()).toMatchObject({ failing: { failure: "stuck", consecutive: 3 } });
  });

  test("a long poll that brings nothing, again and again, is no failure and no reason to wait (Q13)", async () => {
    answers = Array.from({ length: 200 }, () => emptyPoll);
    begin(5);
    await advance(610_000);
    expect(onPollError).not.toHaveBeenCalled();
    expect(receives).toHaveLength(31);
    expect(intake.poll().failing).toBeUndefined();
    expect(intake.poll().answeredAt).toBeGreaterThanOrEqual(600_000);
  });
});

describe("while a delivery works alone", () => {
  test("nothing is received, a batch that comes late is given back unrun, and receives go on after it (C18)", async () => {
    let arrive: () => void = () => undefined;
    const arrived = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    const late: Answer = async (count) => {
      await arrived;
      return messages(3)(count, { abortSignal: new AbortController().signal });
    };
    answers = [messages(1), late, nothing];
    let end: () => void = () => undefined;
    onDelivery = () =>
      new Promise((resolve) => {
        end = resolve;
      });
    begin(10);
    await advance(25);
    expect(receives).toHaveLength(2);
    const alone = await gate.alone(new AbortController().signal);
    arrive();
    await advance(1_000);
    expect(handled).toHaveLength(1);
    expect(onUnwanted).toHaveBeenCalledTimes(3);
    expect(gate.turnedAway).toBe(3);
    expect(receives).toHaveLength(2);
    if (alone.state === "alone") alone.leave();
    await advance(50);
    expect(receives.map(({ count }) => count)).toEqual([10, 9, 9, 9]);
    end();
    await advance(0);
    expect(intake.active()).toBe(0);
  });

  test("a stop ends the wait for the gate without a receive", async () => {
    gate.enter();
    await gate.alone(new AbortController().signal);
    begin(10);
    await advance(1_000);
    await Promise.all([intake.stop(), advance(50)]);
    expect(receives).toEqual([]);
  });
});

describe("pause", () => {
  test("ends at its time, or at once when the signal fires or had fired", async () => {
    begin(1);
    const controller = new AbortController();
    const ended: string[] = [];
    void pause(100, undefined).then(() => ended.push("time"));
    void pause(100_000, controller.signal).then(() => ended.push("signal"));
    await advance(100);
    expect(ended).toEqual(["time"]);
    controller.abort();
    await advance(0);
    void pause(100_000, controller.signal).then(() => ended.push("fired before"));
    await advance(0);
    expect(ended).toEqual(["time", "signal", "fired before"]);
  });
});
