// A person's word on a call nobody knows the outcome of: who may say it, and what the next delivery of the call then does.
import { randomUUID } from "node:crypto";
import { PRODUCT } from "@reprise/tracing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EffectClaim, WonDecision } from "../src/effect.ts";
import { listEffects } from "../src/effect-list.ts";
import { PostgresLedger } from "../src/effect-postgres.ts";
import { storeResult } from "../src/effect-result.ts";
import { type ManualAnswer, settleManually } from "../src/effect-settle-manual.ts";
import { openDatabase, type TestDatabase } from "./database.ts";

const { schema } = PRODUCT;
let database: TestDatabase;
let ledger: PostgresLedger;
beforeAll(async () => {
  database = await openDatabase();
  ledger = new PostgresLedger(database.pool);
});
afterAll(() => database.close());

const claimOf = (key: string, changes: Partial<EffectClaim> = {}): EffectClaim => ({
  key,
  owner: { threadId: "t", assistantMessageId: "m", position: 0, tool: "charge", toolCallId: `call-${key}` },
  argsFingerprint: "f",
  policy: "once",
  leaseMs: 60_000,
  nonce: randomUUID(),
  holder: "h",
  execution: { runId: "run", deliveryId: "d", nodeAttempt: 1 },
  ...changes,
});

async function won(key: string): Promise<WonDecision> {
  const decision = await ledger.claim(claimOf(key));
  if (decision.kind !== "execute") throw new Error(`not won: ${decision.kind}`);
  return decision;
}

async function leaseOver(key: string): Promise<void> {
  await database.pool.query(`update ${schema}.effects set lease_until = now() - interval '1 second' where key = $1`, [
    key,
  ]);
}

/** The POST went out at 10:00:00, its `done` could not be written, the redelivery at 10:00:18 finds `reserved` (case B13). */
async function stuck(): Promise<{ readonly key: string; readonly fence: string }> {
  const key = randomUUID();
  const { fence } = await won(key);
  await leaseOver(key);
  return { key, fence };
}

const succeeded = ({ key, fence }: { key: string; fence: string }, resultJson?: string): Promise<ManualAnswer> =>
  settleManually(database.pool, {
    key,
    fence,
    by: "ada@ops",
    evidence: "ch_1 in the provider's log",
    outcome: "done",
    ...(resultJson === undefined ? {} : { resultJson }),
  });
const failed = ({ key, fence }: { key: string; fence: string }): Promise<ManualAnswer> =>
  settleManually(database.pool, {
    key,
    fence,
    by: "ada@ops",
    evidence: "the log has no such charge",
    outcome: "failed",
  });

describe("a call that was left reserved by a holder that is gone (B13)", () => {
  it("is unknown to the next delivery, is listed as such, and is replayed once a person has settled it (B13)", async () => {
    const call = await stuck();
    expect(await ledger.claim(claimOf(call.key))).toMatchObject({ kind: "unknown" });
    const unknown = await listEffects(database.pool, { unknown: true, max: 100 });
    expect(unknown.map((row) => row.key)).toContain(call.key);
    expect(await succeeded(call, '{"id":"ch_1"}')).toEqual({ state: "settled" });
    expect(await ledger.claim(claimOf(call.key))).toMatchObject({
      kind: "replay",
      result: { kind: "value", json: '{"id":"ch_1"}' },
    });
    expect((await listEffects(database.pool, { unknown: true, max: 100 })).map((row) => row.key)).not.toContain(
      call.key,
    );
  });

  it("replays its failure when a person has found that it did not happen", async () => {
    const call = await stuck();
    expect(await failed(call)).toEqual({ state: "settled" });
    expect(await ledger.claim(claimOf(call.key))).toMatchObject({
      kind: "replay_failure",
      detail: "A person found that this call did not take effect: the log has no such charge",
    });
  });

  it("keeps who said it, when, and how they know, after whatever was known before", async () => {
    const call = await stuck();
    await ledger.settle({ ...call, outcome: "unknown", detail: "timeout", evidence: "lookup said nothing" });
    await succeeded(call);
    const { rows } = await database.pool.query(`select * from ${schema}.effects where key = $1`, [call.key]);
    expect(rows[0]).toMatchObject({
      state: "done",
      evidence: "lookup said nothing; ada@ops: ch_1 in the provider's log",
      unknown_at: null,
      result: JSON.stringify({
        status: "done",
        detail: "A person found that this call took effect: ch_1 in the provider's log",
      }),
    });
    expect(rows[0].settled_at).toBeInstanceOf(Date);
  });
});

describe("the fence of a person's word", () => {
  it("refuses a call whose holder's lease runs", async () => {
    const key = randomUUID();
    const { fence } = await won(key);
    expect(await succeeded({ key, fence })).toEqual({ state: "refused" });
    expect(await ledger.settle({ key, fence, outcome: "done", result: storeResult(1) })).toEqual({ recorded: true });
  });

  it("refuses a call that is settled, and one that another execution has claimed since it was looked at", async () => {
    const settled = await stuck();
    await ledger.settle({ ...settled, outcome: "done", result: storeResult("own") });
    expect(await failed(settled)).toEqual({ state: "refused" });
    const call = await stuck();
    await database.pool.query(`update ${schema}.effects set fence = fence + 1000 where key = $1`, [call.key]);
    expect(await failed(call)).toEqual({ state: "refused" });
  });

  it("believes a holder that wakes and says the same, and keeps one that says the opposite as late", async () => {
    const same = await stuck();
    await succeeded(same);
    expect(await ledger.settle({ ...same, outcome: "done", result: storeResult("own") })).toEqual({ recorded: true });
    const opposite = await stuck();
    await failed(opposite);
    expect(await ledger.settle({ ...opposite, outcome: "done", result: storeResult("own") })).toEqual({
      recorded: false,
      late: true,
    });
    expect(await ledger.claim(claimOf(opposite.key))).toMatchObject({ kind: "replay_failure" });
  });

  it("takes one of two words that come at the same time", async () => {
    const call = await stuck();
    const answers = await Promise.all([succeeded(call), failed(call), failed(call), succeeded(call)]);
    expect(answers.filter(({ state }) => state === "settled")).toHaveLength(1);
  });
});

describe("the list of calls", () => {
  it("chooses by thread, age, call and key, newest first, and never shows a result", async () => {
    const thread = `t-${randomUUID()}`;
    const keys = [randomUUID(), randomUUID()];
    for (const key of keys) {
      await ledger.claim(claimOf(key, { owner: { threadId: thread, tool: "charge", toolCallId: `call-${key}` } }));
    }
    await database.pool.query(
      `update ${schema}.effects set first_claim_at = now() - interval '2 hours' where key = $1`,
      [keys[0]],
    );
    const all = await listEffects(database.pool, { threadId: thread, max: 10 });
    expect(all.map((row) => row.key)).toEqual([keys[1], keys[0]]);
    expect(all[0]).not.toHaveProperty("result");
    expect(await listEffects(database.pool, { threadId: thread, sinceMs: 3_600_000, max: 10 })).toHaveLength(1);
    expect(await listEffects(database.pool, { threadId: thread, max: 1 })).toHaveLength(1);
    for (const call of [`call-${keys[0]}`, keys[0] ?? ""]) {
      expect((await listEffects(database.pool, { call, max: 10 })).map((row) => row.key)).toEqual([keys[0]]);
    }
  });
});
