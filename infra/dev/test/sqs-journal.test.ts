// The journal: an endpoint opened on the file of a killed one goes on where that one stopped.

import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { endpointScene, handleOf, manualClock } from "./sqs-scene.ts";

describe("the journal", () => {
  let directory = "";
  let journalFile = "";

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "sqs-journal-"));
    journalFile = join(directory, "deep", "sqs.jsonl");
  });

  afterEach(() => {
    rmSync(directory, { recursive: true, force: true });
  });

  it("keeps queues, messages, receive counts, handles and visibility over a kill", async () => {
    const clock = manualClock();
    const first = endpointScene({ clock, journalFile });
    const url = await first.queue("q", { VisibilityTimeout: "30" });
    await first.send(url, "héllo", { MessageAttributes: { k: { DataType: "String", StringValue: "v" } } });
    await first.receive(url);
    await clock.advance(30_000);
    const ReceiptHandle = handleOf(await first.receive(url));
    await first.send(url, "second");

    // Not closed: a killed process closes nothing.
    const next = endpointScene({ clock, journalFile });
    expect(await next.counts(url)).toBe("1/1/0");
    await next.call("ChangeMessageVisibility", { QueueUrl: url, ReceiptHandle, VisibilityTimeout: 0 });
    const received = await next.receive(url);
    const seen = received.map(({ Body, Attributes }) => [Body, Attributes?.["ApproximateReceiveCount"]]);
    expect(seen).toEqual([
      ["héllo", "3"],
      ["second", "1"],
    ]);
    expect(received[0]?.MessageAttributes).toEqual({ k: { DataType: "String", StringValue: "v" } });
  });

  it("keeps FIFO order, sequence and the deduplication window", async () => {
    const clock = manualClock();
    const first = endpointScene({ clock, journalFile });
    const url = await first.queue("q.fifo", { FifoQueue: "true", ContentBasedDeduplication: "true" });
    const a1 = await first.send(url, "a1", { MessageGroupId: "a" });
    await first.send(url, "a2", { MessageGroupId: "a" });
    await first.call("DeleteMessage", {
      QueueUrl: url,
      ReceiptHandle: handleOf(await first.receive(url, { MaxNumberOfMessages: 1 })),
    });

    const next = endpointScene({ clock, journalFile });
    expect((await next.send(url, "a1", { MessageGroupId: "a" }))["MessageId"]).toBe(a1["MessageId"]);
    const a3 = await next.send(url, "a3", { MessageGroupId: "a" });
    expect(a3["SequenceNumber"]).toBe("00000000000000000003");
    expect(await next.seen(url)).toBe("a2:1,a3:1");
  });

  it("forgets what was deleted, purged and dropped", async () => {
    const first = endpointScene({ journalFile });
    const [purged, dropped] = [await first.queue("purged"), await first.queue("dropped")];
    await first.send(purged, "x");
    await first.call("PurgeQueue", { QueueUrl: purged });
    await first.call("DeleteQueue", { QueueUrl: dropped });
    const next = endpointScene({ journalFile });
    expect(await next.counts(purged)).toBe("0/0/0");
    expect(await next.refusal("GetQueueUrl", { QueueName: "dropped" })).toBe("QueueDoesNotExist");
  });

  it("is compacted at the start to what the queues hold", async () => {
    const first = endpointScene({ journalFile });
    const url = await first.queue("q");
    for (let round = 0; round < 50; round += 1) {
      await first.send(url, `m${round}`);
      await first.call("DeleteMessage", { QueueUrl: url, ReceiptHandle: handleOf(await first.receive(url)) });
    }
    await first.send(url, "left");
    const lines = () => readFileSync(journalFile, "utf8").trimEnd().split("\n").length;
    expect(lines()).toBe(152);
    endpointScene({ journalFile });
    expect(lines()).toBe(2);
  });

  it("ignores a torn last line: nobody was answered for it", async () => {
    const first = endpointScene({ journalFile });
    const url = await first.queue("q");
    await first.send(url, "whole");
    appendFileSync(journalFile, '{"kind":"message_put","queue":"q","mess');
    const next = endpointScene({ journalFile });
    expect(await next.seen(url)).toBe("whole:1");
    await next.send(url, "after");
    expect(await endpointScene({ journalFile }).counts(url)).toBe("1/1/0");
  });

  it("refuses a file damaged in the middle, naming the line", async () => {
    const first = endpointScene({ journalFile });
    await first.queue("q");
    writeFileSync(journalFile, `garbage\n${readFileSync(journalFile, "utf8")}`);
    expect(() => endpointScene({ journalFile })).toThrow(/Line 1 of the SQS journal .* is damaged/);
  });
});
