// Obituaries: read before the run goes on, sent without being waited for, bounded, and never a reason to stop.
import { MemoryLedger } from "@reprise/tools";
import type { LostDelivery } from "@reprise/tracing";
import { describe, expect, it } from "vitest";
import { Burial, type BurialOptions } from "../src/delivery-bury.ts";
import type { LostDeliveryRow } from "../src/delivery-rows.ts";
import { createLogger } from "../src/log.ts";

const row: LostDeliveryRow = {
  deliveryId: "d",
  sqsMessageId: "m",
  receiveCount: undefined,
  worker: "gone:1",
  traceId: "a".repeat(32),
  rootSpanId: "b".repeat(16),
  startedAtMs: 1,
  lastBeatAtMs: undefined,
  fenced: true,
};
const run = { runId: "r", threadId: "t", agent: "billing" };

function burialWith(options: Partial<BurialOptions>): Burial {
  return new Burial({
    pool: { query: async () => ({ rows: [], rowCount: 0 }) },
    ledger: new MemoryLedger(),
    checkpointSchema: "public",
    queue: "runs",
    wallNow: () => 2,
    log: createLogger("silent"),
    exportObituary: async () => undefined,
    ...options,
  });
}

describe("a burial", () => {
  it("does not wait for a collector that never answers", async () => {
    const burial = burialWith({ exportObituary: () => new Promise(() => undefined) });
    await burial.bury(row, run);
  });

  it("drops and counts what exceeds the bound on its way", async () => {
    const told: LostDelivery[] = [];
    let release: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const burial = burialWith({
      pendingMax: 2,
      exportObituary: async (lost) => {
        await gate;
        told.push(lost);
      },
    });
    for (let n = 0; n < 5; n += 1) await burial.bury(row, run);
    release();
    await burial.settle();
    expect(told).toHaveLength(2);
    expect(burial.dropped).toBe(3);
  });

  it("rejects neither when the export fails nor when the evidence cannot be read", async () => {
    await burialWith({ exportObituary: () => Promise.reject(new Error("collector gone")) }).bury(row, run);
    await burialWith({ pool: { query: () => Promise.reject(new Error("database gone")) } }).bury(row, run);
  });

  it("tells no receive count where SQS gave none", async () => {
    const told: LostDelivery[] = [];
    const burial = burialWith({ exportObituary: async (lost) => void told.push(lost) });
    await burial.bury(row, run);
    await burial.settle();
    expect(told[0]).not.toHaveProperty("receiveCount");
    expect(told[0]).toMatchObject({
      traceId: row.traceId,
      rootSpanId: row.rootSpanId,
      agentName: "billing",
      foundAtMs: 2,
    });
  });
});
