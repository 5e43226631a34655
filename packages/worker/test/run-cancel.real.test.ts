// Cancel against a real worker, database and queue: who ends the run, when, and what stays of its calls.
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { defineTool } from "@reprise/tools";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { ScriptedModel } from "../../../examples/src/support/scripted-model.ts";
import { type Agent, type AgentGraph, defineAgent } from "../src/agent.ts";
import { parseMessage } from "../src/message.ts";
import { CANCELLED, endAskedRuns, requestCancel } from "../src/run-cancel.ts";
import { toolAgent } from "../src/tool-agent.ts";
import { type Scene, scene } from "./scene.ts";
import { twoSteps } from "./scene-agent.ts";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });

/** A first node that ends when the test lets it, and a second one that must never begin. */
function held(): { agent: Agent; begun: Promise<void>; free: () => void; second: () => number } {
  let [free, begin, second] = [(): void => {}, (): void => {}, 0];
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const hold = new Promise<void>((resolve) => {
    free = resolve;
  });
  const graph = new StateGraph(State)
    .addNode("one", async () => {
      begin();
      await hold;
      return { log: ["one"] };
    })
    .addNode("two", async () => {
      second += 1;
      return { log: ["two"] };
    })
    .addEdge(START, "one")
    .addEdge("one", "two")
    .addEdge("two", END)
    .compile() as unknown as AgentGraph;
  return { agent: defineAgent({ name: "held", graph }), begun, free: () => free(), second: () => second };
}

/** A model that pays and mails: the first tool works until its signal fires, the second must never begin. */
function paying(): { agent: Agent; begun: Promise<void>; reason: () => unknown; mailed: () => number } {
  let [begin, reason, mailed] = [(): void => {}, undefined as unknown, 0];
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const pay = defineTool({
    name: "pay",
    description: "pays",
    schema: z.object({}),
    effect: "once",
    run: async (_args, { signal }) => {
      begin();
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      reason = signal.reason;
      throw new Error("the connection was closed");
    },
  });
  const mail = defineTool({
    name: "mail",
    description: "mails",
    schema: z.object({}),
    effect: "once",
    run: async () => {
      mailed += 1;
      return "sent";
    },
  });
  const turns = [{ calls: [{ name: "pay", args: {} }] }, { calls: [{ name: "mail", args: {} }] }, { text: "Done." }];
  const graph = toolAgent({ model: new ScriptedModel({ turns }), tools: [pay, mail] });
  return { agent: defineAgent({ name: "paying", graph }), begun, reason: () => reason, mailed: () => mailed };
}

async function isCancelled(s: Scene, runId: string): Promise<void> {
  await s.until("the run's end", async () => (await s.run(runId))?.["status"] === "cancelled");
  await s.until("the message to be gone", async () => (await s.queued()) === 0);
  // The row ends after its message (settleEnding).
  await s.until("the deliveries' end", async () =>
    (await s.deliveries(runId)).every((row) => row["ended_at"] !== null),
  );
  const run = await s.run(runId);
  expect(run).toMatchObject({ error_code: CANCELLED, failed_deliveries: 0, lost_deliveries: 0 });
  expect(run?.["ended_at"]).toBeInstanceOf(Date);
}

describe("a run that a worker drives", () => {
  it("gets the cancel with the next beat: its tool's signal fires, nothing further begins, and the open call is unknown (C20)", async () => {
    const s = await scene({ REPRISE_VISIBILITY_SECONDS: "6" }, { VisibilityTimeout: "6" });
    const { agent, begun, reason, mailed } = paying();
    await s.start([agent]);
    const { runId } = await s.send({ agent: "paying" });
    await begun;
    expect(await requestCancel(s.pool, runId, "wrong customer")).toMatchObject({ state: "asked" });
    await isCancelled(s, runId);
    expect(String(reason())).toContain("The run was stopped");
    expect(mailed()).toBe(0);
    expect(await s.deliveries(runId)).toMatchObject([{ outcome: "cancelled", outcome_code: CANCELLED }]);
    const { rows } = await s.pool.query("select tool, state from reprise.effects");
    expect(rows).toEqual([{ tool: "pay", state: "unknown" }]);
    expect((await s.pool.query("select 1 from reprise.thread_leases")).rows).toEqual([]);
  });

  it("gets it at the next step boundary when that comes before the beat (C20)", async () => {
    const s = await scene({ REPRISE_VISIBILITY_SECONDS: "600" });
    const { agent, begun, free, second } = held();
    await s.start([agent]);
    const { runId } = await s.send({ agent: "held", input: { log: [] } });
    await begun;
    expect(await requestCancel(s.pool, runId)).toMatchObject({ state: "asked" });
    free();
    await isCancelled(s, runId);
    expect(second()).toBe(0);
  });

  it("ends cancelled, not waiting, when it stops for a human after the cancel was asked", async () => {
    const s = await scene({ REPRISE_VISIBILITY_SECONDS: "600" });
    const graph = new StateGraph(State)
      .addNode("ask", async () => {
        await requestCancel(s.pool, "r");
        interrupt("may I?");
        return {};
      })
      .addEdge(START, "ask")
      .addEdge("ask", END)
      .compile() as unknown as AgentGraph;
    await s.start([defineAgent({ name: "ask", graph })]);
    await s.send({ agent: "ask", runId: "r", input: { log: [] } });
    await isCancelled(s, "r");
  });
});

describe("a run that nobody drives", () => {
  it("that waits for a human is cancelled at once, and its answer is settled", async () => {
    const s = await scene();
    await s.pool.query(row("r", "interrupted"));
    expect(await requestCancel(s.pool, "r")).toEqual({ state: "ended", before: "interrupted", effectsLeftUnknown: 0 });
    await s.start([defineAgent({ name: "steps", graph: twoSteps() })]);
    const answer = { interrupt_id: "i", value: true };
    await s.sendBody(JSON.stringify({ schema: 1, run_id: "r", thread_id: "t", agent: "steps", answer }));
    await s.until("the answer's end", async () => (await s.deliveries("r"))[0]?.["outcome"] === "settled");
    expect(await s.run("r")).toMatchObject({ status: "cancelled" });
  });

  it("is settled on sight when its message comes back", async () => {
    const s = await scene();
    await s.pool.query(row("r", "running"));
    expect(await requestCancel(s.pool, "r")).toMatchObject({ state: "ended", before: "running" });
    await s.pool.query("update reprise.runs set input_hash = $1", [stepsHash()]);
    await s.start([defineAgent({ name: "steps", graph: twoSteps() })]);
    await s.send({ agent: "steps", runId: "r", threadId: "t", input: { log: [] } });
    await s.until("the delivery's end", async () => (await s.deliveries("r"))[0]?.["outcome"] === "settled");
    await s.until("the message to be gone", async () => (await s.queued()) === 0);
  });

  it("whose worker was lost with the request ends before anything is driven again, the lost delivery buried", async () => {
    const s = await scene();
    await s.pool.query(row("r", "running"));
    await s.pool.query("update reprise.runs set cancel_requested_at = now(), input_hash = $1", [stepsHash()]);
    await s.pool.query(DELIVERY);
    await s.start([defineAgent({ name: "steps", graph: twoSteps() })]);
    await s.send({ agent: "steps", runId: "r", threadId: "t", input: { log: [] } });
    await s.until("the run's end", async () => (await s.run("r"))?.["status"] === "cancelled");
    await s.until("two ends", async () => (await s.deliveries("r")).every((delivery) => delivery["outcome"] !== null));
    expect((await s.deliveries("r")).map((delivery) => delivery["outcome"])).toEqual(["lost", "cancelled"]);
    expect(await s.run("r")).toMatchObject({ first_checkpoint_id: null });
  });

  it("leaves calls whose holder is gone unknown, and those that still have one alone", async () => {
    const s = await scene();
    await s.pool.query(row("r", "running"));
    await s.pool.query(DELIVERY);
    for (const [key, lease] of [
      ["gone", "-1 minute"],
      ["held", "1 minute"],
    ]) {
      await s.pool.query(
        `insert into reprise.effects (key, thread_id, tool, tool_call_id, args_fingerprint, policy, nonce, fence, holder, lease_until,
           run_id, delivery_id, node_attempt)
         values ($1, 't', 'pay', $1, 'f', 'once', 'n', 1, 'h', now() + $2::interval, 'r', 'd', 1)`,
        [key, lease],
      );
    }
    expect(await requestCancel(s.pool, "r")).toMatchObject({ state: "ended", effectsLeftUnknown: 1 });
    const { rows } = await s.pool.query("select key, state from reprise.effects order by key");
    expect(rows).toEqual([
      { key: "gone", state: "unknown" },
      { key: "held", state: "reserved" },
    ]);
  });

  it("is not cancelled when it is finished, and is not known when it is not there", async () => {
    const s = await scene();
    await s.pool.query(row("r", "finished"));
    expect(await requestCancel(s.pool, "r")).toEqual({ state: "too_late", status: "finished" });
    expect(await requestCancel(s.pool, "nobody")).toEqual({ state: "unknown" });
  });

  it("that slipped through between its last mark and its lease's release is ended by the worker's look", async () => {
    const s = await scene();
    await s.pool.query(row("r", "interrupted"));
    await s.pool.query("update reprise.runs set cancel_requested_at = now()");
    await s.pool.query(row("other", "interrupted"));
    expect(await endAskedRuns(s.pool)).toEqual(["r"]);
    expect(await s.run("other")).toMatchObject({ status: "interrupted" });
  });
});

const DELIVERY = `
  insert into reprise.deliveries (delivery_id, sqs_message_id, run_id, thread_id, worker, fence, trace_id, root_span_id)
  values ('d', 'm', 'r', 't', 'w', 0, '0', '0')`;

function row(runId: string, status: string): string {
  return `insert into reprise.runs (run_id, thread_id, agent, status, input_hash, queue_url, body)
    values ('${runId}', 't', 'steps', '${status}', 'h', 'q', '{}')`;
}

function stepsHash(): string {
  const body = JSON.stringify({ schema: 1, run_id: "r", thread_id: "t", agent: "steps", input: { log: [] } });
  const message = parseMessage(body, { snsEnvelope: "refuse" });
  if (message.kind !== "run") throw new Error("not a run");
  return message.inputHash;
}
