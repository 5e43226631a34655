// Long polls on a clock moved by hand: who is served, when, and who must never swallow a message.

import { describe, expect, it } from "vitest";
import { POLLS_MAX } from "../src/sqs-polls.ts";
import { endpointScene, manualConnection, settled } from "./sqs-scene.ts";

describe("a long poll", () => {
  it("returns as soon as a message is sent", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    const polled = scene.poll(url);
    await scene.clock.advance(5_000);
    await scene.send(url, "x");
    expect((await polled).map(({ Body }) => Body)).toEqual(["x"]);
    expect(scene.endpoint.pollCount).toBe(0);
  });

  it("returns empty after its wait", async () => {
    const scene = endpointScene();
    const polled = scene.poll(await scene.queue("q"));
    await scene.clock.advance(19_999);
    expect(scene.endpoint.pollCount).toBe(1);
    await scene.clock.advance(1);
    expect(await polled).toEqual([]);
    expect(scene.endpoint.pollCount).toBe(0);
  });

  it("gets a message the moment its visibility or its delay ends", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q", { VisibilityTimeout: "7" });
    await scene.send(url, "x");
    await scene.receive(url);
    const start = scene.clock.now();
    const first = scene.poll(url).then((messages) => ({ messages, afterMs: scene.clock.now() - start }));
    await scene.clock.advance(8_000);
    expect((await first).messages[0]?.Attributes?.["ApproximateReceiveCount"]).toBe("2");
    expect((await first).afterMs).toBe(7_000);
  });

  it("is woken by a visibility of 0 and by the delete that frees its FIFO group", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q.fifo", { FifoQueue: "true", ContentBasedDeduplication: "true" });
    for (const body of ["a1", "a2"]) await scene.send(url, body, { MessageGroupId: "a" });
    const [held] = await scene.receive(url, { MaxNumberOfMessages: 1 });
    const polled = scene.poll(url);
    await scene.call("DeleteMessage", { QueueUrl: url, ReceiptHandle: held?.ReceiptHandle });
    expect((await polled).map(({ Body }) => Body)).toEqual(["a2"]);
  });

  it("is served in order of arrival", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    const polls = [scene.poll(url), scene.poll(url)];
    await scene.send(url, "1");
    await scene.send(url, "2");
    expect((await Promise.all(polls)).map(([message]) => message?.Body)).toEqual(["1", "2"]);
  });

  it("ends empty when its queue is deleted", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    const polled = scene.poll(url);
    await scene.call("DeleteQueue", { QueueUrl: url });
    expect(await polled).toEqual([]);
  });
});

describe("a long poll whose client has gone", () => {
  it("takes nothing: the next consumer sees the message with count 1", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    const connection = manualConnection();
    const polled = scene.poll(url, connection);
    await settled();
    connection.close();
    expect(await polled).toEqual([]);
    expect(scene.endpoint.pollCount).toBe(0);
    await scene.send(url, "x");
    expect(await scene.seen(url)).toBe("x:1");
  });

  it("takes nothing even when its socket closed without a close event so far", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    const connection = manualConnection();
    const polled = scene.poll(url, connection);
    await settled();
    connection.close("silently");
    await scene.send(url, "x");
    expect(await polled).toEqual([]);
    expect(await scene.seen(url)).toBe("x:1");
  });

  it("is passed over in favour of one that still waits", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    const gone = manualConnection();
    const dead = scene.poll(url, gone);
    const alive = scene.poll(url);
    await settled();
    gone.close("silently");
    await scene.send(url, "x");
    expect((await alive).map(({ Attributes }) => Attributes?.["ApproximateReceiveCount"])).toEqual(["1"]);
    expect(await dead).toEqual([]);
  });
});

describe("the bound on long polls", () => {
  it("refuses one more poll as OverLimit, counts it, and serves the others", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    const polls = Array.from({ length: POLLS_MAX }, () => scene.poll(url));
    await settled();
    expect(await scene.refusal("ReceiveMessage", { QueueUrl: url, WaitTimeSeconds: 1 })).toBe("OverLimit");
    expect(scene.endpoint.refusals()).toEqual({ polls: 1 });
    await scene.clock.advance(20_000);
    expect((await Promise.all(polls)).flat()).toEqual([]);
  });
});
