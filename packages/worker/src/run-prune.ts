// Prune: rows and checkpoints of runs that are over and old, in batches, never what a run could still need.
import { randomUUID } from "node:crypto";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { acquireFence, fencedPool, releaseFence } from "@reprise/tools";
import type pg from "pg";
import { z } from "zod";
import {
  COUNT_SQL,
  countCheckpointsSql,
  DELETE_EFFECTS_SQL,
  DELETE_OLD_ROWS_SQL,
  DELETE_RUNS_SQL,
  THREAD_IS_OVER_SQL,
  THREADS_SQL,
} from "./run-prune-sql.ts";

export interface PruneOptions {
  /** Runs that ended longer ago, and threads of which every run did. */
  readonly olderThanMs: number;
  /** Calls of the ledger that were settled longer ago. Absent: none, they live as long as the money they describe. */
  readonly effectsOlderThanMs?: number;
  /** Schema of LangGraph's tables. */
  readonly checkpointSchema: string;
  /** Rows of one statement. Default 500: no lock is held for long, and a killed prune has done its batches. */
  readonly batch?: number;
}

export interface Pruned {
  runs: number;
  deliveries: number;
  answers: number;
  parked: number;
  threads: number;
  checkpoints: number;
  checkpoint_blobs: number;
  checkpoint_writes: number;
  /** Stored size of the checkpoints' values; PostgreSQL reuses it after its next vacuum. */
  checkpoint_bytes: number;
  effects: number;
  effect_executions: number;
  /** Old threads that somebody held or took up meanwhile; the next prune looks again. */
  threads_skipped: number;
}

const BATCH = 500;
/** Held while one thread's checkpoints are deleted: a run that comes meanwhile waits so long at most. */
const LEASE_MS = 60_000;

const NOTHING: Pruned = {
  runs: 0,
  deliveries: 0,
  answers: 0,
  parked: 0,
  threads: 0,
  checkpoints: 0,
  checkpoint_blobs: 0,
  checkpoint_writes: 0,
  checkpoint_bytes: 0,
  effects: 0,
  effect_executions: 0,
  threads_skipped: 0,
};

const countsSchema = z.record(z.string(), z.coerce.number());

/** What `prune` would do now. */
export async function countPrunable(pool: pg.Pool, options: PruneOptions): Promise<Pruned> {
  const counts = await pool.query(COUNT_SQL, [options.olderThanMs, options.effectsOlderThanMs ?? null]);
  const total = { ...NOTHING };
  add(total, counts.rows[0]);
  for await (const threadIds of oldThreads(pool, options)) {
    const checkpoints = await pool.query(countCheckpointsSql(options.checkpointSchema), [threadIds]);
    add(total, { ...checkpoints.rows[0], threads: threadIds.length });
  }
  return total;
}

/**
 * Checkpoints first: killed in between, the next prune still finds their threads by the run rows. Safe beside working workers
 * and beside itself.
 */
export async function prune(pool: pg.Pool, options: PruneOptions): Promise<Pruned> {
  const total = { ...NOTHING };
  for await (const threadIds of oldThreads(pool, options)) {
    for (const threadId of threadIds) add(total, await pruneThread(pool, threadId, options));
  }
  const { olderThanMs, effectsOlderThanMs, batch = BATCH } = options;
  await repeat(pool, { sql: DELETE_RUNS_SQL, values: [olderThanMs, batch], into: total });
  await repeat(pool, { sql: DELETE_OLD_ROWS_SQL, values: [olderThanMs, batch], into: total });
  if (effectsOlderThanMs !== undefined) {
    await repeat(pool, { sql: DELETE_EFFECTS_SQL, values: [effectsOlderThanMs, batch], into: total });
  }
  return total;
}

/** Threads of which every run is over and old, a batch at a time. */
async function* oldThreads(
  pool: pg.Pool,
  { olderThanMs, batch = BATCH }: PruneOptions,
): AsyncGenerator<readonly string[]> {
  let after = "";
  for (;;) {
    const { rows } = await pool.query<{ thread_id: string }>(THREADS_SQL, [olderThanMs, batch, after]);
    const threadIds = rows.map((row) => row.thread_id);
    if (threadIds.length > 0) yield threadIds;
    const last = threadIds.at(-1);
    if (last === undefined || threadIds.length < batch) return;
    after = last;
  }
}

/** As the thread's one writer: a run that is admitted meanwhile is deferred, and then finds the thread empty, never half of it. */
async function pruneThread(pool: pg.Pool, threadId: string, options: PruneOptions): Promise<Partial<Pruned>> {
  const taken = await acquireFence(pool, {
    threadId,
    runId: "prune",
    deliveryId: randomUUID(),
    owner: "prune",
    leaseMs: LEASE_MS,
  });
  if (!("fence" in taken)) return { threads_skipped: 1 };
  const fence = { threadId, fence: taken.fence };
  try {
    const { rows } = await pool.query<{ over: boolean }>(THREAD_IS_OVER_SQL, [threadId, options.olderThanMs]);
    if (rows[0]?.over !== true) return { threads_skipped: 1 };
    const counted = await pool.query(countCheckpointsSql(options.checkpointSchema), [[threadId]]);
    const saver = new PostgresSaver(fencedPool(pool, fence), undefined, { schema: options.checkpointSchema });
    await saver.deleteThread(threadId);
    return { ...countsSchema.parse(counted.rows[0]), threads: 1 };
  } finally {
    await releaseFence(pool, fence);
  }
}

interface Repeated {
  readonly sql: string;
  readonly values: readonly unknown[];
  readonly into: Pruned;
}

/** Until a batch finds nothing. */
async function repeat(pool: pg.Pool, { sql, values, into }: Repeated): Promise<void> {
  for (;;) {
    const { rows } = await pool.query(sql, [...values]);
    if (add(into, rows[0]) === 0) return;
  }
}

/** @returns how much was added */
function add(total: Pruned, counts: unknown): number {
  let sum = 0;
  const read = countsSchema.parse(counts);
  for (const name of Object.keys(NOTHING)) {
    const count = read[name] ?? 0;
    // Each name is a key of Pruned: it comes from one.
    total[name as keyof Pruned] += count;
    sum += count;
  }
  return sum;
}
