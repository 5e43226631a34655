// The Postgres ledger: the shared meaning over a real server, and what its tables keep as proof.

import { randomUUID } from "node:crypto";
import { PRODUCT } from "@reprise/tracing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EffectClaim } from "../src/effect.ts";
import { PostgresLedger } from "../src/effect-postgres.ts";
import { RESULT_BYTES_MAX, storeResult } from "../src/effect-result.ts";
import type { ResultStore } from "../src/effect-result-store.ts";
import { openDatabase, type TestDatabase } from "./database.ts";
import { describeLedger, type LedgerHarness } from "./effect-suite.ts";

const { schema } = PRODUCT;
let database: TestDatabase;
beforeAll(async () => {
  database = await openDatabase();
});
afterAll(() => database.close());

describeLedger("the Postgres ledger", {
  races: 200,
  claimers: 50,
  open: async () => suiteHarness(new PostgresLedger(database.pool)),
});

function suiteHarness(ledger: PostgresLedger): LedgerHarness {
  return {
    ledger,
    counted: () => ledger.flush(),
    advance: async (ms) => {
      await database.pool.query(
        `update ${schema}.effects set lease_until = lease_until - $1::bigint * interval '1 millisecond',
           first_claim_at = first_claim_at - $1::bigint * interval '1 millisecond'`,
        [ms],
      );
    },
    setThreadFence: async (threadId, fence) => {
      await database.pool.query(`delete from ${schema}.thread_leases where thread_id = $1`, [threadId]);
      if (fence === undefined) return;
      await database.pool.query(
        `insert into ${schema}.thread_leases values ($1, 'run', 'delivery', 'owner', $2, clock_timestamp() + interval '1 hour')`,
        [threadId, fence],
      );
    },
    close: async () => undefined,
  };
}

describe("the rows of the Postgres ledger", () => {
  const claimOf = (key: string, changes: Partial<EffectClaim> = {}): EffectClaim => ({
    key,
    owner: { threadId: "t", assistantMessageId: "m", position: 0, tool: "charge", toolCallId: "c" },
    argsFingerprint: "f",
    policy: "keyed",
    retentionMs: 86_400_000,
    leaseMs: 0,
    nonce: randomUUID(),
    holder: "h",
    execution: { runId: "run", deliveryId: "d1", receiveCount: 2, nodeAttempt: 3 },
    ...changes,
  });
  const executionsOf = async (key: string) =>
    (await database.pool.query(`select * from ${schema}.effect_executions where key = $1 order by fence`, [key])).rows;

  it("writes no execution row for a key that is executed once", async () => {
    const key = randomUUID();
    const ledger = new PostgresLedger(database.pool);
    const decision = await ledger.claim(claimOf(key));
    if (!("fence" in decision)) throw new Error("not won");
    await ledger.settle({ key, fence: decision.fence, outcome: "done", result: storeResult(1) });
    await ledger.claim(claimOf(key));
    expect(await executionsOf(key)).toEqual([]);
    const row = await database.pool.query(`select * from ${schema}.effects where key = $1`, [key]);
    expect(row.rows[0]).toMatchObject({
      run_id: "run",
      delivery_id: "d1",
      receive_count: 2,
      node_attempt: 3,
      first_outcome: "done",
    });
    expect(row.rows[0].first_ended_at).not.toBeNull();
  });

  it("keeps a late first completion with its provider request id: proof of two executions", async () => {
    const key = randomUUID();
    const ledger = new PostgresLedger(database.pool);
    const first = await ledger.claim(claimOf(key));
    const second = await ledger.claim(claimOf(key, { execution: { runId: "run", deliveryId: "d2", nodeAttempt: 1 } }));
    if (!("fence" in first) || !("fence" in second)) throw new Error("not won");
    const done = { key, outcome: "done", result: storeResult({ id: "ch" }) } as const;
    await ledger.settle({ ...done, fence: second.fence, providerRequestId: "req_2" });
    await ledger.settle({ ...done, fence: first.fence, providerRequestId: "req_1" });
    expect(await executionsOf(key)).toMatchObject([
      {
        fence: first.fence,
        decision: "execute",
        delivery_id: "d1",
        late: true,
        outcome: "done",
        provider_request_id: "req_1",
      },
      {
        fence: second.fence,
        decision: "resend",
        delivery_id: "d2",
        late: false,
        outcome: "done",
        provider_request_id: "req_2",
      },
    ]);
  });

  it("marks a late second completion too", async () => {
    const key = randomUUID();
    const ledger = new PostgresLedger(database.pool);
    await ledger.claim(claimOf(key));
    const second = await ledger.claim(claimOf(key));
    await ledger.claim(claimOf(key));
    if (!("fence" in second)) throw new Error("not won");
    await ledger.settle({ key, fence: second.fence, outcome: "unknown", detail: "x" });
    expect(await executionsOf(key)).toMatchObject([
      { fence: second.fence, late: true, outcome: "unknown" },
      { late: false },
    ]);
  });

  it("stores a result of the full 64 KB inline, and one byte more by hash and length, never a stuck row", async () => {
    const ledger = new PostgresLedger(database.pool);
    for (const length of [RESULT_BYTES_MAX - 2, RESULT_BYTES_MAX - 1]) {
      const key = randomUUID();
      const decision = await ledger.claim(claimOf(key));
      if (!("fence" in decision)) throw new Error("not won");
      await ledger.settle({ key, fence: decision.fence, outcome: "done", result: storeResult("x".repeat(length)) });
      const row = await ledger.find(key);
      expect(row?.state).toBe("done");
      expect(row?.result?.kind).toBe(length === RESULT_BYTES_MAX - 2 ? "value" : "too_large");
    }
  });

  it("replays a result above 64 KB from the user's store, and says so when it has none", async () => {
    const objects = new Map<string, Uint8Array>();
    const results: ResultStore = {
      put: async (key, bytes) => {
        objects.set(key, bytes);
        return key;
      },
      get: async (ref) => objects.get(ref) ?? Promise.reject(new Error("gone")),
    };
    const key = randomUUID();
    const ledger = new PostgresLedger(database.pool, { results });
    const decision = await ledger.claim(claimOf(key));
    if (!("fence" in decision)) throw new Error("not won");
    const value = `${"x".repeat(RESULT_BYTES_MAX)}\0\uD800`;
    await ledger.settle({ key, fence: decision.fence, outcome: "done", result: storeResult(value) });
    expect(await ledger.claim(claimOf(key))).toMatchObject({
      kind: "replay",
      result: { kind: "value", json: JSON.stringify(value) },
    });
    expect((await ledger.find(key))?.result).toMatchObject({ kind: "value" });
    const without = await new PostgresLedger(database.pool).claim(claimOf(key));
    expect(without).toMatchObject({ kind: "replay", result: { kind: "too_large", ref: key } });
    expect(without).not.toHaveProperty("result.json");
  });

  it("keeps the completion on its page: it changes no indexed column (HOT)", async () => {
    const client = await database.pool.connect();
    try {
      const updates = async (): Promise<{ readonly all: number; readonly hot: number }> => {
        await client.query("select pg_stat_force_next_flush()");
        const { rows } = await client.query(
          `select n_tup_upd::int as all, n_tup_hot_upd::int as hot from pg_stat_user_tables
           where schemaname = $1 and relname = 'effects'`,
          [schema],
        );
        return rows[0];
      };
      const ledger = new PostgresLedger(client);
      const before = await updates();
      for (let call = 0; call < 40; call += 1) {
        const key = randomUUID();
        const decision = await ledger.claim(claimOf(key));
        if (!("fence" in decision)) throw new Error("not won");
        const result = storeResult({ id: "ch_1", status: "succeeded" });
        await ledger.settle({ key, fence: decision.fence, outcome: "done", result, effectRef: "ch_1" });
      }
      const after = await updates();
      // Repeats that other tests' ledgers count meanwhile are updates too, and of the same kind.
      const updated = after.all - before.all;
      expect(updated).toBeGreaterThanOrEqual(40);
      // A page that is full takes its last row's new version elsewhere, whatever the indexes.
      expect(after.hot - before.hot).toBeGreaterThan(updated - 10);
    } finally {
      client.release();
    }
  });

  it("answers a repeat of a settled call without a write, and counts it a moment later", async () => {
    const key = randomUUID();
    const ledger = new PostgresLedger(database.pool, { countMs: 60_000 });
    const decision = await ledger.claim(claimOf(key));
    if (!("fence" in decision)) throw new Error("not won");
    await ledger.settle({ key, fence: decision.fence, outcome: "done", result: storeResult(1) });
    const stored = async () =>
      (await database.pool.query(`select seen, xmin::text, ctid::text from ${schema}.effects where key = $1`, [key]))
        .rows[0];
    const settled = await stored();
    expect(await ledger.claim(claimOf(key))).toMatchObject({ kind: "replay", seen: 2 });
    expect(await ledger.claim(claimOf(key))).toMatchObject({ kind: "replay", seen: 3 });
    expect(await stored()).toEqual(settled);
    await ledger.flush();
    expect(await stored()).toMatchObject({ seen: 3 });
    expect(ledger.seenDropped).toBe(0);
  });

  it("claims and settles in one statement each, without session state: a pooler of whatever kind may stand between", async () => {
    const key = randomUUID();
    const statements: { readonly text: string; readonly values: number }[] = [];
    const ledger = new PostgresLedger({
      query: (text, values) => {
        statements.push({ text, values: values?.length ?? 0 });
        return database.pool.query(text, values);
      },
    });
    const decision = await ledger.claim(claimOf(key));
    if (!("fence" in decision)) throw new Error("not won");
    await ledger.settle({ key, fence: decision.fence, outcome: "done", result: storeResult(1) });
    await ledger.claim(claimOf(key));
    expect(statements).toHaveLength(3);
    // Named statements, advisory locks, temporary tables and settings would outlive the transaction.
    for (const { text } of statements) expect(text).not.toMatch(/prepare|advisory|temp|set_config|^set /i);
  });

  it("checks a fence of another thread when a subagent works on a thread of its own", async () => {
    await database.pool.query(
      `insert into ${schema}.thread_leases values ('parent', 'r', 'd', 'o', 99, clock_timestamp() + interval '1 hour')`,
    );
    const ledger = new PostgresLedger(database.pool);
    const execution = { runId: "r", deliveryId: "d", nodeAttempt: 1, threadFence: 99n };
    expect(await ledger.claim(claimOf(randomUUID(), { execution }))).toEqual({ kind: "fenced" });
    expect(
      await ledger.claim(claimOf(randomUUID(), { execution: { ...execution, fencedThreadId: "parent" } })),
    ).toMatchObject({ kind: "execute" });
  });
});
