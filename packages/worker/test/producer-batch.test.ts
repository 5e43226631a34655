// Proves the batch: how runs are packed, what is sent again, whose result is whose, and what FIFO order costs. The client is a fake.
import type { SendMessageBatchCommand, SQSClient } from "@aws-sdk/client-sqs";
import fc from "fast-check";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { packed, type RunSendResult, type SendRunsOptions, sendRuns, wavesByThread } from "../src/producer-batch.ts";
import type { Outgoing, RunToSend } from "../src/producer-message.ts";

const QUEUE = "http://127.0.0.1:1/000000000000/q";
type Input = SendMessageBatchCommand["input"];
type Answer = {
  Successful?: { Id: string; MessageId: string }[];
  Failed?: { Id: string; Code: string; SenderFault: boolean }[];
};
const send = vi.fn<(command: { readonly input: Input }) => Promise<Answer>>();
const client = { send } as unknown as SQSClient;

const takeAll = async ({ input }: { readonly input: Input }): Promise<Answer> => ({
  Successful: (input.Entries ?? []).map(({ Id }) => ({ Id: Id ?? "", MessageId: `m${Id}` })),
});
beforeEach(() => {
  send.mockReset().mockImplementation(takeAll);
});

const pauses: number[] = [];
const options: SendRunsOptions = { time: { random: () => 1, pause: async (ms) => void pauses.push(ms) } };
const runs = (count: number, threads = count): RunToSend[] =>
  Array.from({ length: count }, (_, index) => ({
    agent: "a",
    threadId: `t${index % threads}`,
    runId: `r${index}`,
    input: { index },
  }));
const idsOf = (call: number): readonly (string | undefined)[] =>
  (send.mock.calls[call]?.[0].input.Entries ?? []).map(({ Id }) => Id);
const states = (results: readonly RunSendResult[]): string[] => results.map(({ state }) => state);

describe("runs sent together", () => {
  test("go ten to a call, and each has its result in the order given", async () => {
    const results = await sendRuns(client, QUEUE, runs(23), options);
    expect(send).toHaveBeenCalledTimes(3);
    expect(results).toEqual(runs(23).map(({ runId }, index) => ({ state: "sent", runId, sqsMessageId: `m${index}` })));
  });

  test("none is no call", async () => {
    expect(await sendRuns(client, QUEUE, [], options)).toEqual([]);
    expect(send).not.toHaveBeenCalled();
  });

  test("only what failed in passing is sent again, after a pause, and only a few times", async () => {
    pauses.length = 0;
    send.mockImplementation(async (command) => ({
      Successful: (await takeAll(command)).Successful?.filter(({ Id }) => Id !== "1" && Id !== "2") ?? [],
      Failed: [
        { Id: "1", Code: "InternalError", SenderFault: false },
        { Id: "2", Code: "InvalidMessageContents", SenderFault: true },
      ],
    }));
    const results = await sendRuns(client, QUEUE, runs(4), options);
    expect([0, 1, 2, 3].map(idsOf)).toEqual([["0", "1", "2", "3"], ["1"], ["1"], ["1"]]);
    expect(send).toHaveBeenCalledTimes(4);
    expect(pauses).toEqual([200, 400, 800]);
    expect(states(results)).toEqual(["sent", "failed", "failed", "sent"]);
    expect(results[1]).toMatchObject({ runId: "r1", error: { code: "SEND_FAILED" } });
  });

  test("an entry that the answer does not mention is sent again: twice in the queue it is one run", async () => {
    send.mockResolvedValueOnce({ Successful: [{ Id: "0", MessageId: "m0" }] });
    const results = await sendRuns(client, QUEUE, runs(2), options);
    expect(idsOf(1)).toEqual(["1"]);
    expect(states(results)).toEqual(["sent", "sent"]);
  });

  test("a call that fails as a whole fails its own ten, with the cause; the SDK has repeated it already", async () => {
    const cause = new Error("connection reset");
    send.mockRejectedValueOnce(cause);
    const results = await sendRuns(client, QUEUE, runs(12), { ...options, concurrency: 1 });
    expect(send).toHaveBeenCalledTimes(2);
    expect(states(results)).toEqual([...Array(10).fill("failed"), "sent", "sent"]);
    expect(results[0]).toMatchObject({ error: { code: "SEND_FAILED", cause } });
  });

  test("one that no worker would take, or that is too large, fails alone", async () => {
    const list = runs(3);
    list[0] = { agent: "", threadId: "t", runId: "bad", input: {} };
    list[1] = { agent: "a", threadId: "t", runId: "large", input: "x".repeat(1_100_000) };
    const results = await sendRuns(client, QUEUE, list, options);
    expect(results).toMatchObject([
      { runId: "bad", error: { code: "SEND_FAILED" } },
      { runId: "large", error: { code: "MESSAGE_TOO_LARGE" } },
      { state: "sent" },
    ]);
  });

  test("never more calls under way than asked for", async () => {
    let [now, most] = [0, 0];
    send.mockImplementation(async (command) => {
      now += 1;
      most = Math.max(most, now);
      await new Promise((resolve) => setImmediate(resolve));
      now -= 1;
      return takeAll(command);
    });
    await sendRuns(client, QUEUE, runs(200), { ...options, concurrency: 3 });
    expect(most).toBe(3);
  });

  test("after the signal nothing more is sent, and what was not sent says so", async () => {
    const stop = new AbortController();
    send.mockImplementation(async (command) => {
      stop.abort(new Error("enough"));
      return takeAll(command);
    });
    const results = await sendRuns(client, QUEUE, runs(30), { ...options, concurrency: 1, signal: stop.signal });
    expect(send).toHaveBeenCalledTimes(1);
    expect(states(results)).toEqual([...Array(10).fill("sent"), ...Array(20).fill("failed")]);
  });
});

describe("on a FIFO queue", () => {
  const FIFO = `${QUEUE}.fifo`;
  /** Run ids in the order in which SQS saw them. */
  const seen = (): string[] =>
    send.mock.calls.flatMap(([{ input }]) =>
      (input.Entries ?? []).map(({ MessageBody }) => JSON.parse(MessageBody ?? "").run_id),
    );

  test("the runs of a thread are sent one after the other, whatever else goes at the same time", async () => {
    const underWay: (string | undefined)[] = [];
    send.mockImplementation(async (command) => {
      const groups = (command.input.Entries ?? []).map(({ MessageGroupId }) => MessageGroupId);
      expect(groups.filter((group, at) => underWay.includes(group) || groups.indexOf(group) !== at)).toEqual([]);
      underWay.push(...groups);
      await new Promise((resolve) => setImmediate(resolve));
      underWay.splice(0, underWay.length, ...underWay.filter((group) => !groups.includes(group)));
      return takeAll(command);
    });
    const results = await sendRuns(client, FIFO, runs(60, 20), { ...options, concurrency: 10 });
    expect(new Set(states(results))).toEqual(new Set(["sent"]));
    const order = seen();
    for (let thread = 0; thread < 20; thread += 1) {
      const own = order.filter((id) => Number(id.slice(1)) % 20 === thread);
      expect(own).toEqual([`r${thread}`, `r${thread + 20}`, `r${thread + 40}`]);
    }
  });

  test("none overtakes one that could not be sent: those behind it on its thread fail unsent", async () => {
    send.mockImplementation(async (command) => {
      const { Successful = [] } = await takeAll(command);
      const bad = Successful.filter(({ Id }) => Id === "0").map(({ Id }) => ({ Id, Code: "No", SenderFault: true }));
      return { Successful: Successful.filter(({ Id }) => Id !== "0"), Failed: bad };
    });
    const results = await sendRuns(client, FIFO, runs(4, 2), options);
    expect(states(results)).toEqual(["failed", "sent", "failed", "sent"]);
    expect(seen()).not.toContain("r2");
  });

  test("one that was refused before the send holds up what is behind it, not what is before it", async () => {
    const list = runs(3, 1);
    list[1] = { agent: "", threadId: "t0", runId: "r1", input: {} };
    expect(states(await sendRuns(client, FIFO, list, options))).toEqual(["sent", "failed", "failed"]);
    expect(seen()).toEqual(["r0"]);
  });
});

describe("packing", () => {
  const entry = (index: number, bytes: number, threadId = `t${index}`): { index: number; message: Outgoing } => ({
    index,
    message: { body: "x".repeat(bytes), runId: `r${index}`, threadId, deduplicationId: "d" },
  });

  test("keeps every entry once and in order, ten to a call at most, and a call below 1 MiB", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 1_046_528 }), { maxLength: 40 }), (sizes) => {
        const entries = sizes.map((bytes, index) => entry(index, bytes));
        const batches = packed(entries);
        expect(batches.flat()).toEqual(entries);
        for (const batch of batches) {
          expect(batch.length).toBeLessThanOrEqual(10);
          const bytes = batch.reduce((sum, { message }) => sum + message.body.length, 0);
          expect(bytes).toBeLessThanOrEqual(1_048_576);
        }
      }),
      { numRuns: 50 },
    );
  });

  test("waves have a thread once, and keep each thread's order", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 30 }), (threads) => {
        const entries = threads.map((thread, index) => entry(index, 1, `t${thread}`));
        const waves = wavesByThread(entries);
        for (const wave of waves) expect(new Set(wave.map(({ message }) => message.threadId)).size).toBe(wave.length);
        for (const thread of new Set(threads)) {
          const own = waves.flat().filter(({ message }) => message.threadId === `t${thread}`);
          expect(own.map(({ index }) => index)).toEqual([...own.map(({ index }) => index)].sort((a, b) => a - b));
        }
        expect(waves.flat().length).toBe(entries.length);
      }),
    );
  });
});
