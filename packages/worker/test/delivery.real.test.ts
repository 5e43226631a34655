// The life of a delivery on real parts: rows, settlement, and what becomes of messages nobody can run.
import { ReceiveMessageCommand, SetQueueAttributesCommand } from "@aws-sdk/client-sqs";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { describe, expect, it } from "vitest";
import { type AgentGraph, defineAgent } from "../src/agent.ts";
import { sendAnswer } from "../src/producer.ts";
import { scene } from "./scene.ts";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });
type Node = (state: typeof State.State) => Promise<{ log: string[] }>;

interface LooseBuilder {
  addNode(name: string, node: Node | undefined): unknown;
  addEdge(from: string, to: string): unknown;
  compile(): AgentGraph;
}

function chain(nodes: Readonly<Record<string, Node>>): AgentGraph {
  // The builder's type changes with each node it is given; here they come from a list.
  const builder = new StateGraph(State) as unknown as LooseBuilder;
  const names = Object.keys(nodes);
  for (const name of names) builder.addNode(name, nodes[name]);
  for (const [index, name] of [START, ...names].entries()) builder.addEdge(name, names[index] ?? END);
  return builder.compile();
}

const step =
  (name: string): Node =>
  async () => ({ log: [name] });
const steps = defineAgent({
  name: "steps",
  graph: chain({ one: step("one"), two: step("two") }),
  result: (state) => state,
});

describe("a delivery", () => {
  it("finishes its run, settles its message and leaves rows that say so", async () => {
    const s = await scene();
    await s.start([steps]);
    const { runId } = await s.send({ agent: "steps", input: { log: ["in"] } });
    const run = await s.until("the run's end", async () =>
      (await s.run(runId))?.["status"] === "finished" ? s.run(runId) : undefined,
    );
    expect(JSON.parse(String(run?.["result"]))).toEqual({ log: ["in", "one", "two"] });
    const [delivery] = await s.until("the delivery's end", async () => {
      const rows = await s.deliveries(runId);
      return rows[0]?.["ended_at"] != null ? rows : undefined;
    });
    expect(delivery).toMatchObject({ outcome: "finished", cause: "none", receive_count: 1 });
    // Run and row end together, and the message is deleted after them.
    await s.until("the message to be gone", async () => (await s.queued()) === 0);
    const leases = await s.pool.query("select 1 from reprise.thread_leases");
    expect(leases.rowCount).toBe(0);
  });

  it("C14: the same run_id enqueued twice is done once, and the second message is settled on sight", async () => {
    const s = await scene();
    await s.start([steps]);
    const first = await s.send({ agent: "steps", threadId: "t", runId: "r", input: { log: ["in"] } });
    await s.until("the first", async () => (await s.run(first.runId))?.["status"] === "finished");
    await s.send({ agent: "steps", threadId: "t", runId: "r", input: { log: ["in"] } });
    const rows = await s.until("the second delivery", async () => {
      const deliveries = await s.deliveries("r");
      return deliveries.length === 2 && deliveries[1]?.["ended_at"] != null ? deliveries : undefined;
    });
    expect(rows[1]).toMatchObject({ outcome: "settled", receive_count: 1 });
    const checkpoints = await s.pool.query("select 1 from checkpoints where thread_id = 't'");
    expect(checkpoints.rowCount).toBe(4);
    expect(await s.queued()).toBe(0);
  });

  it("refuses the same run_id with another input, keeps the bytes, and leaves the run alone", async () => {
    const s = await scene();
    await s.start([steps]);
    await s.send({ agent: "steps", threadId: "t", runId: "r", input: { log: ["in"] } });
    await s.until("the first", async () => (await s.run("r"))?.["status"] === "finished");
    await s.send({ agent: "steps", threadId: "t", runId: "r", input: { log: ["other"] } });
    const parked = await s.until(
      "the refusal",
      async () => (await s.pool.query("select * from reprise.parked")).rows[0],
    );
    expect(parked).toMatchObject({ code: "RUN_ID_REUSED", run_id: "r" });
    expect(JSON.parse(parked.body.toString())).toMatchObject({ input: { log: ["other"] } });
    expect((await s.run("r"))?.["status"]).toBe("finished");
  });

  it.each([
    ["C15: plain text", "hello", "MESSAGE_NOT_JSON"],
    ["C15: half an object", "{", "MESSAGE_NOT_JSON"],
    ["C15: an array", "[]", "MESSAGE_SHAPE"],
    [
      "C15: an SNS envelope that nobody said to unwrap",
      JSON.stringify({ Type: "Notification", Message: "{}" }),
      "MESSAGE_SHAPE",
    ],
    [
      "E01: NUL in thread_id",
      JSON.stringify({ schema: 1, run_id: "r", thread_id: "a\u0000b", agent: "steps", input: {} }),
      "THREAD_ID_INVALID",
    ],
  ])("%s is parked with its bytes under %s, and the worker lives", async (_name, body, code) => {
    const s = await scene();
    await s.start([steps]);
    await s.sendBody(body);
    const parked = await s.until(
      "the parked row",
      async () => (await s.pool.query("select * from reprise.parked")).rows[0],
    );
    expect(parked).toMatchObject({ code });
    expect(parked.body.toString()).toBe(body);
    const after = await s.send({ agent: "steps", input: { log: [] } });
    await s.until("a run afterwards", async () => (await s.run(after.runId))?.["status"] === "finished");
    await s.until("the settled messages", async () => (await s.queued()) === 0);
  });

  it("C16: a newer schema is given back with a delay, and parked intact only at the last receive", async () => {
    const s = await scene();
    const dead = await s.sqs.createQueue("dead");
    const arn = `arn:aws:sqs:us-east-1:000000000000:${dead.split("/").at(-1)}`;
    await s.client.send(
      new SetQueueAttributesCommand({
        QueueUrl: s.queueUrl,
        Attributes: { RedrivePolicy: JSON.stringify({ deadLetterTargetArn: arn, maxReceiveCount: 3 }) },
      }),
    );
    const body = JSON.stringify({ schema: 2, run_id: "r", something: "new" });
    await s.sendBody(body);
    // Two workers of the old deploy gave it back before.
    for (let receive = 1; receive <= 2; receive += 1)
      await s.client.send(new ReceiveMessageCommand({ QueueUrl: s.queueUrl, VisibilityTimeout: 0 }));
    await s.start([steps]);
    const parked = await s.until(
      "the parked row",
      async () => (await s.pool.query("select * from reprise.parked")).rows[0],
    );
    expect(parked).toMatchObject({ code: "MESSAGE_NEWER_SCHEMA", receive_count: 3 });
    expect(parked.body.toString()).toBe(body);
  });

  it("gives a message for an agent it does not have back, unparked", async () => {
    const s = await scene();
    await s.start([steps]);
    await s.send({ agent: "elsewhere", runId: "r" });
    await s.until("the visibility change", async () => (s.sqs.requests()["ChangeMessageVisibilityBatch"] ?? 0) > 0);
    expect(await s.queued()).toBe(1);
    expect((await s.pool.query("select 1 from reprise.parked")).rowCount).toBe(0);
  });

  it("C06: a message without a receive count runs, and its row says null, not 1", async () => {
    const s = await scene();
    s.sqs.faults.add({ kind: "count_missing", remaining: 10 });
    await s.start([steps]);
    const { runId } = await s.send({ agent: "steps", input: { log: [] } });
    await s.until("the run's end", async () => (await s.run(runId))?.["status"] === "finished");
    expect((await s.deliveries(runId))[0]?.["receive_count"]).toBeNull();
  });

  it("retries a failed run from its checkpoint with cause failed_retry, and counts the fault", async () => {
    const s = await scene();
    let tries = 0;
    const flaky: Node = async () => {
      tries += 1;
      if (tries === 1) throw new Error("provider down");
      return { log: ["two"] };
    };
    const agent = defineAgent({
      name: "flaky",
      graph: chain({ one: step("one"), two: flaky }),
      result: (state) => state,
    });
    await s.start([agent]);
    const { runId } = await s.send({ agent: "flaky", input: { log: [] } });
    const deliveries = await s.until("the deliveries' end", async () => {
      const rows = await s.deliveries(runId);
      return rows.length === 2 && rows.every((row) => row["ended_at"] != null) ? rows : undefined;
    });
    expect(deliveries.map((row) => [row["outcome"], row["cause"]])).toEqual(
      [
        ["failed_retry", "none"],
        ["finished", "failed_retry"],
      ].map((pair) => pair),
    );
    expect(deliveries[1]?.["resumed_from_step"]).toBe(1);
    expect(await s.run(runId)).toMatchObject({ failed_deliveries: 1 });
    expect(JSON.parse(String((await s.run(runId))?.["result"]))).toEqual({ log: ["one", "two"] });
  });

  it("parks a run whose faults reach the limit, with its message", async () => {
    const s = await scene({ REPRISE_FAULT_LIMIT: "1" });
    const broken: Node = async () => {
      throw new Error("always");
    };
    await s.start([defineAgent({ name: "broken", graph: chain({ one: broken }) })]);
    const { runId } = await s.send({ agent: "broken", input: { log: [] } });
    await s.until("the parked run", async () => (await s.run(runId))?.["status"] === "parked");
    expect((await s.pool.query("select code, run_id from reprise.parked")).rows).toEqual([
      { code: "FAULT_LIMIT", run_id: runId },
    ]);
    await s.until("the settled message", async () => (await s.queued()) === 0);
  });
});

describe("a thread", () => {
  it("runs a second run after the first, whose message was deleted meanwhile and sent again", async () => {
    const s = await scene();
    let release: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const slow: Node = async () => {
      await gate;
      return { log: ["slow"] };
    };
    const agent = defineAgent({ name: "slow", graph: chain({ slow }) });
    await s.start([agent]);
    await s.send({ agent: "slow", threadId: "t", runId: "a", input: { log: [] } });
    await s.until("a to begin", async () => (await s.run("a"))?.["status"] === "running");
    await s.send({ agent: "slow", threadId: "t", runId: "b", input: { log: [] } });
    await s.until("b to wait", async () => (await s.run("b"))?.["waiting_since"] != null);
    release();
    const ended = await s.until("b's end", async () => {
      const rows = await s.deliveries("b");
      return rows.length === 2 && rows.every((row) => row["ended_at"] != null) ? rows : undefined;
    });
    const causes = ended.map((row) => [row["outcome"], row["cause"], row["receive_count"]]);
    expect(causes).toEqual([
      ["waiting", null, 1],
      ["finished", "none", 1],
    ]);
  });

  it("pauses for a human, refuses plain input meanwhile, and goes on with the answer once", async () => {
    const s = await scene();
    const ask: Node = async () => {
      const answer = interrupt<string, string>("refund?");
      return { log: [`answered ${answer}`] };
    };
    const agent = defineAgent({ name: "ask", graph: chain({ ask }), result: (state) => state });
    await s.start([agent]);
    await s.send({ agent: "ask", threadId: "t", runId: "r", input: { log: [] } });
    const run = await s.until("the interrupt", async () =>
      (await s.run("r"))?.["status"] === "interrupted" ? s.run("r") : undefined,
    );
    const [pending] = JSON.parse(String(run?.["interrupts"]));
    expect(pending.value).toBe("refund?");
    expect(await s.until("the settled message", async () => (await s.queued()) === 0)).toBe(true);

    await s.send({ agent: "ask", threadId: "t", runId: "other", input: { log: [] } });
    await s.until("the refusal", async () => (await s.run("other"))?.["status"] === "rejected");

    const answer = { agent: "ask", threadId: "t", runId: "r", interruptId: pending.id, value: "yes" };
    await sendAnswer(s.client, s.queueUrl, answer);
    await s.until("the run's end", async () => (await s.run("r"))?.["status"] === "finished");
    await sendAnswer(s.client, s.queueUrl, answer);
    await s.until(
      "the second answer settled",
      async () => (await s.deliveries("r")).filter((row) => row["outcome"] === "settled").length === 1,
    );
    expect(JSON.parse(String((await s.run("r"))?.["result"]))).toEqual({ log: ["answered yes"] });
  });
});
