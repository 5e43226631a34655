// Proves when the outbox is looked at: after a run's end, together with others; not at all where nobody may be answered.
import type { SQSClient } from "@aws-sdk/client-sqs";
import type { Queryable } from "@reprise/tools";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CompletionOutbox } from "../src/completion-outbox.ts";
import { createLogger } from "../src/log.ts";

const query = vi.fn<Queryable["query"]>();
beforeEach(() => {
  vi.useFakeTimers();
  query.mockReset().mockResolvedValue({ rows: [], rowCount: 0 });
});
afterEach(() => {
  vi.useRealTimers();
});

function outbox(allowed: readonly string[] = ["http://replies/q"]): CompletionOutbox {
  return new CompletionOutbox({
    db: { query },
    // Nothing is due here, so nothing is sent.
    client: {} as SQSClient,
    queueUrl: "http://127.0.0.1:1/q",
    allowed: new Set(allowed),
    random: () => 0.5,
    log: createLogger("silent"),
  });
}

test("runs that end together are looked for together", async () => {
  const box = outbox();
  for (let run = 0; run < 100; run += 1) box.poke();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(query).toHaveBeenCalledTimes(1);
});

test("a run that ends while a look goes on is looked for after it", async () => {
  const box = outbox();
  let finish = (): void => {};
  query.mockImplementationOnce(() => new Promise((resolve) => (finish = () => resolve({ rows: [], rowCount: 0 }))));
  box.poke();
  await vi.advanceTimersByTimeAsync(100);
  box.poke();
  await vi.advanceTimersByTimeAsync(100);
  expect(query).toHaveBeenCalledTimes(1);
  finish();
  await vi.advanceTimersByTimeAsync(100);
  expect(query).toHaveBeenCalledTimes(2);
});

test("a worker that may answer nobody asks nothing after a run, and nothing at its end", async () => {
  const box = outbox([]);
  box.poke();
  await vi.advanceTimersByTimeAsync(1_000);
  await box.settle();
  expect(query).not.toHaveBeenCalled();
});

test("the end looks once more, and nothing after it does", async () => {
  const box = outbox();
  box.poke();
  await box.settle();
  box.poke();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(query).toHaveBeenCalledTimes(1);
});

test("a database that fails is nobody's problem but the outbox's", async () => {
  const box = outbox();
  query.mockRejectedValueOnce(new Error("gone"));
  await box.look();
  await box.look();
  expect(query).toHaveBeenCalledTimes(2);
  expect(box.counts()).toEqual({ sent: 0, pending: 0, refused: 0, dead: 0 });
});
