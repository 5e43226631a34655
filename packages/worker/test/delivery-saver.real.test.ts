// The saver of one delivery on a real database: a stale worker stores nothing, and what its own fence makes certain is not asked again.
import { randomUUID } from "node:crypto";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { acquireFence } from "@reprise/tools";
import type pg from "pg";
import { describe, expect, it } from "vitest";
import { deliverySaver } from "../src/delivery-saver.ts";
import { admitDeliveries } from "../src/run-rows.ts";
import { type Scene, scene } from "./scene.ts";

const threadId = "t";
const latest = { configurable: { thread_id: threadId } };
const metadata = { source: "loop" as const, step: 1, parents: {} };

async function take(pool: pg.Pool, leaseMs: number): Promise<string> {
  const request = { threadId, runId: "r", deliveryId: randomUUID(), owner: "w", leaseMs };
  const answer = await acquireFence(pool, request);
  if (!("fence" in answer)) throw new Error("the thread is held");
  return answer.fence;
}

/** The statements that a saver sends besides the pool's others. */
function listened(pool: pg.Pool): { readonly pool: pg.Pool; readonly reads: () => number } {
  let reads = 0;
  const query = (text: string, values?: unknown[]): Promise<pg.QueryResult> => {
    reads += 1;
    return pool.query(text, values);
  };
  const heard = new Proxy(pool, { get: (of, key) => (key === "query" ? query : Reflect.get(of, key, of)) });
  return { pool: heard, reads: () => reads };
}

async function saverOf(s: Scene, leaseMs = 60_000) {
  const { pool, reads } = listened(s.pool);
  const fence = await take(s.pool, leaseMs);
  const { saver } = deliverySaver({ pool, schema: "public", runId: "r", threadId, fence, metadata: {} });
  const put = (step = 1) => {
    const checkpoint = emptyCheckpoint();
    return saver.put(
      { configurable: { thread_id: threadId, checkpoint_ns: "" } },
      checkpoint,
      { ...metadata, step },
      {},
    );
  };
  return { saver, put, reads };
}

async function admitRun(pool: pg.Pool): Promise<void> {
  await admitDeliveries(pool, [
    {
      start: {
        deliveryId: "d",
        sqsMessageId: "m",
        receiveCount: 1,
        runId: "r",
        threadId,
        worker: "w",
        traceId: "a".repeat(32),
        rootSpanId: "b".repeat(16),
      },
      asked: { kind: "run", agent: "steps", inputHash: "h", body: "{}", queueUrl: "q" },
      take: { leaseMs: 0, faultLimit: 5, graphFingerprint: "g" },
    },
  ]);
}

describe("the saver of a delivery", () => {
  it("stores nothing of a worker that lost its thread, and does not move the run's row", async () => {
    const s = await scene();
    await admitRun(s.pool);
    const stale = await saverOf(s, 0);
    const fresh = await saverOf(s);
    const { configurable } = await fresh.put(7);
    await expect(stale.put(8)).rejects.toMatchObject({ code: "FENCE_LOST" });
    expect((await s.run("r"))?.["latest_step"]).toBe(7);
    const tuple = await fresh.saver.getTuple(latest);
    expect(tuple?.checkpoint.id).toBe(configurable?.["checkpoint_id"]);
  });

  it("looks a new thread up once for the worker and for LangGraph, and again after a write", async () => {
    const s = await scene();
    await admitRun(s.pool);
    const { saver, put, reads } = await saverOf(s);
    expect(await saver.getTuple(latest)).toBeUndefined();
    expect(await saver.getTuple(latest)).toBeUndefined();
    expect(reads()).toBe(1);
    expect(await saver.getTuple({ configurable: { thread_id: threadId, checkpoint_ns: "sub" } })).toBeUndefined();
    expect(await saver.getTuple({ configurable: { thread_id: "another" } })).toBeUndefined();
    expect(reads()).toBe(3);
    await put();
    expect(await saver.getTuple(latest)).toBeDefined();
  });

  it("asks again where a write was on its way while it looked", async () => {
    const s = await scene();
    await admitRun(s.pool);
    const { saver, put } = await saverOf(s);
    await Promise.all([saver.getTuple(latest), put()]);
    expect(await saver.getTuple(latest)).toBeDefined();
  });
});
