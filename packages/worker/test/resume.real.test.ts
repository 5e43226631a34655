// What a worker finds and must live with: threads a stock saver wrote, a user's own pool, and a worker frozen past its lease.
import { GetQueueAttributesCommand } from "@aws-sdk/client-sqs";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { type Sink, startSink } from "@reprise/dev-stack";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LENT_SAVER } from "../src/graph-state.ts";
import { crashAgents, wish } from "./crash-agents.ts";
import { type CrashScene, expectStory, openStage, type Stage } from "./crash-scene.ts";

let stage: Stage;
let sink: Sink;
beforeAll(async () => {
  [stage, sink] = await Promise.all([openStage(), startSink()]);
});
afterAll(() => Promise.all([stage?.close(), sink?.stop()]));

/** Runs an agent's graph as a program without us would: a stock saver, no run_id anywhere. */
async function stockRun(scene: CrashScene, agentName: string, content: string): Promise<void> {
  const agent = crashAgents("http://127.0.0.1:9").find(({ name }) => name === agentName);
  const config = { configurable: { thread_id: scene.threadId, [LENT_SAVER]: new PostgresSaver(scene.pool) } };
  await agent?.graph.invoke({ messages: [{ role: "user", content }] }, config);
}

interface Told {
  readonly type: string;
  readonly text: string;
}

/** The thread's messages as a stock saver reads them. */
async function messagesOf(scene: CrashScene): Promise<readonly Told[]> {
  const tuple = await new PostgresSaver(scene.pool).getTuple({ configurable: { thread_id: scene.threadId } });
  // MessagesAnnotation's channel holds messages.
  const messages = tuple?.checkpoint.channel_values["messages"] as readonly Told[];
  return messages.map(({ type, text }) => ({ type, text }));
}

async function versionsOf(scene: CrashScene): Promise<readonly unknown[]> {
  const tuple = await new PostgresSaver(scene.pool).getTuple({ configurable: { thread_id: scene.threadId } });
  return Object.values(tuple?.checkpoint.channel_versions ?? {});
}

describe("a thread that a stock PostgresSaver wrote in schema public", () => {
  it.concurrent("takes a new run after its finished one, keeps its history, and can be given back to it", async () => {
    await stage.play(async (scene) => {
      await stockRun(scene, "plain", "first words");
      const before = await scene.pool.query("select checkpoint_id, metadata from checkpoints order by checkpoint_id");
      expect(before.rows.every(({ metadata }) => !("run_id" in metadata))).toBe(true);
      expect((await versionsOf(scene)).every(Number.isInteger)).toBe(true);
      await scene.healthy();
      const runId = await scene.send("charge");
      await scene.runIs(runId, "finished");
      await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
      expect((await messagesOf(scene)).map(({ type }) => type)).toEqual(["human", "ai", "human", "ai", "tool", "ai"]);
      expect((await messagesOf(scene))[0]?.text).toBe("first words");
      // Ours are unique by their fraction and sort after theirs as numbers do.
      expect((await versionsOf(scene)).every((version) => typeof version === "number")).toBe(true);
      await expectStory(scene, runId, [["finished", "none", null]]);
      expect(await scene.charges()).toEqual(["created"]);
      const after = await scene.pool.query("select checkpoint_id, metadata from checkpoints order by checkpoint_id");
      expect(after.rows.slice(0, before.rows.length)).toEqual(before.rows);
      expect(after.rows.slice(before.rows.length).every(({ metadata }) => metadata.run_id === runId)).toBe(true);
      // And the program without us can have its thread back.
      await stockRun(scene, "plain", "last words");
      expect((await messagesOf(scene)).map(({ type }) => type)).toEqual([
        "human",
        "ai",
        "human",
        "ai",
        "tool",
        "ai",
        "human",
        "ai",
      ]);
    });
  });

  it.concurrent("resumes a run of ours on it, killed after its charge, from our checkpoint and not from theirs", async () => {
    await stage.play(async (scene) => {
      await stockRun(scene, "plain", "first words");
      const runId = await scene.send("charge");
      await scene.died(scene.child({ when: "before", what: "select reprise\\.settle_effect" }));
      await scene.healthy();
      await scene.runIs(runId, "finished");
      // Steps go on counting through the thread: -1 to 1 are the stock run's.
      await expectStory(scene, runId, [
        ["lost", "none", null],
        ["finished", "visibility_expired", 4],
      ]);
      expect((await messagesOf(scene)).map(({ type }) => type)).toEqual(["human", "ai", "human", "ai", "tool", "ai"]);
      expect(await scene.payments.charges(scene.customer)).toHaveLength(1);
    });
  });

  it.concurrent("waits for a human there: a new run takes the thread and its open call is answered, not left open", async () => {
    await stage.play(async (scene) => {
      await stockRun(scene, "ask", wish("cus_stock"));
      expect((await messagesOf(scene)).map(({ type }) => type)).toEqual(["human", "ai"]);
      await scene.healthy();
      const runId = await scene.send("charge");
      await scene.runIs(runId, "finished");
      const messages = await messagesOf(scene);
      expect(messages.map(({ type }) => type)).toEqual(["human", "ai", "tool", "human", "ai", "tool", "ai"]);
      // Nobody saw it run: the model is not told that it did, nor that it was cancelled.
      expect(messages[2]?.text).not.toMatch(/cancel/i);
      expect(await scene.payments.charges(scene.customer)).toHaveLength(1);
      expect(await scene.payments.charges("cus_stock")).toHaveLength(0);
    });
  });
});

describe("a user's own pg.Pool", () => {
  it("serves the worker and is open when the worker has stopped", async () => {
    await stage.play(async (scene) => {
      const pool = new pg.Pool({ connectionString: scene.databaseUrl, max: 4, application_name: "theirs" });
      try {
        const worker = await scene.healthy({ pool });
        const runId = await scene.send("charge");
        await scene.runIs(runId, "finished");
        await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
        const { rows } = await scene.pool.query(
          "select distinct application_name as name from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and application_name <> ''",
        );
        expect(rows).toEqual([{ name: "theirs" }]);
        await worker.stop();
        expect(pool.ended).toBe(false);
        expect((await pool.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
      } finally {
        await pool.end();
      }
    });
  });
});

const traced = (endpoint: string) => ({
  OTEL_SDK_DISABLED: "false",
  OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
  REPRISE_SAMPLE_SHARE: "1",
});

/** Starts a charge in a process and freezes it there: the provider has made the charge, the reply is not read. */
async function frozenInCharge(scene: CrashScene, agent: string, pauseMs: number) {
  const child = scene.child(undefined, traced(sink.endpoint));
  await child.started;
  await scene.payments.arm({ kind: "commit_then_stall", holdMs: 1_000, customer: scene.customer, times: 1 });
  const runId = await scene.send(agent, { pauseMs });
  await scene.payments.nextHeld({ customer: scene.customer, timeoutMs: 60_000 });
  child.signal("SIGSTOP");
  return { child, runId };
}

/** The root span of a delivery as it was exported by whoever exported it. */
async function rootOf(scene: CrashScene, deliveryId: string) {
  return scene.until("the root span", async () =>
    sink
      .spans()
      .find((span) => span.attributes["agent.delivery_id"] === deliveryId && span.name.startsWith("process ")),
  );
}

describe("a worker frozen past its lease", () => {
  it.concurrent("and thawed while another one runs stores nothing, is lost, and has charged once", async () => {
    await stage.play(async (scene) => {
      const { child, runId } = await frozenInCharge(scene, "pause", 5_000);
      await scene.healthy();
      // The second worker has taken the charge over and waits in its next tool.
      await scene.until(
        "the second worker's pause",
        async () => Number((await scene.row(runId))?.["latest_step"]) >= 3,
      );
      const [stale] = await scene.deliveries(runId);
      const wroteBefore = await checkpointsOf(scene, stale?.["delivery_id"]);
      child.signal("SIGCONT");
      await scene.until("the stale worker's end of it", async () => child.log().includes('"outcome":"lease_lost"'));
      expect(await scene.row(runId)).toMatchObject({ status: "running" });
      await scene.runIs(runId, "finished");
      await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
      expect(await checkpointsOf(scene, stale?.["delivery_id"])).toEqual(wroteBefore);
      await expectStory(scene, runId, [
        ["lost", "none", null],
        ["finished", "visibility_expired", 1],
      ]);
      expect(await scene.row(runId)).toMatchObject({ lost_deliveries: 1, failed_deliveries: 0 });
      expect(await scene.charges()).toEqual(["created", "replayed"]);
      expect((await messagesOf(scene)).map(({ type }) => type)).toEqual(["human", "ai", "tool", "ai", "tool", "ai"]);
      expect(await scene.leases()).toBe(0);
      // Its obituary went out under its span id, so its own root leaves under another one and says so.
      const root = await rootOf(scene, String(stale?.["delivery_id"]));
      expect(root.attributes).toMatchObject({ "agent.superseded": true, "agent.outcome": "lease_lost" });
      expect(root.spanId).not.toBe(stale?.["root_span_id"]);
    });
  });

  it.concurrent("and thawed alone ends the delivery as lease_lost, and goes on in the next one", async () => {
    await stage.play(async (scene) => {
      const { child, runId } = await frozenInCharge(scene, "charge", 0);
      await scene.until("the visibility's end", async () => (await visible(scene)) === 1);
      child.signal("SIGCONT");
      await scene.runIs(runId, "finished");
      await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
      await expectStory(scene, runId, [
        ["lease_lost", "none", null],
        ["finished", "lease_lost", 1],
      ]);
      // A frozen worker is nobody's fault, and this one told of it itself.
      expect(await scene.row(runId)).toMatchObject({ lost_deliveries: 0, failed_deliveries: 0 });
      expect(await scene.payments.charges(scene.customer)).toHaveLength(1);
      const [first] = await scene.deliveries(runId);
      const root = await rootOf(scene, String(first?.["delivery_id"]));
      expect(root.attributes).toMatchObject({ "agent.outcome": "lease_lost" });
      expect(root.attributes).not.toHaveProperty(["agent.superseded"]);
    });
  });
});

/** The deadline of its own lease also stops a thawed worker; these freeze it where only the fence in PostgreSQL is left. */
describe("a worker frozen with a checkpoint under way", () => {
  const charged = "select reprise\\.settle_effect";
  it.concurrent.each([
    // The first transaction after the charge stores its writes, the second one the checkpoint.
    ["before its transaction began", { when: "before", what: "^BEGIN$", armedBy: charged, nth: 2, signal: "SIGSTOP" }],
    [
      "before its transaction was committed",
      { when: "before", what: "^COMMIT .*checkpoints$", armedBy: charged, signal: "SIGSTOP" },
    ],
  ] as const)("and thawed while another one runs stores nothing: %s", async (_name, kill) => {
    await stage.play(async (scene) => {
      const child = scene.child(kill);
      await child.started;
      const runId = await scene.send("pause", { pauseMs: 6_000 });
      await scene.until("the freeze", async () => child.isFrozen());
      const [stale] = await scene.deliveries(runId);
      expect(await checkpointsOf(scene, stale?.["delivery_id"])).toHaveLength(3);
      await scene.healthy();
      // From step 1, with the charge's writes that were stored, to the model's next call.
      await scene.until(
        "the second worker's pause",
        async () => Number((await scene.row(runId))?.["latest_step"]) >= 3,
      );
      child.signal("SIGCONT");
      await scene.until("the stale worker's end of it", async () => child.log().includes('"outcome":"lease_lost"'));
      await scene.runIs(runId, "finished");
      await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
      expect(await checkpointsOf(scene, stale?.["delivery_id"])).toHaveLength(3);
      await expectStory(scene, runId, [
        ["lost", "none", null],
        ["finished", "visibility_expired", 1],
      ]);
      expect(await scene.charges()).toEqual(["created"]);
      expect((await messagesOf(scene)).map(({ type }) => type)).toEqual(["human", "ai", "tool", "ai", "tool", "ai"]);
    });
  });
});

async function checkpointsOf(scene: CrashScene, deliveryId: unknown): Promise<readonly string[]> {
  const { rows } = await scene.pool.query<{ id: string }>(
    "select checkpoint_id as id from checkpoints where metadata->>'delivery_id' = $1 order by checkpoint_id",
    [deliveryId],
  );
  return rows.map(({ id }) => id);
}

/** Messages that the next receive would get. */
async function visible(scene: CrashScene): Promise<number> {
  const { Attributes } = await scene.client.send(
    new GetQueueAttributesCommand({ QueueUrl: scene.queueUrl, AttributeNames: ["All"] }),
  );
  return Number(Attributes?.ApproximateNumberOfMessages);
}
