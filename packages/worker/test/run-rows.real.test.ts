// Admission and end on a real database: when a free thread is taken in the same statement, and what an end writes under which fence.
import { acquireFence } from "@reprise/tools";
import pg from "pg";
import { describe, expect, it } from "vitest";
import { endDeliveries } from "../src/delivery-end.ts";
import { decideAdmission, type RunStatus } from "../src/run.ts";
import { type AdmitDelivery, type Admitted, admitDeliveries } from "../src/run-rows.ts";
import { type Scene, scene } from "./scene.ts";

const FAULT_LIMIT = 5;

interface Wish {
  readonly run?: string;
  readonly thread?: string;
  readonly hash?: string;
  readonly message?: string;
  readonly receiveCount?: number;
}

function admission(deliveryId: string, wish: Wish = {}): AdmitDelivery {
  const { run = "r", thread = "t", hash = "h", message = "m", receiveCount = 1 } = wish;
  return {
    start: {
      deliveryId,
      sqsMessageId: message,
      receiveCount,
      runId: run,
      threadId: thread,
      worker: "w",
      traceId: "a".repeat(32),
      rootSpanId: "b".repeat(16),
    },
    asked: { kind: "run", agent: "steps", inputHash: hash, body: '{"text":"\\u0000"}', queueUrl: "q" },
    take: { leaseMs: 60_000, faultLimit: FAULT_LIMIT, graphFingerprint: "g" },
  };
}

async function admit(pool: pg.Pool, asked: AdmitDelivery): Promise<Admitted> {
  const admitted = (await admitDeliveries(pool, [asked])).get(asked.start.deliveryId);
  if (admitted === undefined) throw new Error("the answer does not mention the delivery");
  return admitted;
}

/** Every lease has run out, as after a worker's death. */
const expire = (pool: pg.Pool) => pool.query("update reprise.thread_leases set expires_at = clock_timestamp()");

describe("an admission", () => {
  it("writes the delivery row with its fence before any work, and takes a free thread, in one statement (C18)", async () => {
    const s = await scene();
    const admitted = await admit(s.pool, admission("d1"));
    expect(admitted).toMatchObject({ state: "taken", begun: { lost: [], faults: 0, lostWork: [] } });
    const { rows } = await s.pool.query(
      `select d.fence = l.fence as fenced, d.cause, r.status, r.graph_fingerprint, l.expires_at > now() + interval '50 s' as leased
       from reprise.deliveries d join reprise.runs r using (run_id) join reprise.thread_leases l using (delivery_id)`,
    );
    expect(rows).toEqual([{ fenced: true, cause: "none", status: "running", graph_fingerprint: "g", leased: true }]);
  });

  it("finds an earlier delivery that died, ends its row as lost and counts it: two of them leave two (C18)", async () => {
    const s = await scene();
    await admit(s.pool, admission("d1"));
    await expire(s.pool);
    await admit(s.pool, admission("d2", { receiveCount: 2 }));
    await expire(s.pool);
    const third = await admit(s.pool, admission("d3", { receiveCount: 3 }));
    expect(third).toMatchObject({ state: "taken", begun: { faults: 2, lost: [{ deliveryId: "d2", fenced: true }] } });
    expect((await s.deliveries("r")).map((row) => row["outcome"])).toEqual(["lost", "lost", null]);
  });

  it("asked again after a lost reply has the same fence, one row, and is not its own earlier delivery", async () => {
    const s = await scene();
    const first = await admit(s.pool, admission("d1"));
    const again = await admit(s.pool, admission("d1"));
    if (first.state !== "taken" || again.state !== "taken") throw new Error("not taken");
    expect(again.fence).toBe(first.fence);
    expect(again.evidence.earlier).toEqual([]);
    expect(await s.deliveries("r")).toHaveLength(1);
  });

  it("gives one thread to one of many that ask in one statement, and each its own answer", async () => {
    const s = await scene();
    const asked = ["a", "b", "c"].map((name) => admission(`d-${name}`, { run: `r-${name}` }));
    const other = admission("d-x", { run: "r-x", thread: "t2" });
    const answers = await admitDeliveries(s.pool, [...asked, other]);
    expect([...answers.keys()].sort()).toEqual(["d-a", "d-b", "d-c", "d-x"]);
    const taken = [...answers].filter(([, { state }]) => state === "taken").map(([id]) => id);
    expect(taken).toEqual(["d-a", "d-x"]);
    for (const [id, answer] of answers) {
      if (answer.state !== "unknown") expect(answer.evidence.run.runId).toBe(id.replace("d-", "r-"));
    }
  });

  it("takes nothing where decideAdmission would not take it as it is", async () => {
    const statuses: readonly RunStatus[] = [
      "queued",
      "running",
      "interrupted",
      "finished",
      "failed",
      "cancelled",
      "parked",
    ];
    const s = await scene();
    let number = 0;
    for (const status of statuses) {
      for (const change of ["nothing", "hash", "lease", "lower", "faults"] as const) {
        number += 1;
        const names = { run: `r${number}`, thread: `t${number}` };
        await prepare(s, { ...names, status, change });
        const asked = admission(`d${number}`, { ...names, ...(change === "hash" ? { hash: "other" } : {}) });
        const admitted = await admit(s.pool, asked);
        if (admitted.state === "unknown") throw new Error("a run is always known");
        const decided = decideAdmission({
          ...admitted.evidence,
          request: { inputHash: change === "hash" ? "other" : "h", onBusy: "enqueue", supersede: true },
          sqsMessageId: "m",
          faultLimit: FAULT_LIMIT,
        });
        const plain = decided.state === "take" && !decided.reopen && decided.supersedes.length === 0;
        expect([status, change, admitted.state]).toEqual([status, change, plain ? "taken" : "known"]);
      }
    }
  });

  it("waits for no open transaction of a holder: others of its statement would wait with it", async () => {
    const s = await scene();
    await admit(s.pool, admission("d1"));
    await expire(s.pool);
    const frozen = new pg.Client({ connectionString: s.config.databaseUrl });
    frozen.on("error", () => undefined);
    await frozen.connect();
    await frozen.query("begin");
    // As assert_fence locks it, without the limit that would end this transaction: who waited for it would wait for ever.
    await frozen.query("select 1 from reprise.thread_leases where thread_id = 't' for share");
    await frozen.query("update reprise.runs set latest_step = 1 where run_id = 'r'");
    const answers = await admitDeliveries(s.pool, [
      admission("d2", { receiveCount: 2 }),
      admission("d3", { run: "r3", thread: "t3" }),
    ]);
    expect([answers.get("d2")?.state, answers.get("d3")?.state]).toEqual(["known", "taken"]);
    await frozen.end();
  });
});

async function prepare(
  s: Scene,
  row: { run: string; thread: string; status: RunStatus; change: "nothing" | "hash" | "lease" | "lower" | "faults" },
): Promise<void> {
  const insert = (run: string, status: RunStatus) =>
    s.pool.query(
      `insert into reprise.runs (run_id, thread_id, agent, status, input_hash, body, queue_url) values ($1, $2, 'steps', $3, 'h', '', 'q')`,
      [run, row.thread, status],
    );
  if (row.change === "lower") await insert(`${row.run}-lower`, "interrupted");
  await insert(row.run, row.status);
  if (row.change === "faults")
    await s.pool.query("update reprise.runs set lost_deliveries = $2 where run_id = $1", [row.run, FAULT_LIMIT]);
  if (row.change === "lease") {
    const lease = { threadId: row.thread, runId: row.run, deliveryId: "another", owner: "o", leaseMs: 60_000 };
    await acquireFence(s.pool, lease);
  }
}

describe("an end", () => {
  async function begun(s: Scene, deliveryId: string, wish: Wish = {}): Promise<{ threadId: string; fence: string }> {
    const admitted = await admit(s.pool, admission(deliveryId, wish));
    if (admitted.state !== "taken") throw new Error("not taken");
    return { threadId: wish.thread ?? "t", fence: admitted.fence };
  }

  it("marks the run, ends the row and gives the thread back in one statement, each delivery by its own", async () => {
    const s = await scene();
    const one = await begun(s, "d1", { run: "r1", thread: "t1" });
    const two = await begun(s, "d2", { run: "r2", thread: "t2" });
    const answers = await endDeliveries(s.pool, [
      { deliveryId: "d1", outcome: "finished", release: one, finished: { runId: "r1", result: '"one"' } },
      { deliveryId: "d2", outcome: "handback", reason: "SIGTERM", release: two },
    ]);
    expect(Object.fromEntries(answers)).toMatchObject({
      d1: { held: true, ended: true },
      d2: { held: true, ended: true },
    });
    expect(await s.run("r1")).toMatchObject({ status: "finished", result: '"one"', ended_at: expect.any(Date) });
    expect(await s.run("r2")).toMatchObject({ status: "running", result: null });
    expect((await s.deliveries("r2"))[0]).toMatchObject({ outcome: "handback", outcome_reason: "SIGTERM" });
    expect((await s.pool.query("select 1 from reprise.thread_leases")).rowCount).toBe(0);
  });

  it("writes nothing for a delivery that lost its thread, neither run nor row", async () => {
    const s = await scene();
    const old = await begun(s, "d1");
    await expire(s.pool);
    await begun(s, "d2", { receiveCount: 2 });
    const answers = await endDeliveries(s.pool, [
      { deliveryId: "d1", outcome: "finished", release: old, finished: { runId: "r", result: "1" } },
    ]);
    expect(answers.get("d1")).toMatchObject({ held: false, ended: false });
    expect(await s.run("r")).toMatchObject({ status: "running", result: null });
    expect((await s.deliveries("r")).map((row) => row["outcome"])).toEqual(["lost", null]);
    expect((await s.pool.query("select delivery_id from reprise.thread_leases")).rows).toEqual([{ delivery_id: "d2" }]);
  });

  it("is not undone by an admission that saw the run just before it", async () => {
    const s = await scene();
    const release = await begun(s, "d1");
    await endDeliveries(s.pool, [
      { deliveryId: "d1", outcome: "finished", release, finished: { runId: "r", result: "1" } },
    ]);
    const late = await admit(s.pool, admission("d2", { receiveCount: 2 }));
    expect(late).toMatchObject({ state: "known", evidence: { run: { status: "finished" } } });
    expect(await s.run("r")).toMatchObject({ status: "finished" });
  });
});
