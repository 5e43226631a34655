// The lease on real parts: two copies of a message in one process, a node that ignores its stop, and SQS's twelve hours.
import { expect, it } from "vitest";
import { defineAgent } from "../src/agent.ts";
import { pause } from "../src/intake-pause.ts";
import { type Clock, systemClock } from "../src/lease.ts";
import { WALL_HANDOVER } from "../src/lease-time.ts";
import { type Scene, scene } from "./scene.ts";
import { chainOf, type NodeWork } from "./scene-graph.ts";

/** Counts how often a node began, and how many of them at the most ran at the same time. */
function counted(work: NodeWork): { readonly work: NodeWork; readonly seen: { began: number; most: number } } {
  const seen = { began: 0, now: 0, most: 0 };
  return {
    seen,
    work: async (sees) => {
      seen.began += 1;
      seen.now += 1;
      seen.most = Math.max(seen.most, seen.now);
      try {
        await work(sees);
      } finally {
        seen.now -= 1;
      }
    },
  };
}

async function finished(s: Scene, runId: string): Promise<void> {
  await s.until("the run's end", async () => (await s.run(runId))?.["status"] === "finished");
  await s.until("the queue to be empty", async () => (await s.queued()) === 0);
  await s.until("every row's end", async () => (await s.deliveries(runId)).every((row) => row["ended_at"] !== null));
}

it("Q16, C01: of one message received twice by the same worker one copy works and holds it, the other is deferred", async () => {
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "6" });
  s.sqs.faults.add({ kind: "deliver_twice", remaining: 1 });
  const node = counted(() => pause(3_000, undefined));
  await s.start([defineAgent({ name: "steps", graph: chainOf({ one: node.work }) })]);
  const { runId } = await s.send({ agent: "steps", input: { log: [] } });
  await finished(s, runId);
  expect(node.seen).toMatchObject({ began: 1, most: 1 });
  // No third one: the first went on under the second's receipt handle, and its delete was one.
  expect((await s.deliveries(runId)).map((row) => row["outcome"]).sort()).toEqual(["deferred", "finished"]);
});

it("Q04, C20: a node that ignores its deadline three times over keeps its lease: no second copy begins beside it", async () => {
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "4", REPRISE_RUN_DEADLINE_SECONDS: "1" });
  let slow = true;
  const stubborn = counted(async () => {
    if (!slow) return;
    slow = false;
    await pause(4_000, undefined);
  });
  await s.start([defineAgent({ name: "steps", graph: chainOf({ stubborn: stubborn.work }) })]);
  const { runId } = await s.send({ agent: "steps", input: { log: [] } });
  await s.until("the first copy", async () => stubborn.seen.began === 1);
  // Past the deadline, and past the first visibility.
  await pause(2_500, undefined);
  expect(await s.deliveries(runId)).toMatchObject([{ ended_at: null }]);
  expect((await s.pool.query("select 1 from reprise.thread_leases")).rowCount).toBe(1);
  await finished(s, runId);
  expect(stubborn.seen).toMatchObject({ began: 2, most: 1 });
  expect((await s.deliveries(runId)).map((row) => [row["outcome"], row["outcome_code"]])).toEqual([
    ["failed_retry", "RUN_DEADLINE"],
    ["finished", null],
  ]);
});

it("C08, Q16: a run that nears SQS's twelve hours stops at its checkpoint, is handed over, and goes on in a new receive", async () => {
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "20" });
  const began: string[] = [];
  const wallNear = new AbortController();
  const graph = chainOf({
    one: async () => {
      began.push("one");
      // The hand-over is asked for while this node works.
      await pause(20_000, wallNear.signal);
    },
    two: async () => void began.push("two"),
  });
  let waits = 0;
  // The wait of nearly twelve hours is over at once for the first lease; whatever else is waited for takes its time.
  const clock: Clock = {
    now: systemClock.now,
    after: (ms, run) => {
      if (Math.abs(ms - WALL_HANDOVER.askMs) > 60_000 || waits > 0) return systemClock.after(ms, run);
      waits += 1;
      return systemClock.after(1_000, () => {
        run();
        wallNear.abort();
      });
    },
  };
  await s.start([defineAgent({ name: "steps", graph })], { clock });
  const { runId } = await s.send({ agent: "steps", input: { log: [] } });
  await finished(s, runId);
  expect(began).toEqual(["one", "two"]);
  expect((await s.deliveries(runId)).map((row) => [row["outcome"], row["cause"], row["receive_count"]])).toEqual([
    ["handback", "none", 1],
    ["finished", "handback", 2],
  ]);
  expect((await s.deliveries(runId))[0]?.["outcome_reason"]).toContain("twelve hours");
  expect(await s.run(runId)).toMatchObject({ lost_deliveries: 0, failed_deliveries: 0 });
});
