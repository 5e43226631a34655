// The ledger on a real server beside a bare table of rows of the same size: what the ledger benchmarks compare.

import { randomBytes } from "node:crypto";
import { openPool } from "@reprise/dev-stack";
import {
  acquireFence,
  type ClaimDecision,
  deriveKey,
  type EffectClaim,
  type Fence,
  fingerprintArgs,
  migrate,
  PostgresLedger,
  storeResult,
  toolsMigrations,
} from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import type pg from "pg";
import { requireWork } from "./errors.ts";

const THREAD_ID = "thread_4711";
const ARGS = { customer: "cus_0001", amount: 1212, currency: "eur", memo: "invoice 2026-11, three seats" };
/** What a charge is answered with: about as much as a provider says that a model should know. */
const RESULT = storeResult({ id: "ch_000000000001", amount: 1212, currency: "eur", status: "succeeded" });

export interface LedgerScene {
  readonly pool: pg.Pool;
  /** Claims a new key and settles it, as the dispatcher does around a tool's body. Resolves to milliseconds. */
  claimAndComplete(): Promise<number>;
  /** Inserts a bare row of a claim's size and updates it to a settlement's, each in its own commit. */
  insertAndUpdate(): Promise<number>;
  /** A settled call whose key is claimed again and again. */
  settledKey(): Promise<SettledKey>;
  close(): Promise<void>;
}

export interface SettledKey {
  /** Milliseconds of a claim that ends in the recorded result. */
  replay(): Promise<number>;
  /** Milliseconds of a select of that row by its key. */
  select(): Promise<number>;
  /** How often the ledger says that the key was claimed. */
  seen(): Promise<number>;
}

/** `clients`: connections, all opened here, so that no round pays for one. */
export async function openLedger(databaseUrl: string, clients: number): Promise<LedgerScene> {
  const pool = openPool(databaseUrl, { max: clients, min: clients });
  pool.on("error", () => undefined);
  await migrate(pool, toolsMigrations);
  const fence = await takeThread(pool);
  const ledger = new PostgresLedger(pool);
  await openConnections(pool, clients);
  const bare = await openBare(pool, await rowSizes(pool, ledger, fence));
  return {
    pool,
    claimAndComplete: async () => {
      const claim = newClaim(fence);
      return timed(async () => complete(ledger, claim));
    },
    insertAndUpdate: async () => {
      const key = deriveKey(THREAD_ID, randomBytes(12).toString("hex"));
      return timed(() => bare(key));
    },
    settledKey: () => settledKey(pool, ledger, newClaim(fence)),
    close: () => pool.end(),
  };
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

// As a worker's run has it: every claim is checked against the fence of its thread.
async function takeThread(pool: pg.Pool): Promise<Fence> {
  const request = { threadId: THREAD_ID, runId: "run_1", deliveryId: "delivery_1", owner: "bench", leaseMs: 3_600_000 };
  const answer = await acquireFence(pool, request);
  requireWork("fence" in answer, "the thread of a fresh database was taken");
  return answer.fence;
}

async function openConnections(pool: pg.Pool, clients: number): Promise<void> {
  const connected = await Promise.all(Array.from({ length: clients }, () => pool.connect()));
  for (const client of connected) client.release();
}

function newClaim(fence: Fence): EffectClaim {
  const toolCallId = `call_${randomBytes(12).toString("hex")}`;
  return {
    key: deriveKey(THREAD_ID, toolCallId),
    owner: { threadId: THREAD_ID, assistantMessageId: "msg_0001", position: 0, tool: "create_charge", toolCallId },
    argsFingerprint: fingerprintArgs(ARGS),
    policy: "keyed",
    retentionMs: 86_400_000,
    leaseMs: 35_000,
    nonce: randomBytes(16).toString("hex"),
    holder: "worker-7f9c:41",
    execution: { runId: "run_1", deliveryId: "delivery_1", receiveCount: 1, nodeAttempt: 1, threadFence: fence },
  };
}

async function complete(ledger: PostgresLedger, claim: EffectClaim): Promise<void> {
  const decision: ClaimDecision = await ledger.claim(claim);
  requireWork(decision.kind === "execute", `a new key was answered with ${decision.kind}`);
  const { key } = claim;
  const answer = await ledger.settle({
    key,
    fence: decision.fence,
    outcome: "done",
    result: RESULT,
    effectRef: "ch_1",
  });
  requireWork(answer.recorded, "a settlement came late");
}

interface RowSizes {
  readonly claimed: number;
  readonly settled: number;
}

/** Bytes of a row of ours after the claim and after the settlement: what the bare rows are padded to. */
async function rowSizes(pool: pg.Pool, ledger: PostgresLedger, fence: Fence): Promise<RowSizes> {
  const claim = newClaim(fence);
  const size = async (): Promise<number> => {
    const sql = `select pg_column_size(e.*) as size from ${PRODUCT.schema}.effects e where key = $1`;
    return (await pool.query<{ size: number }>(sql, [claim.key])).rows[0]?.size ?? 0;
  };
  const decision = await ledger.claim(claim);
  requireWork(decision.kind === "execute", "the sample row was not new");
  const claimed = await size();
  await ledger.settle({ key: claim.key, fence: decision.fence, outcome: "done", result: RESULT, effectRef: "ch_1" });
  return { claimed, settled: await size() };
}

/** Tuple header, key and the length words of the two texts. */
const BARE_OVERHEAD_BYTES = 24 + 33 + 8;

async function openBare(pool: pg.Pool, sizes: RowSizes): Promise<(key: string) => Promise<void>> {
  await pool.query("create table bare (key text primary key, body text not null, result text) with (fillfactor = 70)");
  const body = "b".repeat(Math.max(sizes.claimed - BARE_OVERHEAD_BYTES, 1));
  const result = "r".repeat(Math.max(sizes.settled - sizes.claimed, 1));
  return async (key) => {
    await pool.query("insert into bare (key, body) values ($1, $2)", [key, body]);
    const { rowCount } = await pool.query("update bare set result = $2 where key = $1", [key, result]);
    requireWork(rowCount === 1, "the bare update found no row");
  };
}

async function settledKey(pool: pg.Pool, ledger: PostgresLedger, claim: EffectClaim): Promise<SettledKey> {
  await complete(ledger, claim);
  const { key } = claim;
  const select = `select * from ${PRODUCT.schema}.effects where key = $1`;
  return {
    // A fresh nonce each: another dispatch of the same call, not a repeated question.
    replay: () => {
      const again = { ...claim, nonce: randomBytes(16).toString("hex") };
      return timed(async () => {
        const decision = await ledger.claim(again);
        requireWork(decision.kind === "replay", `a settled key was answered with ${decision.kind}`);
      });
    },
    select: () =>
      timed(async () => {
        requireWork((await pool.query(select, [key])).rows.length === 1, "the select found no row");
      }),
    seen: async () => {
      await ledger.flush();
      return (await ledger.find(key))?.seen ?? 0;
    },
  };
}
