// A run that kills its process works alone and is then parked; one that gets on, a step a delivery, is not. Real processes.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { gate } from "./crash-gate.ts";
import { type CrashScene, expectStory, openStage, type Stage } from "./crash-scene.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage?.close());

async function alone(scene: CrashScene, runId: string): Promise<readonly unknown[]> {
  return (await scene.deliveries(runId)).map((row) => row["alone"]);
}

describe("a run whose worker is lost", () => {
  it.concurrent("C18: killed by it twice, the second time alone: parked with its bytes, and its neighbour ends", async () => {
    await stage.play(async (scene) => {
      const runId = `deadly-${randomUUID()}`;
      const request = { schema: 1, run_id: runId, thread_id: `${scene.threadId}-deadly`, agent: "deadly", input: {} };
      const body = JSON.stringify(request, undefined, 2);
      const first = scene.child();
      const neighbour = await scene.send("pause", { pauseMs: 1_500 });
      await scene.runIs(neighbour, "running");
      await scene.sendBody(body);
      await scene.died(first);
      await scene.died(scene.child());
      await scene.healthy();
      const run = await scene.runIs(runId, "parked");
      expect(run).toMatchObject({ error_code: "NO_PROGRESS", lost_deliveries: 2, failed_deliveries: 0 });
      await scene.runIs(neighbour, "finished");
      await scene.until("the messages to be gone", async () => (await scene.queued()) === 0);
      const { rows } = await scene.pool.query("select run_id, code, body from reprise.parked");
      expect(rows).toEqual([{ run_id: runId, code: "NO_PROGRESS", body: Buffer.from(body) }]);
      // The message goes before the row ends (settleEnding).
      const ended = await scene.until("the last delivery's end", async () => {
        const rows = await scene.deliveries(runId);
        return rows.every((row) => row["outcome"] !== null) && rows.filter((row) => row["outcome"] !== "deferred");
      });
      expect(ended.map((row) => [row["outcome"], row["alone"]])).toEqual([
        ["lost", false],
        ["lost", true],
        ["parked", false],
      ]);
      // Its second death met nobody: the neighbour was lost with the first worker alone.
      expect(await scene.row(neighbour)).toMatchObject({ lost_deliveries: 1 });
      expect(await scene.payments.charges(scene.customer)).toHaveLength(1);
    });
  });

  it.concurrent("B09: a checkpoint on each delivery, and it goes on beside others to its end", async () => {
    await stage.play(async (scene) => {
      const runId = await scene.send("mortal");
      for (let death = 0; death < 3; death += 1) await scene.died(scene.child());
      scene.child();
      const run = await scene.runIs(runId, "finished");
      expect(run).toMatchObject({ lost_deliveries: 3, failed_deliveries: 0 });
      await expectStory(scene, runId, [
        ["lost", "none", null],
        ["lost", "visibility_expired", 1],
        ["lost", "visibility_expired", 2],
        ["finished", "visibility_expired", 3],
      ]);
      expect(await alone(scene, runId)).toEqual([false, false, false, false]);
    });
  });

  it.concurrent("is driven when the others on its worker have ended, and nothing is begun meanwhile", async () => {
    await stage.play(async (scene) => {
      const runId = await scene.send("charge");
      await scene.died(scene.child({ when: "after", what: "reprise\\.admit_delivery" }));
      const { agent, open } = gate();
      await scene.healthy({ agents: [agent] });
      const other = await scene.send("gate", { threadId: `${scene.threadId}-other` });
      await scene.runIs(other, "running");
      await scene.until("the second delivery to wait", async () =>
        (await scene.deliveries(runId)).some((row) => row["cause"] === "visibility_expired"),
      );
      const late = await scene.send("plain", { threadId: `${scene.threadId}-late` });
      expect(await scene.row(runId)).toMatchObject({ status: "running", latest_checkpoint_id: null });
      expect(await alone(scene, runId)).toEqual([false, false]);
      open();
      await scene.runIs(late, "finished");
      const run = await scene.runIs(runId, "finished");
      expect(await alone(scene, runId)).toEqual([false, true]);
      const [begun] = await scene.deliveries(late);
      expect(Number(begun?.["started_at"])).toBeGreaterThanOrEqual(Number(run["ended_at"]));
      expect(await scene.charges()).toEqual(["created"]);
    });
  });

  it.concurrent("is handed back by a drain while it waits for the others, and no fault is counted", async () => {
    await stage.play(async (scene) => {
      const runId = await scene.send("charge");
      await scene.died(scene.child({ when: "after", what: "reprise\\.admit_delivery" }));
      const { agent, open } = gate();
      const worker = await scene.healthy({ agents: [agent] });
      const other = await scene.send("gate", { threadId: `${scene.threadId}-other` });
      await scene.runIs(other, "running");
      await scene.until("the second delivery to wait", async () =>
        (await scene.deliveries(runId)).some((row) => row["cause"] === "visibility_expired"),
      );
      const stopped = worker.stop();
      await expectStory(scene, runId, [
        ["lost", "none", null],
        ["handback", "visibility_expired", null],
      ]);
      open();
      await stopped;
      expect(await scene.row(runId)).toMatchObject({ lost_deliveries: 1, failed_deliveries: 0 });
      await scene.healthy();
      await scene.runIs(runId, "finished");
      expect(await alone(scene, runId)).toEqual([false, false, true]);
    });
  });
});
