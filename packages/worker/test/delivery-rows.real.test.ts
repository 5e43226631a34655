// Which lost deliveries a begin finds, on a real database: those that count, most recent first, with what the run had then.
import { acquireFence } from "@reprise/tools";
import { describe, expect, it } from "vitest";
import { endDeliveries } from "../src/delivery-end.ts";
import { type BegunDelivery, beginDelivery, noteAlone } from "../src/delivery-rows.ts";
import { admitDeliveries, checkpointMark } from "../src/run-rows.ts";
import { scene } from "./scene.ts";

interface Rows {
  /** Admits, leases and begins a delivery of run `r`; whoever held the thread before counts as dead. */
  begin(
    deliveryId: string,
    how?: { readonly sqsMessageId?: string; readonly reopen?: boolean },
  ): Promise<BegunDelivery>;
  end(deliveryId: string, outcome: "handback" | "failed_retry" | "deferred"): Promise<void>;
  checkpoint(id: string, step: number): Promise<void>;
  alone(deliveryId: string): Promise<void>;
  parked(): Promise<void>;
}

async function rows(): Promise<Rows> {
  const { pool } = await scene();
  return {
    begin: async (deliveryId, { sqsMessageId = "m1", reopen = false } = {}) => {
      const start = {
        deliveryId,
        sqsMessageId,
        receiveCount: 1,
        runId: "r",
        threadId: "t",
        worker: "w",
        traceId: "a".repeat(32),
        rootSpanId: "b".repeat(16),
      };
      const asked = { kind: "run", agent: "steps", inputHash: "h", body: "{}", queueUrl: "q" } as const;
      await admitDeliveries(pool, [{ start, asked }]);
      await pool.query("update reprise.thread_leases set expires_at = clock_timestamp() where thread_id = 't'");
      const taken = await acquireFence(pool, { threadId: "t", runId: "r", deliveryId, owner: "w", leaseMs: 60_000 });
      if (!("fence" in taken)) throw new Error("the thread is held");
      const begun = await beginDelivery(pool, {
        runId: "r",
        deliveryId,
        fence: taken.fence,
        sqsMessageId,
        graphFingerprint: "g",
        reopen,
      });
      if (begun === undefined) throw new Error("the delivery was ended before it began");
      return begun;
    },
    end: async (deliveryId, outcome) => {
      await endDeliveries(pool, [{ deliveryId, outcome }]);
    },
    checkpoint: async (id, step) => {
      const { text, values } = checkpointMark("r", id, step);
      await pool.query(text, values);
    },
    alone: (deliveryId) => noteAlone(pool, deliveryId),
    parked: async () => {
      await pool.query("update reprise.runs set status = 'parked' where run_id = 'r'");
    },
  };
}

const stuck = { progressed: false, alone: false };
const stuckAlone = { progressed: false, alone: true };

describe("the lost deliveries that a begin finds", () => {
  it("come most recent first, those found now before those found earlier, each measured from its own begin (B09)", async () => {
    const run = await rows();
    expect((await run.begin("d1")).lostWork).toEqual([]);
    for (const step of [-1, 0, 1]) await run.checkpoint(`c${step}`, step);
    expect((await run.begin("d2")).lostWork).toEqual([{ progressed: true, alone: false }]);
    await run.alone("d2");
    expect((await run.begin("d3")).lostWork).toEqual([stuckAlone, { progressed: true, alone: false }]);
    await run.checkpoint("c2", 2);
    const moved = { progressed: true, alone: false };
    expect((await run.begin("d4")).lostWork).toEqual([moved, { progressed: true, alone: true }, moved]);
  });

  it("do not progress by their input and start alone (C18)", async () => {
    const run = await rows();
    await run.begin("d1");
    for (const step of [-1, 0]) await run.checkpoint(`c${step}`, step);
    expect((await run.begin("d2")).lostWork).toEqual([stuck]);
  });

  it("are not those that were handed back, deferred or failed", async () => {
    const run = await rows();
    for (const [index, outcome] of (["handback", "deferred", "failed_retry"] as const).entries()) {
      await run.begin(`d${index}`);
      await run.end(`d${index}`, outcome);
    }
    expect(await run.begin("d9")).toMatchObject({ lostWork: [], lost: [] });
  });

  it("are none at a redrive, and afterwards only those since", async () => {
    const run = await rows();
    await run.begin("d1");
    await run.begin("d2");
    await run.alone("d2");
    await run.parked();
    // Killed before it could end its row: found lost by the redrive, and no fault of it.
    const redriven = await run.begin("d3", { sqsMessageId: "m2", reopen: true });
    expect(redriven).toMatchObject({ lostWork: [], faults: 0 });
    expect(redriven.lost.map((lost) => lost.deliveryId)).toEqual(["d2"]);
    expect(await run.begin("d4", { sqsMessageId: "m2" })).toMatchObject({ lostWork: [stuck], faults: 1 });
  });
});
