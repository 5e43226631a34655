// Each fault on demand: what it does, to what, and that it stops when its count is used up.

import { describe, expect, it } from "vitest";
import { FAULTS_MAX, type SqsFault } from "../src/sqs-faults.ts";
import { parseFaults } from "../src/sqs-faults-parse.ts";
import { endpointScene, handleOf, manualConnection, settled } from "./sqs-scene.ts";

describe("faults", () => {
  it("throttle refuses the next calls of one operation, without effect", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    scene.fault({ kind: "throttle", operation: "SendMessage", remaining: 2 });
    const send = { QueueUrl: url, MessageBody: "x" };
    expect(await scene.refusal("SendMessage", send)).toBe("ThrottlingException");
    expect(await scene.refusal("ReceiveMessage", { QueueUrl: url })).toBe("none");
    expect(await scene.refusal("SendMessage", send)).toBe("ThrottlingException");
    expect(await scene.counts(url)).toBe("0/0/0");
    expect(await scene.refusal("SendMessage", send)).toBe("none");
    expect(scene.faults.list()).toEqual([]);
  });

  it("throttle can answer the code of SQS's own model, with its status", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    scene.fault({ kind: "throttle", operation: "*", code: "RequestThrottled", remaining: 1 });
    expect(await scene.answer("ReceiveMessage", { QueueUrl: url })).toMatchObject({
      kind: "error",
      error: { code: "RequestThrottled", httpStatus: 403 },
    });
  });

  it("error answers any named AWS error, without effect", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    scene.fault({ kind: "error", operation: "ReceiveMessage", code: "ExpiredToken", httpStatus: 403, remaining: 1 });
    scene.fault({ kind: "error", operation: "SendMessage", code: "KmsAccessDenied", remaining: 1 });
    expect(await scene.answer("ReceiveMessage", { QueueUrl: url })).toMatchObject({
      error: { code: "ExpiredToken", httpStatus: 403 },
    });
    expect(await scene.answer("SendMessage", { QueueUrl: url, MessageBody: "x" })).toMatchObject({
      error: { code: "KmsAccessDenied", queryCode: "KMS.AccessDeniedException", httpStatus: 400 },
    });
    expect(await scene.counts(url)).toBe("0/0/0");
  });

  it("drop_reply lets the operation take effect and resets the connection", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    scene.fault({ kind: "drop_reply", operation: "DeleteMessage", remaining: 1 });
    await scene.send(url, "x");
    const ReceiptHandle = handleOf(await scene.receive(url));
    expect(await scene.answer("DeleteMessage", { QueueUrl: url, ReceiptHandle })).toEqual({ kind: "reset" });
    expect(await scene.counts(url)).toBe("0/0/0");
  });

  it("deliver_twice leaves the next messages visible, so that each comes again at once", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    scene.fault({ kind: "deliver_twice", remaining: 2 });
    for (const body of ["a", "b", "c"]) await scene.send(url, body);
    expect(await scene.seen(url)).toBe("a:1,b:1,c:1");
    expect(await scene.seen(url)).toBe("a:2,b:2");
    expect(await scene.seen(url)).toBe("");
    expect(scene.faults.list()).toEqual([]);
  });

  it("deliver_twice hands the second copy to another waiting poll", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    const polls = [scene.poll(url), scene.poll(url)];
    scene.fault({ kind: "deliver_twice", remaining: 1 });
    await scene.send(url, "x");
    const counts = (await Promise.all(polls)).map(([message]) => message?.Attributes?.["ApproximateReceiveCount"]);
    expect(counts).toEqual(["1", "2"]);
  });

  it("count_missing leaves out the receive count and nothing else, message by message", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    scene.fault({ kind: "count_missing", remaining: 1 });
    for (const body of ["a", "b"]) await scene.send(url, body);
    expect(await scene.seen(url)).toBe("a:undefined,b:1");
    const ask = { QueueUrl: url, MessageBody: "c" };
    scene.fault({ kind: "count_missing", remaining: 1 });
    await scene.call("SendMessage", ask);
    const [message] = await scene.receive(url);
    expect(Object.keys(message?.Attributes ?? {})).toEqual([
      "SenderId",
      "SentTimestamp",
      "ApproximateFirstReceiveTimestamp",
    ]);
  });

  it("swallow_aborted_poll lets an aborted poll take the next message unseen", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q", { VisibilityTimeout: "30" });
    scene.fault({ kind: "swallow_aborted_poll", remaining: 1 });
    const abortedPoll = async () => {
      const connection = manualConnection();
      void scene.poll(url, connection);
      await settled();
      connection.close();
    };
    await abortedPoll();
    await scene.send(url, "swallowed");
    expect(await scene.counts(url)).toBe("0/1/0");
    await abortedPoll();
    await scene.send(url, "left alone");
    expect(await scene.seen(url)).toBe("left alone:1");
    await scene.clock.advance(29_999);
    expect(await scene.seen(url)).toBe("");
    await scene.clock.advance(1);
    expect(await scene.seen(url)).toContain("swallowed:2");
  });

  it("a swallowing poll stops at the end of its wait", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    scene.fault({ kind: "swallow_aborted_poll", remaining: 1 });
    const connection = manualConnection();
    void scene.poll(url, connection);
    await settled();
    connection.close();
    await scene.clock.advance(20_000);
    await scene.send(url, "x");
    expect(await scene.seen(url)).toBe("x:1");
  });

  it("delay holds the effect back, or only the reply", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    const send = { QueueUrl: url, MessageBody: "x" };
    scene.fault({ kind: "delay", operation: "SendMessage", delayMs: 3_000, remaining: 1 });
    const lateEffect = scene.call("SendMessage", send);
    await scene.clock.advance(2_999);
    expect(await scene.counts(url)).toBe("0/0/0");
    await scene.clock.advance(1);
    await lateEffect;
    expect(await scene.counts(url)).toBe("1/0/0");
    scene.fault({ kind: "delay", operation: "SendMessage", delayMs: 3_000, slow: "reply", remaining: 1 });
    const lateReply = scene.call("SendMessage", send);
    await settled();
    expect(await scene.counts(url)).toBe("2/0/0");
    await scene.clock.advance(3_000);
    await lateReply;
  });

  it("meant for one queue leave the others alone and go when it is cleared or deleted", async () => {
    const scene = endpointScene();
    const [one, other] = [await scene.queue("one"), await scene.queue("other")];
    const fault: SqsFault = { kind: "throttle", operation: "*", queue: "one", remaining: 9 };
    scene.fault(fault);
    expect(await scene.refusal("ReceiveMessage", { QueueUrl: other })).toBe("none");
    expect(await scene.refusal("ReceiveMessage", { QueueUrl: one })).toBe("ThrottlingException");
    expect(scene.faults.list()).toEqual([{ ...fault, remaining: 8 }]);
    scene.faults.clear("other");
    expect(scene.faults.list()).toHaveLength(1);
    scene.faults.clear("one");
    expect(scene.faults.list()).toEqual([]);
  });

  it("are bounded, and a refused one is counted", () => {
    const scene = endpointScene();
    const fault: SqsFault = { kind: "deliver_twice", remaining: 1 };
    for (let added = 0; added < FAULTS_MAX; added += 1) scene.fault(fault);
    expect(() => scene.fault(fault)).toThrow(/at most 100 faults/);
    expect(scene.endpoint.refusals()).toEqual({ faults: 1 });
  });

  it("that could never apply are refused", () => {
    const scene = endpointScene();
    expect(() => scene.fault({ kind: "deliver_twice", remaining: 0 })).toThrow(/remaining >= 1/);
  });
});

describe("faults as JSON", () => {
  it("are read one or many, with defaults filled in", () => {
    expect(parseFaults('{"kind":"throttle","operation":"*"}')).toEqual([
      { kind: "throttle", operation: "*", code: "ThrottlingException", remaining: 1 },
    ]);
    const many: readonly SqsFault[] = [
      { kind: "drop_reply", operation: "DeleteMessageBatch", queue: "q", remaining: 2 },
      { kind: "deliver_twice", remaining: 3 },
      { kind: "count_missing", remaining: 3 },
      { kind: "swallow_aborted_poll", remaining: 1 },
      { kind: "error", operation: "SendMessage", code: "KmsDisabled", remaining: 1 },
      { kind: "delay", operation: "SendMessage", delayMs: 5, slow: "reply", remaining: 1 },
    ];
    expect(parseFaults(JSON.stringify(many))).toEqual(many);
  });

  it.each([
    ["[", /not JSON/],
    ["3", /JSON object/],
    ['{"kind":"rain"}', /kind rain is none of/],
    ['{"kind":"drop_reply","operation":"Fly"}', /operation is \* or one of/],
    ['{"kind":"delay","operation":"*"}', /needs delayMs/],
    ['{"kind":"deliver_twice","remaining":1.5}', /remaining is a whole number/],
    ['{"kind":"error","operation":"*","code":"X","httpStatus":200}', /httpStatus/],
  ])("are refused by the wrong field: %s", (body, reason) => {
    expect(() => parseFaults(body)).toThrow(reason);
  });
});

describe("request counters", () => {
  it("count by operation, for all queues and for one, refused calls included", async () => {
    const scene = endpointScene();
    const [one, other] = [await scene.queue("one"), await scene.queue("other")];
    await scene.receive(one);
    await scene.receive(other);
    await scene.refusal("ReceiveMessage", { QueueUrl: one, MaxNumberOfMessages: 11 });
    await scene.refusal("Fly");
    expect(scene.endpoint.requests()).toEqual({ CreateQueue: 2, ReceiveMessage: 3, Unknown: 1 });
    expect(scene.endpoint.requests("one")).toEqual({ ReceiveMessage: 2 });
  });
});
