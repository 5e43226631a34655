// Settling on real parts: a delete that failed, a retry that sends nothing, and a give-back beside an own open poll.
import { ReceiveMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { expect, it } from "vitest";
import { defineAgent } from "../src/agent.ts";
import { pause } from "../src/intake-pause.ts";
import { type Scene, scene } from "./scene.ts";
import { chainOf } from "./scene-graph.ts";

async function gone(s: Scene, runId: string): Promise<void> {
  await s.until("the run's end", async () => (await s.run(runId))?.["status"] === "finished");
  await s.until("the queue to be empty", async () => (await s.queued()) === 0);
  await s.until("every row's end", async () => (await s.deliveries(runId)).every((row) => row["ended_at"] !== null));
}

it("Q15, C08, C13: the message of a finished run whose delete failed is deleted by its new handle, and nothing runs again", async () => {
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "5" });
  s.sqs.faults.add({ kind: "error", operation: "DeleteMessageBatch", code: "AccessDenied", remaining: 1 });
  let ran = 0;
  const graph = chainOf({
    one: async () => {
      ran += 1;
    },
  });
  await s.start([defineAgent({ name: "steps", graph })]);
  const { runId } = await s.send({ agent: "steps", input: { log: [] } });
  await gone(s, runId);
  expect(ran).toBe(1);
  const rows = await s.deliveries(runId);
  expect(rows.map((row) => [row["outcome"], row["receive_count"]])).toEqual([
    ["finished", 1],
    ["settled", 2],
  ]);
  expect(rows[0]?.["sqs_message_id"]).toBe(rows[1]?.["sqs_message_id"]);
});

it("Q18: a retry is the same message received again, never one sent by us", async () => {
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "5" });
  let ran = 0;
  const graph = chainOf({
    one: async () => {
      ran += 1;
      if (ran === 1) throw new Error("the first try fails");
    },
  });
  await s.start([defineAgent({ name: "steps", graph })]);
  const { runId } = await s.send({ agent: "steps", input: { log: [] } });
  await gone(s, runId);
  const rows = await s.deliveries(runId);
  expect(rows.map((row) => [row["outcome"], row["receive_count"]])).toEqual([
    ["failed_retry", 1],
    ["finished", 2],
  ]);
  expect(new Set(rows.map((row) => row["sqs_message_id"])).size).toBe(1);
  expect(s.sqs.requests(s.queueUrl.split("/").at(-1) ?? "")["SendMessage"]).toBe(1);
});

it("Q10: while an own poll is still open at SQS nothing is given back to it: the next worker receives the message", async () => {
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "10", REPRISE_WAIT_SECONDS: "20" });
  let began = false;
  const graph = chainOf({
    one: async () => {
      began = true;
      await pause(150, undefined);
    },
    two: async () => {},
  });
  let clients = 0;
  const client = (): SQSClient => {
    clients += 1;
    const own = new SQSClient({
      endpoint: s.sqs.endpoint,
      region: "us-east-1",
      credentials: { accessKeyId: "x", secretAccessKey: "y" },
    });
    return clients === 1 ? lingering(own) : own;
  };
  const worker = await s.start([defineAgent({ name: "steps", graph })], { sqs: client });
  const { runId } = await s.send({ agent: "steps", input: { log: [] } });
  await s.until("the run to work", async () => began);
  await worker.stop();
  expect(await s.deliveries(runId)).toMatchObject([{ outcome: "handback" }]);
  const { Messages } = await s.client.send(
    new ReceiveMessageCommand({ QueueUrl: s.queueUrl, WaitTimeSeconds: 2, MessageSystemAttributeNames: ["All"] }),
  );
  // Received twice: by the worker that gave it back, and here. A third would be the poll of a worker that is gone.
  expect(Messages?.map((message) => message.Attributes?.ApproximateReceiveCount)).toEqual(["2"]);
});

/** A cut poll stays open at SQS a little longer, and takes what becomes visible meanwhile. */
function lingering(client: SQSClient): SQSClient {
  const send = async (command: unknown, options: { readonly abortSignal?: AbortSignal }): Promise<unknown> => {
    if (!(command instanceof ReceiveMessageCommand)) throw new TypeError("the poll's client only receives");
    const { abortSignal } = options;
    for (;;) {
      const answer = await client.send(new ReceiveMessageCommand({ ...command.input, WaitTimeSeconds: 0 }));
      if (answer.Messages !== undefined) return answer;
      if (abortSignal?.aborted !== true) {
        await pause(50, abortSignal);
        continue;
      }
      // Much longer than the node takes to its checkpoint, shorter than the intake waits for a cut poll.
      await pause(500, undefined);
      return client.send(new ReceiveMessageCommand({ ...command.input, WaitTimeSeconds: 0 }));
    }
  };
  // The poll's client is asked for `send` and `destroy` alone.
  return new Proxy(client, { get: (target, key) => (key === "send" ? send : Reflect.get(target, key, target)) });
}
