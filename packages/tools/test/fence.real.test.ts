// The thread fence over a real server: one holder, numbers that only grow, a function that raises.

import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ASSERT_FENCE_SQL, acquireFence, isFenceLostError, releaseFence, renewFence } from "../src/fence.ts";
import { openDatabase, type TestDatabase } from "./database.ts";

let database: TestDatabase;
let threadId: string;
beforeAll(async () => {
  database = await openDatabase();
});
afterAll(() => database.close());
beforeEach(() => {
  threadId = randomUUID();
});

const acquire = (deliveryId: string, leaseMs = 60_000) =>
  acquireFence(database.pool, { threadId, runId: "run", deliveryId, owner: "same-name", leaseMs });
const fenceOf = async (deliveryId: string, leaseMs?: number): Promise<string> => {
  const answer = await acquire(deliveryId, leaseMs);
  if (!("fence" in answer)) throw new Error("held");
  return answer.fence;
};
const assertFence = (fence: string) => database.pool.query(ASSERT_FENCE_SQL, [threadId, fence]);

describe("acquireFence", () => {
  it("gives one holder the thread and tells the others who has it and for how long", async () => {
    await fenceOf("d1");
    const answer = await acquire("d2");
    expect(answer).toMatchObject({ heldBy: { deliveryId: "d1", runId: "run", owner: "same-name" } });
    expect("remainingMs" in answer && answer.remainingMs).toBeGreaterThan(50_000);
  });

  it("gives the same delivery the fence that it has: a lost reply is harmless", async () => {
    expect(await fenceOf("d1")).toBe(await fenceOf("d1"));
  });

  it("gives a run-out thread away under a greater number, and the old holder is refused by name or not", async () => {
    const old = await fenceOf("d1", 0);
    const fresh = await fenceOf("d2");
    expect(BigInt(fresh)).toBeGreaterThan(BigInt(old));
    expect(await renewFence(database.pool, { threadId, fence: old, leaseMs: 1_000 })).toEqual({ renewed: false });
    await expect(assertFence(old)).rejects.toSatisfy(isFenceLostError);
    await expect(assertFence(fresh)).resolves.toBeDefined();
  });

  it("gives a delivery whose lease ran out a new fence, even without a rival", async () => {
    const old = await fenceOf("d1", 0);
    expect(await fenceOf("d1")).not.toBe(old);
  });

  it("gives exactly one of many takers the thread, twenty times", async () => {
    for (let round = 0; round < 20; round += 1) {
      threadId = randomUUID();
      const answers = await Promise.all(Array.from({ length: 20 }, (_, taker) => acquire(`d${taker}`)));
      expect(answers.filter((answer) => "fence" in answer)).toHaveLength(1);
    }
  });
});

describe("renewFence and releaseFence", () => {
  it("renews a lease that ran out while nobody took it", async () => {
    const fence = await fenceOf("d1", 0);
    expect(await renewFence(database.pool, { threadId, fence, leaseMs: 60_000 })).toEqual({ renewed: true });
    expect(await acquire("d2")).toHaveProperty("heldBy");
  });

  it("frees the thread, refuses the released fence from then on, and never reuses its number", async () => {
    const fence = await fenceOf("d1");
    expect(await releaseFence(database.pool, { threadId, fence: BigInt(fence) })).toEqual({ released: true });
    expect(await releaseFence(database.pool, { threadId, fence })).toEqual({ released: false });
    await expect(assertFence(fence)).rejects.toMatchObject({ code: "RP001" });
    expect(BigInt(await fenceOf("d2"))).toBeGreaterThan(BigInt(fence));
  });

  it("makes a taker wait for the transaction that asserted the fence", async () => {
    const fence = await fenceOf("d1", 0);
    const client = await database.pool.connect();
    let taken = false;
    let taking: Promise<string> | undefined;
    try {
      await client.query("BEGIN");
      await client.query(ASSERT_FENCE_SQL, [threadId, fence]);
      taking = fenceOf("d2").finally(() => {
        taken = true;
      });
      await database.pool.query("select pg_sleep(0.1)");
      expect(taken).toBe(false);
      await client.query("COMMIT");
    } finally {
      // Closed, not given back: a failed expectation must not leave the transaction open.
      client.release(true);
    }
    expect(BigInt((await taking) ?? 0)).toBeGreaterThan(BigInt(fence));
  });
});
