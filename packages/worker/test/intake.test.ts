// Proves the intake around sqs-consumer with a fake client: slots, stopping, backoff, and that polls never touch deletes.
import { ReceiveMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createIntake, type Intake, type IntakeOptions, pause, type ReceivedMessage } from "../src/intake.ts";
import { IntakeGate } from "../src/intake-gate.ts";

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
  onDelivery = async () => {};
});

afterEach(async () => {
  const stop = intake.stop();
  await vi.advanceTimersByTimeAsync(50);
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

let nextId = 0;
const messages = (wanted: number): Answer => {
  return async (count) => ({
    Messages: Array.from({ length: Math.min(wanted, count) }, () => {
      nextId += 1;
      return { MessageId: `m${nextId}`, ReceiptHandle: `r${nextId}`, Body: "{}" };
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

function begin(concurrency: number, random: () => number = () => 0.5): void {
  intake = createIntake({
    client,
    queueUrl: "http://127.0.0.1:1/000000000000/q",
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
    await advance(1);
    expect(receives.map((receive) => receive.count)).toEqual([3, 1]);
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
    begin(5, () => 0.99);
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
  test.each(["ExpiredToken", "KmsAccessDeniedException", "ThrottlingException", "ECONNREFUSED", "CredentialsError"])(
    "a minute of %s takes at most 20 receives, then the worker goes on alone (Q12)",
    async (name) => {
      const broken: Answer = async () => {
        if (now() < 60_000) throw named(name);
        return messages(1)(1, { abortSignal: new AbortController().signal });
      };
      answers = Array.from({ length: 100 }, () => broken);
      begin(5);
      await advance(60_000);
      expect(receives.length).toBeLessThanOrEqual(20);
      expect(receives.length).toBeGreaterThan(4);
      expect(handled).toEqual([]);
      answers = [...answers.slice(0, 1), longPoll];
      await advance(31_000);
      expect(handled).toHaveLength(1);
    },
  );

  test("each failed receive is reported, with a wait that grows and is capped", async () => {
    answers = Array.from({ length: 12 }, () => fails("ExpiredToken"));
    begin(5);
    await advance(200_000);
    const waits = onPollError.mock.calls.map(([, retryInMs]) => retryInMs);
    expect(waits.slice(0, 4)).toEqual([1_000, 2_000, 4_000, 8_000]);
    expect(Math.max(...waits)).toBe(30_000);
    expect(String(onPollError.mock.calls[0]?.[0])).toContain("ExpiredToken");
  });

  test("an answered receive, also an empty one, ends the backoff", async () => {
    answers = [fails("ExpiredToken"), fails("ExpiredToken"), nothing, fails("ExpiredToken")];
    begin(5);
    await advance(10_000);
    expect(onPollError.mock.calls.map(([, retryInMs]) => retryInMs)).toEqual([1_000, 2_000, 1_000]);
  });

  test("a receive that never answers is cut, reported, and followed by another (Q13)", async () => {
    begin(5);
    await advance(25_000 + 1_100);
    expect(onPollError).toHaveBeenCalledTimes(1);
    expect(receives).toHaveLength(2);
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
    await advance(0);
    expect(receives).toHaveLength(2);
    const alone = await gate.alone(new AbortController().signal);
    arrive();
    await advance(1_000);
    expect(handled).toHaveLength(1);
    expect(onUnwanted).toHaveBeenCalledTimes(3);
    expect(gate.turnedAway).toBe(3);
    expect(receives).toHaveLength(2);
    if (alone.state === "alone") alone.leave();
    await advance(0);
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
