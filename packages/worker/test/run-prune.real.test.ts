// Prune against a real database with LangGraph's own tables: what goes, what stays, and how much it frees.

import { HumanMessage } from "@langchain/core/messages";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { acquireFence } from "@reprise/tools";
import type pg from "pg";
import { describe, expect, it } from "vitest";
import { countPrunable, type PruneOptions, prune } from "../src/run-prune.ts";
import { scene } from "./scene.ts";

const DAY_MS = 86_400_000;
const options: PruneOptions = { olderThanMs: 30 * DAY_MS, checkpointSchema: "public" };

async function addRun(
  pool: pg.Pool,
  run: { readonly id: string; readonly thread: string; readonly status?: string; readonly days?: number },
): Promise<void> {
  const { id, thread, status = "finished", days = 40 } = run;
  await pool.query(
    `insert into reprise.runs (run_id, thread_id, agent, status, input_hash, queue_url, body, ended_at)
     values ($1, $2, 'a', $3, 'h', 'q', '{}', case when $3 in ('queued', 'running', 'interrupted') then null else now() - $4 * interval '1 day' end)`,
    [id, thread, status, days],
  );
  await pool.query(
    `insert into reprise.deliveries (delivery_id, sqs_message_id, run_id, thread_id, worker, trace_id, root_span_id, ended_at)
     values ($1, 'm', $2, $3, 'w', '0', '0', now() - $4 * interval '1 day')`,
    [`d-${id}`, id, thread, days],
  );
}

async function addEffect(
  pool: pg.Pool,
  effect: {
    readonly key: string;
    readonly thread: string;
    readonly state?: string;
    readonly retentionDays?: number;
    readonly days?: number;
  },
): Promise<void> {
  const { key, thread, state = "done", retentionDays = null, days = 500 } = effect;
  await pool.query(
    `insert into reprise.effects (key, thread_id, tool, tool_call_id, args_fingerprint, policy, retention_ms, state, nonce, fence, holder,
       lease_until, first_claim_at, run_id, delivery_id, node_attempt, settled_at)
     values ($1, $2, 'pay', $1, 'f', 'once', $3, $4, 'n', 1, 'h', now(), now() - $5 * interval '1 day', 'r', 'd', 1,
       case when $4 in ('done', 'failed') then now() - $5 * interval '1 day' end)`,
    [key, thread, retentionDays === null ? null : retentionDays * DAY_MS, state, days],
  );
}

/** 41 human messages of 5 KB on one thread, each its own invocation, as a stock saver stores them. */
async function converse(pool: pg.Pool, thread: string, turns = 41): Promise<void> {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("listen", async () => ({}))
    .addEdge(START, "listen")
    .compile({ checkpointer: new PostgresSaver(pool) });
  for (let turn = 0; turn < turns; turn += 1) {
    // Random text, which PostgreSQL cannot compress away: letters of a real conversation compress to about a half.
    const text = Array.from({ length: 5_000 }, () => String.fromCharCode(97 + Math.floor(Math.random() * 26))).join("");
    await graph.invoke(
      { messages: [new HumanMessage(text)] },
      { configurable: { thread_id: thread }, durability: "sync" },
    );
  }
}

async function rowsOf(pool: pg.Pool, thread: string): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(
    `select ((select count(*) from checkpoints where thread_id = $1) + (select count(*) from checkpoint_blobs where thread_id = $1)
       + (select count(*) from checkpoint_writes where thread_id = $1))::int as n`,
    [thread],
  );
  return rows[0]?.n ?? -1;
}

const idsOf = async (pool: pg.Pool, sql: string): Promise<unknown[]> =>
  (await pool.query(sql)).rows.map((row) => Object.values(row)[0]);

describe("prune", () => {
  it("frees what 41 messages of 5 KB have grown to, many times their text, and counts it first (E05)", async () => {
    const { pool } = await scene();
    await converse(pool, "t");
    await converse(pool, "stock", 2);
    await addRun(pool, { id: "r", thread: "t" });
    const text = 41 * 5_000;
    const counted = await countPrunable(pool, options);
    // Cumulative messages: the n-th checkpoint holds n of them, so the growth is quadratic.
    expect(counted.checkpoint_bytes).toBeGreaterThan(10 * text);
    expect(counted).toMatchObject({ runs: 1, deliveries: 1, threads: 1 });
    expect(await rowsOf(pool, "t")).toBeGreaterThan(41);
    const pruned = await prune(pool, options);
    expect(pruned).toEqual(counted);
    expect(await rowsOf(pool, "t")).toBe(0);
    expect(await idsOf(pool, "select run_id from reprise.runs")).toEqual([]);
    expect(await idsOf(pool, "select delivery_id from reprise.deliveries")).toEqual([]);
    expect(await idsOf(pool, "select 1 from reprise.thread_leases")).toEqual([]);
    // A thread that no run of ours has is somebody else's.
    expect(await rowsOf(pool, "stock")).toBeGreaterThan(0);
    console.log(
      `E05: ${text} bytes of text were ${counted.checkpoint_bytes} bytes in ${counted.checkpoints} checkpoints, ${counted.checkpoint_blobs} blobs, ${counted.checkpoint_writes} writes`,
    );
  });

  it("keeps the checkpoints of a thread that has a younger or an unfinished run, and drops the old run's rows (E05)", async () => {
    const { pool } = await scene();
    for (const [thread, status, days] of [
      ["younger", "finished", 3],
      ["waits", "interrupted", 0],
      ["parked", "parked", 90],
    ] as const) {
      await converse(pool, thread, 2);
      await addRun(pool, { id: `old-${thread}`, thread });
      await addRun(pool, { id: `new-${thread}`, thread, status, days });
    }
    const counted = await countPrunable(pool, options);
    const pruned = await prune(pool, options);
    expect(pruned).toEqual(counted);
    expect(pruned).toMatchObject({ runs: 3, deliveries: 3, threads: 0, checkpoints: 0 });
    expect(await idsOf(pool, "select run_id from reprise.runs order by 1")).toEqual([
      "new-parked",
      "new-waits",
      "new-younger",
    ]);
    for (const thread of ["younger", "waits", "parked"]) expect(await rowsOf(pool, thread)).toBeGreaterThan(0);
  });

  it("works in batches and leaves the ledger alone unless its own age is given (E05)", async () => {
    const { pool } = await scene();
    for (let at = 0; at < 7; at += 1) await addRun(pool, { id: `r${at}`, thread: `t${at}` });
    await addEffect(pool, { key: "old", thread: "t0" });
    expect(await prune(pool, { ...options, batch: 3 })).toMatchObject({ runs: 7, threads: 7, effects: 0 });
    expect(await idsOf(pool, "select key from reprise.effects")).toEqual(["old"]);
  });

  it("prunes only calls that are settled, old, past their provider's memory and of no unfinished run (E05)", async () => {
    const { pool } = await scene();
    await addRun(pool, { id: "live", thread: "live", status: "interrupted" });
    await addEffect(pool, { key: "old", thread: "gone" });
    await addEffect(pool, { key: "failed", thread: "gone", state: "failed" });
    await addEffect(pool, { key: "unknown", thread: "gone", state: "unknown" });
    await addEffect(pool, { key: "reserved", thread: "gone", state: "reserved" });
    await addEffect(pool, { key: "young", thread: "gone", days: 300 });
    await addEffect(pool, { key: "remembered", thread: "gone", retentionDays: 600 });
    await addEffect(pool, { key: "live", thread: "live" });
    const chosen = { ...options, effectsOlderThanMs: 400 * DAY_MS };
    expect(await countPrunable(pool, chosen)).toMatchObject({ effects: 2 });
    expect(await prune(pool, chosen)).toMatchObject({ effects: 2 });
    expect(await idsOf(pool, "select key from reprise.effects order by 1")).toEqual([
      "live",
      "remembered",
      "reserved",
      "unknown",
      "young",
    ]);
  });

  it("skips a thread that somebody holds, and a run whose completion is still to be sent", async () => {
    const { pool } = await scene();
    await converse(pool, "held", 1);
    await addRun(pool, { id: "held", thread: "held" });
    await acquireFence(pool, { threadId: "held", runId: "other", deliveryId: "d", owner: "w", leaseMs: 60_000 });
    await addRun(pool, { id: "told", thread: "told" });
    await pool.query(
      `insert into reprise.completions (completion_id, run_id, queue_url, reply_to, status) values ('c', 'told', 'q', 'q2', 'finished')`,
    );
    expect(await prune(pool, options)).toMatchObject({ threads: 0, threads_skipped: 1 });
    expect(await rowsOf(pool, "held")).toBeGreaterThan(0);
    expect(await idsOf(pool, "select run_id from reprise.runs")).toContain("told");
  });

  it("drops deliveries of runs that never were and messages redriven long ago, and keeps what is parked", async () => {
    const { pool } = await scene();
    await addRun(pool, { id: "x", thread: "t" });
    await pool.query("delete from reprise.runs");
    await pool.query(
      `insert into reprise.parked (sqs_message_id, queue_url, code, reason, body, message_attributes, trace_id, parked_at, redriven_at)
       values ('m1', 'q', 'C', 'r', '', '{}', '0', now() - interval '90 days', now() - interval '89 days'),
         ('m2', 'q', 'C', 'r', '', '{}', '0', now() - interval '90 days', null)`,
    );
    expect(await prune(pool, options)).toMatchObject({ deliveries: 1, parked: 1 });
    expect(await idsOf(pool, "select sqs_message_id from reprise.parked")).toEqual(["m2"]);
  });
});
