// The fenced pool under the stock PostgresSaver: a stale writer stores nothing, errors keep their name, clients stay usable.

import { randomUUID } from "node:crypto";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { PRODUCT } from "@reprise/tracing";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ASSERT_FENCE_SQL, acquireFence } from "../src/fence.ts";
import { type FencedPoolOptions, fencedPool } from "../src/fence-pool.ts";
import { openDatabase, type TestDatabase } from "./database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await openDatabase();
  await new PostgresSaver(database.pool).setup();
  await database.pool.query("create table side (thread_id text, note text)");
});
const pools: pg.Pool[] = [];
afterAll(async () => {
  for (const pool of pools) await pool.end();
  await database.close();
});

/** A pool of the test's own, whose clients may be terminated. */
function openPool(pipeline: boolean, max: number): pg.Pool {
  const pool = new pg.Pool({ connectionString: database.url, max, pipeline });
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
  pools.push(pool);
  return pool;
}

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });

function chain(saver: PostgresSaver, writer: string, between: () => Promise<void> = async () => undefined) {
  return new StateGraph(State)
    .addNode("n1", async () => ({ log: [`n1${writer}`] }))
    .addNode("n2", async () => {
      await between();
      return { log: [`n2${writer}`] };
    })
    .addEdge(START, "n1")
    .addEdge("n1", "n2")
    .addEdge("n2", END)
    .compile({ checkpointer: saver });
}

async function take(threadId: string, leaseMs: number): Promise<string> {
  const answer = await acquireFence(database.pool, {
    threadId,
    runId: "r",
    deliveryId: randomUUID(),
    owner: "o",
    leaseMs,
  });
  if (!("fence" in answer)) throw new Error("held");
  return answer.fence;
}

const configOf = (threadId: string) => ({ configurable: { thread_id: threadId }, durability: "sync" as const });
const count = async (table: string, threadId: string): Promise<number> => {
  const answer = await database.pool.query(`select count(*)::int as n from ${table} where thread_id = $1`, [threadId]);
  return answer.rows[0].n as number;
};

describe("a holder that is frozen inside its transaction", () => {
  it("keeps the thread from the next one for a few seconds, not for as long as it sleeps", async () => {
    const threadId = randomUUID();
    const fence = await take(threadId, 1);
    const sleeper = new pg.Client({ connectionString: database.url });
    sleeper.on("error", () => undefined);
    await sleeper.connect();
    await sleeper.query("BEGIN");
    await sleeper.query(ASSERT_FENCE_SQL, [threadId, fence]);
    const next = await take(threadId, 60_000);
    expect(Number(next)).toBeGreaterThan(Number(fence));
    await expect(sleeper.query("COMMIT")).rejects.toThrow();
  });
});

describe.each([
  { pool: "that pipelines", pipeline: true },
  { pool: "that does not pipeline", pipeline: false },
])("fencedPool over a pool $pool", ({ pipeline }) => {
  let shared: pg.Pool;
  beforeAll(() => {
    shared = openPool(pipeline, 5);
  });
  const saverFor = (threadId: string, fence: string, options?: FencedPoolOptions, pool = shared) =>
    new PostgresSaver(fencedPool(pool, { threadId, fence }, options));

  it("lets the holder write and read as ever", async () => {
    const threadId = randomUUID();
    const graph = chain(saverFor(threadId, await take(threadId, 60_000)), "A");
    expect((await graph.invoke({ log: ["in"] }, configOf(threadId))).log).toEqual(["in", "n1A", "n2A"]);
    expect((await graph.getState(configOf(threadId))).values.log).toEqual(["in", "n1A", "n2A"]);
    expect(await count("checkpoints", threadId)).toBe(4);
  });

  it("stores nothing of a writer that lost the thread, and the newer holder's history is whole", async () => {
    const threadId = randomUUID();
    const old = await take(threadId, 0);
    let fresh = "";
    let atLoss: readonly number[] = [];
    const rows = () =>
      Promise.all(["checkpoints", "checkpoint_writes", "checkpoint_blobs"].map((table) => count(table, threadId)));
    const stale = chain(saverFor(threadId, old), "A", async () => {
      fresh = await take(threadId, 60_000);
      atLoss = await rows();
    });
    await expect(stale.invoke({ log: ["in"] }, configOf(threadId))).rejects.toMatchObject({
      code: "FENCE_LOST",
      threadId,
    });
    expect(await rows()).toEqual(atLoss);
    const graph = chain(saverFor(threadId, fresh), "B");
    expect((await graph.invoke(null, configOf(threadId))).log).toEqual(["in", "n1A", "n2B"]);
    await expect(saverFor(threadId, old).deleteThread(threadId)).rejects.toMatchObject({ code: "FENCE_LOST" });
    expect((await graph.getState(configOf(threadId))).values.log).toEqual(["in", "n1A", "n2B"]);
  });

  it("leaves every client usable after losses", async () => {
    const threadId = randomUUID();
    const pool = openPool(pipeline, 1);
    const lost = saverFor(threadId, "1", {}, pool);
    const config = { configurable: { thread_id: threadId, checkpoint_ns: "", checkpoint_id: "x" } };
    for (let round = 0; round < 5; round += 1) {
      await expect(lost.putWrites(config, [["log", 1]], "task")).rejects.toMatchObject({ code: "FENCE_LOST" });
    }
    const fence = await take(threadId, 60_000);
    await saverFor(threadId, fence, {}, pool).putWrites(config, [["log", 1]], "task");
    expect(await count("checkpoint_writes", threadId)).toBe(1);
    expect(pool.totalCount).toBe(1);
  });

  it("runs beforeCommit inside the same transaction: with the checkpoint or not at all", async () => {
    const threadId = randomUUID();
    const beforeCommit = [{ text: "insert into side values ($1, $2)", values: [threadId, "kept"] }];
    const config = { configurable: { thread_id: threadId, checkpoint_ns: "", checkpoint_id: "x" } };
    await saverFor(threadId, await take(threadId, 60_000), { beforeCommit }).putWrites(config, [["log", 1]], "task");
    expect(await count("side", threadId)).toBe(1);
    await expect(
      saverFor(threadId, "1", { beforeCommit }).putWrites(config, [["log", 2]], "task2"),
    ).rejects.toMatchObject({ code: "FENCE_LOST" });
    expect(await count("side", threadId)).toBe(1);
    const broken = [{ text: "insert into nowhere values ($1)", values: [1] }];
    const fence = (
      await database.pool.query(`select fence from ${PRODUCT.schema}.thread_leases where thread_id = $1`, [threadId])
    ).rows[0].fence as string;
    await expect(
      saverFor(threadId, fence, { beforeCommit: broken }).putWrites(config, [["log", 3]], "task3"),
    ).rejects.toMatchObject({ code: "42P01" });
    expect(await count("checkpoint_writes", threadId)).toBe(1);
  });

  it("gives the first error its say when the connection dies, and drops that client (E02)", async () => {
    const threadId = randomUUID();
    const pool = openPool(pipeline, 2);
    const fence = await take(threadId, 60_000);
    const beforeCommit = [{ text: "select pg_terminate_backend(pg_backend_pid())", values: [] }];
    const config = { configurable: { thread_id: threadId, checkpoint_ns: "", checkpoint_id: "x" } };
    const error: unknown = await saverFor(threadId, fence, { beforeCommit }, pool)
      .putWrites(config, [["log", 1]], "task")
      .catch((failure: unknown) => failure);
    // admin_shutdown; the ROLLBACK that follows fails with "Connection terminated" and no code.
    expect(error).toMatchObject({ code: "57P01" });
    await saverFor(threadId, fence, {}, pool).putWrites(config, [["log", 1]], "task");
    expect(await count("checkpoint_writes", threadId)).toBe(1);
  });

  it("stores nothing after a write that failed in the middle, and says which error it was", async () => {
    const threadId = randomUUID();
    const pool = openPool(pipeline, 1);
    const client = await fencedPool(pool, { threadId, fence: await take(threadId, 60_000) }).connect();
    await client.query("BEGIN");
    await client.query("insert into side values ($1, $2)", [threadId, "before"]);
    const failing = async () => {
      await client.query("insert into side values ($1)", ["a", "b"]);
      await client.query("insert into side values ($1, $2)", [threadId, "after"]);
      await client.query("COMMIT");
    };
    await expect(failing()).rejects.toMatchObject({ code: "08P01" });
    await client.query("ROLLBACK");
    client.release();
    expect(await count("side", threadId)).toBe(0);
    expect((await pool.query("select 1 as one")).rows[0].one).toBe(1);
    expect(pool.totalCount).toBe(1);
  });

  it("answers a read inside the transaction with its rows, those just written among them", async () => {
    const threadId = randomUUID();
    const client = await fencedPool(shared, { threadId, fence: await take(threadId, 60_000) }).connect();
    await client.query("BEGIN");
    await client.query("insert into side values ($1, $2)", [threadId, "mine"]);
    expect((await client.query("select note from side where thread_id = $1", [threadId])).rows).toEqual([
      { note: "mine" },
    ]);
    const returned = await client.query("insert into side values ($1, $2) returning note", [threadId, "back"]);
    expect(returned.rows).toEqual([{ note: "back" }]);
    await client.query("COMMIT");
    client.release();
    expect(await count("side", threadId)).toBe(2);
  });

  it("hands no open transaction to the next one: released in the middle, the connection closes", async () => {
    const threadId = randomUUID();
    const pool = openPool(pipeline, 1);
    const client = await fencedPool(pool, { threadId, fence: await take(threadId, 60_000) }).connect();
    await client.query("BEGIN");
    await client.query("insert into side values ($1, $2)", [threadId, "never"]);
    client.release();
    expect((await pool.query("select 1 as one")).rows[0].one).toBe(1);
    expect(await count("side", threadId)).toBe(0);
  });

  it("tells what a statement before the COMMIT returned only of a transaction that was stored", async () => {
    const threadId = randomUUID();
    const seen: unknown[] = [];
    const mark = { text: "insert into side values ($1, $2) returning note", values: [threadId, "m"] };
    const beforeCommit = [{ ...mark, onRows: (rows: readonly unknown[]) => seen.push(...rows) }];
    const config = { configurable: { thread_id: threadId, checkpoint_ns: "", checkpoint_id: "x" } };
    const fence = await take(threadId, 60_000);
    await saverFor(threadId, fence, { beforeCommit }).putWrites(config, [["log", 1]], "task");
    await expect(saverFor(threadId, "1", { beforeCommit }).putWrites(config, [["log", 1]], "t2")).rejects.toThrow();
    expect(seen).toEqual([{ note: "m" }]);
  });

  it("does not end the pool that it was lent", async () => {
    await saverFor("t", "1").end();
    expect((await shared.query("select 1 as one")).rows[0].one).toBe(1);
  });
});
