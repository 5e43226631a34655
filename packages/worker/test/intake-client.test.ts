// Proves the polling client: one count of messages per receive, cut by stop and by the watchdog, and no way to delete with it.
import { DeleteMessageCommand, ReceiveMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { isTracingSuppressed } from "@opentelemetry/core";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { pollClient } from "../src/intake-client.ts";

const QUEUE = "http://127.0.0.1:1/000000000000/q";
const WAIT_MS = 20_000;

type Send = (command: unknown, options: { readonly abortSignal: AbortSignal }) => Promise<unknown>;
const send = vi.fn<Send>();
let stop: AbortController;
let taken: number;

beforeEach(() => {
  vi.useFakeTimers();
  stop = new AbortController();
  taken = 3;
  send.mockReset().mockResolvedValue({ Messages: [] });
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

function client(): SQSClient {
  const real = { send, config: { region: "eu-west-1" } } as unknown as SQSClient;
  return pollClient(real, { taken: () => taken, signal: stop.signal, waitMs: WAIT_MS });
}

const receive = (): ReceiveMessageCommand =>
  new ReceiveMessageCommand({ QueueUrl: QUEUE, MaxNumberOfMessages: 10, WaitTimeSeconds: 20 });

/** Waits like a long poll and ends only when it is cut, as the SDK's HTTP handler does. */
function untilCut(_command: unknown, { abortSignal }: { readonly abortSignal: AbortSignal }): Promise<unknown> {
  return new Promise((_resolve, reject) => {
    const cut = (): void => reject(Object.assign(new Error("Request aborted"), { name: "AbortError" }));
    if (abortSignal.aborted) cut();
    abortSignal.addEventListener("abort", cut, { once: true });
  });
}

test("a receive asks for as many messages as slots were taken, whatever the batch size says", async () => {
  await client().send(receive());
  expect(send.mock.calls[0]?.[0]).toMatchObject({
    input: { QueueUrl: QUEUE, MaxNumberOfMessages: 3, WaitTimeSeconds: 20 },
  });
});

test("the count is read anew for each receive, so that it is never one poll late", async () => {
  const poll = client();
  await poll.send(receive());
  taken = 7;
  await poll.send(receive());
  expect(send.mock.calls.map(([command]) => (command as ReceiveMessageCommand).input.MaxNumberOfMessages)).toEqual([
    3, 7,
  ]);
});

test("with no slot taken nothing is sent, and the poll sees an empty answer", async () => {
  taken = 0;
  expect(await client().send(receive())).toEqual({ $metadata: {} });
  expect(send).not.toHaveBeenCalled();
});

test("stop cuts a long poll at once", async () => {
  send.mockImplementation(untilCut);
  const poll = client().send(receive());
  const ended = expect(poll).rejects.toThrow();
  stop.abort();
  await ended;
});

test("a receive that never answers is cut five seconds after its wait time (Q13)", async () => {
  // Measured on Node 20: a signal of AbortSignal.timeout that only AbortSignal.any knows is collected and never fires.
  vi.spyOn(AbortSignal, "timeout").mockImplementation(() => new AbortController().signal);
  send.mockImplementation(untilCut);
  let ended = false;
  void client()
    .send(receive())
    .catch(() => {
      ended = true;
    });
  await vi.advanceTimersByTimeAsync(WAIT_MS + 4_999);
  expect(ended).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(ended).toBe(true);
});

test("a receive that hangs before its request, in the credentials say, ends as well although it hears no signal (Q13)", async () => {
  send.mockImplementation(() => new Promise(() => {}));
  let ended = false;
  void client()
    .send(receive())
    .catch(() => {
      ended = true;
    });
  stop.abort();
  await vi.advanceTimersByTimeAsync(WAIT_MS + 5_000);
  expect(ended).toBe(true);
});

test("an answered receive leaves no watchdog behind", async () => {
  await client().send(receive());
  expect(vi.getTimerCount()).toBe(0);
});

test("anything but a receive is refused: deletes have a client of their own (Q09)", async () => {
  const deletion = new DeleteMessageCommand({ QueueUrl: QUEUE, ReceiptHandle: "r1" });
  await expect(client().send(deletion)).rejects.toThrow("only receives");
  expect(send).not.toHaveBeenCalled();
});

test("a poll runs outside every trace, so that twenty seconds without a message are no slow trace (Q20)", async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  try {
    let suppressed: boolean | undefined;
    send.mockImplementation(async () => {
      suppressed = isTracingSuppressed(context.active());
      return {};
    });
    const after = await client()
      .send(receive())
      .then(() => isTracingSuppressed(context.active()));
    expect([suppressed, after]).toEqual([true, false]);
  } finally {
    context.disable();
  }
});

test("the rest of the client is the real one's", () => {
  expect(client().config).toEqual({ region: "eu-west-1" });
});
