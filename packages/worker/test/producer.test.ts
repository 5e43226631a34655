// Proves the producer's side with a fake client: what it sends the worker reads, and what it cannot send it says.
import type { SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { parseMessage } from "../src/message.ts";
import { sendAnswer, sendRun } from "../src/producer.ts";

const QUEUE = "http://127.0.0.1:1/000000000000/q";
const send = vi.fn<(command: SendMessageCommand) => Promise<unknown>>();
// The producer calls `send` alone.
const client = { send } as unknown as SQSClient;

beforeEach(() => {
  send.mockReset().mockResolvedValue({ MessageId: "m1" });
});

const sent = (): SendMessageCommand["input"] | undefined => send.mock.calls[0]?.[0].input;
const read = (): unknown => parseMessage(sent()?.MessageBody ?? "", { snsEnvelope: "refuse" });

const RUN = { agent: "support", threadId: "t1", runId: "r1", input: { messages: [] } };

describe("a run", () => {
  test("arrives as it was asked for", async () => {
    const result = await sendRun(client, QUEUE, { ...RUN, onBusy: "reject", supersede: true });
    expect(result).toEqual({ runId: "r1", sqsMessageId: "m1" });
    expect(read()).toMatchObject({ kind: "run", runId: "r1", threadId: "t1", onBusy: "reject", supersede: true });
    expect(sent()?.QueueUrl).toBe(QUEUE);
  });

  test("without a run id gets a fresh one, told to the caller so that a second send can name it", async () => {
    const { agent, threadId, input } = RUN;
    const first = await sendRun(client, QUEUE, { agent, threadId, input });
    const second = await sendRun(client, QUEUE, { agent, threadId, input });
    expect(first.runId).not.toBe(second.runId);
    expect(read()).toMatchObject({ runId: first.runId });
  });

  test("on a FIFO queue is grouped by thread and deduplicated by run id, not by a random id (C14)", async () => {
    await sendRun(client, `${QUEUE}.fifo`, RUN);
    expect(sent()).toMatchObject({ MessageGroupId: "t1", MessageDeduplicationId: "r1" });
  });

  test("on a standard queue has neither", async () => {
    await sendRun(client, QUEUE, RUN);
    expect(sent()).not.toHaveProperty("MessageGroupId");
    expect(sent()).not.toHaveProperty("MessageDeduplicationId");
  });

  test.each([{ threadId: "a\u0000b" }, { threadId: "" }, { runId: "a\uD800" }, { agent: "" }, { input: undefined }])(
    "that no worker would take is refused before anything is sent: %j",
    async (changes) => {
      await expect(sendRun(client, QUEUE, { ...RUN, ...changes })).rejects.toMatchObject({ code: "SEND_FAILED" });
      expect(send).not.toHaveBeenCalled();
    },
  );

  test("larger than SQS takes is refused before anything is sent, counted in bytes", async () => {
    const input = { text: "ü".repeat(600_000) };
    const error = sendRun(client, QUEUE, { ...RUN, input });
    await expect(error).rejects.toMatchObject({ code: "MESSAGE_TOO_LARGE" });
    expect(send).not.toHaveBeenCalled();
  });

  test("that SQS did not take says so, that sending again is safe, and why", async () => {
    const cause = new Error("connection reset");
    send.mockRejectedValue(cause);
    const error = sendRun(client, QUEUE, RUN);
    await expect(error).rejects.toMatchObject({ code: "SEND_FAILED", cause });
    await expect(error).rejects.toThrow(/same run_id is safe/);
  });
});

describe("a run whose input is elsewhere", () => {
  const { input: _input, ...rest } = RUN;

  test("arrives with the reference and without an input", async () => {
    await sendRun(client, QUEUE, { ...rest, inputRef: "s3://inputs/r1.json", replyTo: "https://sqs/1/replies" });
    expect(read()).toMatchObject({ kind: "run", inputRef: "s3://inputs/r1.json", replyTo: "https://sqs/1/replies" });
    expect(JSON.parse(sent()?.MessageBody ?? "")).not.toHaveProperty("input");
  });

  test("is what the refusal of a large input advises", async () => {
    const large = sendRun(client, QUEUE, { ...RUN, input: "x".repeat(1_100_000) });
    await expect(large).rejects.toThrow(/inputRef.*loadInput/);
  });

  test.each([{ replyTo: "replies" }, { replyTo: "file:///etc/passwd" }])(
    "with a reply queue that is no address is refused before anything is sent: %j",
    async (changes) => {
      await expect(sendRun(client, QUEUE, { ...RUN, ...changes })).rejects.toMatchObject({ code: "SEND_FAILED" });
      expect(send).not.toHaveBeenCalled();
    },
  );
});

describe("on a FIFO queue", () => {
  test("ids that SQS would refuse become their hash: equal stays equal, other stays other", async () => {
    const ids: (string | undefined)[][] = [];
    for (const threadId of ["ü", "ü", "ä", "t".repeat(150), "plain-1"]) {
      send.mockClear();
      await sendRun(client, `${QUEUE}.fifo`, { ...RUN, threadId, runId: `run ${threadId}` });
      ids.push([sent()?.MessageGroupId, sent()?.MessageDeduplicationId]);
    }
    for (const id of ids.flat()) expect(id).toMatch(/^[!-~]{1,128}$/);
    expect(ids[0]).toEqual(ids[1]);
    expect(new Set(ids.map(([group]) => group)).size).toBe(4);
    expect(ids[4]?.[0]).toBe("plain-1");
  });
});

describe("an answer", () => {
  const ANSWER = { agent: "support", threadId: "t1", runId: "r1", interruptId: "i1", value: { approve: true } };

  test("arrives with the question it names", async () => {
    await sendAnswer(client, QUEUE, ANSWER);
    expect(read()).toMatchObject({ kind: "answer", runId: "r1", interruptId: "i1", value: { approve: true } });
  });

  test("on a FIFO queue is deduplicated by run and question, so that two questions get two answers", async () => {
    await sendAnswer(client, `${QUEUE}.fifo`, ANSWER);
    await sendAnswer(client, `${QUEUE}.fifo`, { ...ANSWER, interruptId: "i2" });
    const ids = send.mock.calls.map(([command]) => command.input.MessageDeduplicationId);
    expect(new Set([...ids, "r1"]).size).toBe(3);
  });
});
