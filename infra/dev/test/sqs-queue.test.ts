// The queue's state machine on a clock moved by hand: visibility, counts, dead letters, FIFO and deduplication.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { applyChange, type SqsChange, type SqsQueue, snapshotChanges } from "../src/sqs-queue.ts";
import { decideReceive } from "../src/sqs-queue-receive.ts";
import { decideSend } from "../src/sqs-queue-send.ts";
import { decideDelete, decideVisibility } from "../src/sqs-queue-settle.ts";
import { endpointScene, handleOf } from "./sqs-scene.ts";

describe("visibility", () => {
  it("hides a received message for its timeout and then redelivers it with the next count", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q", { VisibilityTimeout: "30" });
    await scene.send(url, "x");
    expect(await scene.seen(url)).toBe("x:1");
    await scene.clock.advance(29_999);
    expect(await scene.seen(url)).toBe("");
    await scene.clock.advance(1);
    expect(await scene.seen(url)).toBe("x:2");
    await scene.clock.advance(30_000);
    expect(await scene.seen(url)).toBe("x:3");
  });

  it("counts no heartbeat: any number of visibility changes leaves the receive count alone", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    await scene.send(url, "x");
    const ReceiptHandle = handleOf(await scene.receive(url));
    for (let beat = 0; beat < 20; beat += 1) {
      await scene.clock.advance(20_000);
      await scene.call("ChangeMessageVisibility", { QueueUrl: url, ReceiptHandle, VisibilityTimeout: 30 });
    }
    await scene.call("ChangeMessageVisibility", { QueueUrl: url, ReceiptHandle, VisibilityTimeout: 0 });
    expect(await scene.seen(url)).toBe("x:2");
  });

  it("forgets a changed visibility at the next receive, which has the queue's timeout again", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q", { VisibilityTimeout: "10" });
    await scene.send(url, "x");
    const ReceiptHandle = handleOf(await scene.receive(url));
    await scene.call("ChangeMessageVisibility", { QueueUrl: url, ReceiptHandle, VisibilityTimeout: 100 });
    await scene.clock.advance(100_000);
    expect(await scene.seen(url)).toBe("x:2");
    await scene.clock.advance(10_000);
    expect(await scene.seen(url)).toBe("x:3");
  });

  it("refuses to hide a message beyond 12 hours from its receive instead of clamping", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q", { VisibilityTimeout: "43200" });
    await scene.send(url, "x");
    const ReceiptHandle = handleOf(await scene.receive(url));
    const change = { QueueUrl: url, ReceiptHandle, VisibilityTimeout: 43_200 };
    expect(await scene.refusal("ChangeMessageVisibility", change)).toBe("none");
    await scene.clock.advance(3_600_000);
    expect(await scene.refusal("ChangeMessageVisibility", change)).toBe("InvalidParameterValue");
    expect(await scene.refusal("ChangeMessageVisibility", { ...change, VisibilityTimeout: 39_600 })).toBe("none");
  });

  it("refuses a visibility change by an expired, a stale or a deleted handle as MessageNotInflight", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q", { VisibilityTimeout: "10" });
    await scene.send(url, "x");
    const first = handleOf(await scene.receive(url));
    const change = { QueueUrl: url, ReceiptHandle: first, VisibilityTimeout: 5 };
    await scene.clock.advance(10_000);
    expect(await scene.refusal("ChangeMessageVisibility", change)).toBe("MessageNotInflight");
    const second = handleOf(await scene.receive(url));
    expect(await scene.refusal("ChangeMessageVisibility", change)).toBe("MessageNotInflight");
    await scene.call("DeleteMessage", { QueueUrl: url, ReceiptHandle: second });
    expect(await scene.refusal("ChangeMessageVisibility", { ...change, ReceiptHandle: second })).toBe(
      "MessageNotInflight",
    );
  });
});

describe("deleting", () => {
  it("answers success to a stale handle and keeps the message: success is no proof", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q", { VisibilityTimeout: "10" });
    await scene.send(url, "x");
    const first = handleOf(await scene.receive(url));
    await scene.clock.advance(10_000);
    const second = handleOf(await scene.receive(url));
    expect(await scene.refusal("DeleteMessage", { QueueUrl: url, ReceiptHandle: first })).toBe("none");
    expect(await scene.counts(url)).toBe("0/1/0");
    expect(await scene.refusal("DeleteMessage", { QueueUrl: url, ReceiptHandle: second })).toBe("none");
    expect(await scene.counts(url)).toBe("0/0/0");
  });

  it("refuses the handle of another queue", async () => {
    const scene = endpointScene();
    const [one, other] = [await scene.queue("one"), await scene.queue("other")];
    await scene.send(one, "x");
    const ReceiptHandle = handleOf(await scene.receive(one));
    expect(await scene.refusal("DeleteMessage", { QueueUrl: other, ReceiptHandle })).toBe("ReceiptHandleIsInvalid");
  });
});

describe("counts and time", () => {
  it("moves a message from delayed to visible to in flight, and drops it at the end of its retention", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q", { MessageRetentionPeriod: "60", VisibilityTimeout: "20" });
    await scene.send(url, "x", { DelaySeconds: 10 });
    expect(await scene.counts(url)).toBe("0/0/1");
    await scene.clock.advance(10_000);
    expect(await scene.counts(url)).toBe("1/0/0");
    await scene.receive(url);
    expect(await scene.counts(url)).toBe("0/1/0");
    await scene.clock.advance(50_001);
    expect(await scene.counts(url)).toBe("0/0/0");
    expect(await scene.seen(url)).toBe("");
  });
});

describe("dead letters", () => {
  async function redriven(scene: ReturnType<typeof endpointScene>) {
    const dead = await scene.queue("dead");
    const target = "arn:aws:sqs:us-east-1:000000000000:dead";
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: target, maxReceiveCount: 2 });
    return { dead, target, url: await scene.queue("q", { RedrivePolicy, VisibilityTimeout: "10" }) };
  }

  it("move at the receive that would be one too many, not when the visibility ends", async () => {
    const scene = endpointScene();
    const { dead, url } = await redriven(scene);
    const sent = await scene.send(url, "poison");
    for (const seen of ["poison:1", "poison:2"]) {
      expect(await scene.seen(url)).toBe(seen);
      await scene.clock.advance(10_000);
    }
    expect(await scene.counts(dead)).toBe("0/0/0");
    expect(await scene.seen(url)).toBe("");
    const [letter] = await scene.receive(dead);
    expect(letter?.MessageId).toBe(sent["MessageId"]);
    expect(letter?.Attributes?.["DeadLetterQueueSourceArn"]).toBe("arn:aws:sqs:us-east-1:000000000000:q");
  });

  it("move back under a new message id with a fresh receive count", async () => {
    const scene = endpointScene();
    const { target, url } = await redriven(scene);
    const sent = await scene.send(url, "poison");
    for (let receive = 0; receive < 3; receive += 1) {
      await scene.receive(url);
      await scene.clock.advance(10_000);
    }
    await scene.call("StartMessageMoveTask", { SourceArn: target });
    const [back] = await scene.receive(url);
    expect(back?.MessageId).not.toBe(sent["MessageId"]);
    expect(back?.Attributes?.["ApproximateReceiveCount"]).toBe("1");
    expect(back?.Attributes?.["DeadLetterQueueSourceArn"]).toBeUndefined();
  });

  it("are moved back only from a queue that is a dead-letter queue", async () => {
    const scene = endpointScene();
    await scene.queue("plain");
    const arn = (name: string) => ({ SourceArn: `arn:aws:sqs:us-east-1:000000000000:${name}` });
    expect(await scene.refusal("StartMessageMoveTask", arn("plain"))).toBe("InvalidParameterValue");
    expect(await scene.refusal("StartMessageMoveTask", arn("nowhere"))).toBe("ResourceNotFoundException");
  });

  it("wake a long poll on the dead-letter queue", async () => {
    const scene = endpointScene();
    const { dead, url } = await redriven(scene);
    await scene.send(url, "poison");
    const polled = scene.poll(dead);
    for (let receive = 0; receive < 3; receive += 1) await scene.receive(url, { VisibilityTimeout: 0 });
    expect((await polled).map(({ Body }) => Body)).toEqual(["poison"]);
  });
});

describe("FIFO", () => {
  const FIFO = { FifoQueue: "true", ContentBasedDeduplication: "true", VisibilityTimeout: "10" };

  it("keeps a group locked while any message of it is in flight, also when an earlier one was given back", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q.fifo", FIFO);
    for (const body of ["a1", "a2", "a3", "b1"]) await scene.send(url, body, { MessageGroupId: body.charAt(0) });
    const [first, second] = await scene.receive(url, { MaxNumberOfMessages: 2 });
    const giveBack = { QueueUrl: url, ReceiptHandle: first?.ReceiptHandle, VisibilityTimeout: 0 };
    await scene.call("ChangeMessageVisibility", giveBack);
    expect(await scene.seen(url)).toBe("b1:1");
    await scene.call("DeleteMessage", { QueueUrl: url, ReceiptHandle: second?.ReceiptHandle });
    expect(await scene.seen(url)).toBe("a1:2,a3:1");
  });

  it("swallows a repeat for five minutes, also of a deleted message, and no longer", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q.fifo", FIFO);
    const first = await scene.send(url, "x", { MessageGroupId: "a" });
    await scene.call("DeleteMessage", { QueueUrl: url, ReceiptHandle: handleOf(await scene.receive(url)) });
    await scene.clock.advance(299_999);
    const repeat = await scene.send(url, "x", { MessageGroupId: "a" });
    expect(repeat["MessageId"]).toBe(first["MessageId"]);
    expect(await scene.counts(url)).toBe("0/0/0");
    await scene.clock.advance(1);
    const later = await scene.send(url, "x", { MessageGroupId: "a" });
    expect(later["MessageId"]).not.toBe(first["MessageId"]);
    expect(await scene.counts(url)).toBe("1/0/0");
  });
});

describe("any sequence of operations", () => {
  type Step = { readonly kind: "send" | "receive" | "beat" | "release" | "delete" | "wait"; readonly pick: number };
  const steps = fc.array(
    fc.record({
      kind: fc.constantFrom<Step["kind"]>("send", "receive", "beat", "release", "delete", "wait"),
      pick: fc.nat({ max: 20 }),
    }),
    { maxLength: 60 },
  );

  function play(script: readonly Step[]) {
    const queues = new Map<string, SqsQueue>();
    const journal: SqsChange[] = [];
    const commit = (changes: readonly SqsChange[]): void => {
      for (const change of changes) {
        // Through JSON, as the journal has it.
        journal.push(JSON.parse(JSON.stringify(change)) as SqsChange);
        applyChange(queues, change);
      }
    };
    const attributes = { VisibilityTimeout: "5" };
    commit([{ kind: "queue_set", queue: "q", attributes, createdAt: 0, modifiedAt: 0, lastSequence: 0 }]);
    const queue = queues.get("q");
    if (queue === undefined) throw new Error("queue_set makes a queue");
    const deliveries = new Map<string, number>();
    const handles: string[] = [];
    let at = 0;
    for (const { kind, pick } of script) {
      const handle = handles[pick % Math.max(1, handles.length)];
      try {
        if (kind === "wait") at += pick * 500;
        else if (kind === "send")
          commit(decideSend(queue, { body: "x", attributes: {}, traceHeader: null }, at).changes);
        else if (kind === "receive") {
          const ask = {
            messagesMax: 1 + (pick % 10),
            visibilitySeconds: 5,
            at,
            queueArn: "",
            deadLetter: undefined,
            stayVisible: 0,
          };
          const { changes, received } = decideReceive(queue, ask);
          commit(changes);
          for (const message of received) {
            deliveries.set(message.id, (deliveries.get(message.id) ?? 0) + 1);
            handles.push(message.receiptHandle ?? "");
            expect(message.receiveCount).toBe(deliveries.get(message.id));
          }
        } else if (handle !== undefined) {
          if (kind === "delete") commit(decideDelete(queue, handle, at));
          else commit(decideVisibility(queue, { handle, visibilitySeconds: kind === "beat" ? 5 : 0, at }));
        }
      } catch (error) {
        // A stale handle is refused; that is one of the cases.
        if (!(error instanceof Error) || error.name !== "SqsError") throw error;
      }
    }
    return { queues, journal };
  }

  it("counts a message as often as it was handed out, and no oftener", () => {
    fc.assert(fc.property(steps, (script) => void play(script)));
  });

  it("is rebuilt from its changes, and from their snapshot", () => {
    fc.assert(
      fc.property(steps, (script) => {
        const { queues, journal } = play(script);
        const replayed = new Map<string, SqsQueue>();
        for (const change of journal) applyChange(replayed, change);
        expect(replayed).toEqual(queues);
        const compacted = new Map<string, SqsQueue>();
        for (const change of snapshotChanges(replayed)) applyChange(compacted, change);
        expect(compacted).toEqual(queues);
      }),
    );
  });
});
