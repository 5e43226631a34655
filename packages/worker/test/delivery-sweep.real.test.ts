// The sweep on a real database: who is lost beyond doubt, who is not, and what is told of them.
import { acquireFence, PostgresLedger } from "@reprise/tools";
import type { LostDelivery } from "@reprise/tracing";
import { describe, expect, it } from "vitest";
import { Burial } from "../src/delivery-bury.ts";
import { sweepLost } from "../src/delivery-sweep.ts";
import { createLogger } from "../src/log.ts";
import { scene } from "./scene.ts";

const SILENT_MS = 60_000;

async function lonely(
  pool: Awaited<ReturnType<typeof scene>>["pool"],
  row: { readonly id: string; readonly status: string; readonly fence: string | null; readonly silentSeconds: number },
): Promise<void> {
  await pool.query(
    `insert into reprise.runs (run_id, thread_id, agent, status, input_hash, body, queue_url) values ($1, $2, 'billing', $3, 'h', '{}', 'q')`,
    [`run-${row.id}`, `thread-${row.id}`, row.status],
  );
  await pool.query(
    `insert into reprise.deliveries (delivery_id, sqs_message_id, receive_count, run_id, thread_id, worker, fence, trace_id, root_span_id, started_at, last_beat)
     values ($1, 'm', 1, $2, $3, 'gone:1', $4::bigint, $5, $6, clock_timestamp() - interval '1 hour', clock_timestamp() - $7::int * interval '1 second')`,
    [row.id, `run-${row.id}`, `thread-${row.id}`, row.fence, "a".repeat(32), "b".repeat(16), row.silentSeconds],
  );
}

describe("the sweep", () => {
  it("ends a delivery that nothing brings back, once, counts its fault, and leaves the living and the finished alone", async () => {
    const { pool } = await scene();
    await lonely(pool, { id: "lost", status: "running", fence: "1", silentSeconds: 120 });
    await lonely(pool, { id: "done", status: "finished", fence: "2", silentSeconds: 120 });
    await lonely(pool, { id: "recent", status: "running", fence: "3", silentSeconds: 10 });
    const held = await acquireFence(pool, {
      threadId: "thread-held",
      runId: "r",
      deliveryId: "held",
      owner: "o",
      leaseMs: 60_000,
    });
    await lonely(pool, {
      id: "held",
      status: "running",
      fence: "fence" in held ? held.fence : null,
      silentSeconds: 120,
    });

    const [first, second] = await Promise.all([sweepLost(pool, SILENT_MS), sweepLost(pool, SILENT_MS)]);
    const swept = [...first, ...second].map(({ lost }) => lost.deliveryId).sort();
    expect(swept).toEqual(["done", "lost"]);
    const rows = await pool.query("select delivery_id, outcome from reprise.deliveries order by 1");
    expect(rows.rows).toEqual([
      { delivery_id: "done", outcome: "lost" },
      { delivery_id: "held", outcome: null },
      { delivery_id: "lost", outcome: "lost" },
      { delivery_id: "recent", outcome: null },
    ]);
    const faults = await pool.query("select run_id, lost_deliveries from reprise.runs where lost_deliveries > 0");
    expect(faults.rows).toEqual([{ run_id: "run-lost", lost_deliveries: 1 }]);
  });

  it("gives what it ended an obituary under the ids the lost worker had reserved", async () => {
    const { pool, config } = await scene();
    await lonely(pool, { id: "lost", status: "running", fence: "1", silentSeconds: 120 });
    const [swept] = await sweepLost(pool, SILENT_MS);
    if (swept === undefined) throw new Error("nothing was swept");
    const told: LostDelivery[] = [];
    const burial = new Burial({
      pool,
      ledger: new PostgresLedger(pool),
      checkpointSchema: config.checkpointSchema,
      queue: "runs",
      wallNow: Date.now,
      log: createLogger("silent"),
      exportObituary: async (lost) => void told.push(lost),
    });
    await burial.bury(swept.lost, swept.run);
    await burial.settle();
    expect(told).toEqual([
      expect.objectContaining({
        traceId: "a".repeat(32),
        rootSpanId: "b".repeat(16),
        agentName: "billing",
        receiveCount: 1,
        worker: "gone:1",
        checkpoints: [],
        openExecutions: [],
      }),
    ]);
  });
});
