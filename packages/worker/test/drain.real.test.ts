// SIGTERM to real worker processes: what they finish, what they hand back, and that the next worker goes on from there.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { WorkerChild } from "./crash-process.ts";
import { type CrashScene, expectStory, openStage, type Stage } from "./crash-scene.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage?.close());

/** No drain ends later than this, on a machine that does other work as well. Shorter than every wait it must not sit out. */
const PROMPT_MS = 12_000;
/** Nothing here waits for a visibility, so it may be long: a worker that starts cold beside others must not lose its lease. */
const LONG = {
  REPRISE_VISIBILITY_SECONDS: "40",
  REPRISE_WAIT_SECONDS: "20",
  REPRISE_DRAIN_SECONDS: "22",
  REPRISE_FLUSH_SECONDS: "1",
};

/** How long the exit took, which must be of its own will and without an error. */
async function exitMs(child: WorkerChild, since: number): Promise<number> {
  const how = await child.exited;
  if (how !== 0) throw new Error(`the worker ended with ${how}:\n${child.log()}`);
  return performance.now() - since;
}

function term(child: WorkerChild): number {
  child.signal("SIGTERM");
  return performance.now();
}

/** Starts a charge whose reply the provider holds back, and waits until the charge is made. */
async function chargeHeld(
  scene: CrashScene,
  child: WorkerChild,
  holdMs: number | null,
): Promise<{ readonly runId: string }> {
  await child.started;
  await scene.payments.arm({ kind: "commit_then_stall", holdMs, customer: scene.customer, times: 1 });
  const runId = await scene.send("charge");
  await scene.payments.nextHeld({ customer: scene.customer, timeoutMs: 60_000 });
  return { runId };
}

/** The message is visible again, the lease gone, and the row says why. */
async function handedBack(scene: CrashScene, runId: string): Promise<void> {
  await expectStory(scene, runId, [["handback", "none", null]]);
  expect(await scene.leases()).toBe(0);
  expect(await scene.queued()).toBe(1);
}

async function goesOn(scene: CrashScene, runId: string, from: { readonly step: number }): Promise<void> {
  await scene.healthy();
  await scene.runIs(runId, "finished");
  await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
  await expectStory(scene, runId, [
    ["handback", "none", null],
    ["finished", "handback", from.step],
  ]);
  expect(await scene.row(runId)).toMatchObject({ lost_deliveries: 0, failed_deliveries: 0 });
  expect((await scene.deliveries(runId))[1]).toMatchObject({ receive_count: 2 });
  expect(await scene.payments.charges(scene.customer)).toHaveLength(1);
  expect(scene.obituaries).toEqual([]);
}

describe("a worker told to end by SIGTERM", () => {
  it.concurrent("C02: ends at once with 0 while it waits in a long poll", async () => {
    await stage.play(async (scene) => {
      const child = scene.child(undefined, LONG);
      await child.started;
      await scene.until("the long poll", async () => (scene.sqs.requests(queueOf(scene))["ReceiveMessage"] ?? 0) > 0);
      expect(await exitMs(child, term(child))).toBeLessThan(PROMPT_MS);
    });
  });

  it.concurrent("stops at the next checkpoint and hands the run back; the tool that ran is not repeated", async () => {
    await stage.play(async (scene) => {
      const child = scene.child(undefined, LONG);
      const { runId } = await chargeHeld(scene, child, 1_000);
      expect(await exitMs(child, term(child))).toBeLessThan(PROMPT_MS);
      await handedBack(scene, runId);
      await goesOn(scene, runId, { step: 2 });
      expect(await scene.charges()).toEqual(["created"]);
    });
  });

  it.concurrent("D02: hands a tool that is longer than the drain back inside its budget, charged once", async () => {
    await stage.play(async (scene) => {
      const child = scene.child(undefined, { ...LONG, REPRISE_DRAIN_SECONDS: "1" });
      const { runId } = await chargeHeld(scene, child, null);
      const took = await exitMs(child, term(child));
      expect(took).toBeGreaterThan(900);
      expect(took).toBeLessThan(PROMPT_MS);
      await handedBack(scene, runId);
      await goesOn(scene, runId, { step: 1 });
      expect(await scene.charges()).toEqual(["created", "replayed"]);
    });
  });

  it.concurrent("hands back at once when it is told a second time", async () => {
    await stage.play(async (scene) => {
      const child = scene.child(undefined, LONG);
      const { runId } = await chargeHeld(scene, child, null);
      term(child);
      await scene.until("the drain to begin", async () => child.log().includes('"stopping:'));
      expect(await exitMs(child, term(child))).toBeLessThan(PROMPT_MS);
      await handedBack(scene, runId);
      await goesOn(scene, runId, { step: 1 });
      expect(await scene.charges()).toEqual(["created", "replayed"]);
    });
  });

  it.concurrent("finishes the run that needs no more checkpoint, and deletes its message", async () => {
    await stage.play(async (scene) => {
      // Told right after the last checkpoint: nothing is left to hand back.
      const child = scene.child({ when: "before", what: "^DeleteMessageBatchCommand", signal: "SIGTERM" }, LONG);
      const runId = await scene.send("charge");
      await exitMs(child, performance.now());
      expect(await scene.row(runId)).toMatchObject({ status: "finished" });
      await expectStory(scene, runId, [["finished", "none", null]]);
      expect(await scene.queued()).toBe(0);
      expect(await scene.leases()).toBe(0);
    });
  });

  it.concurrent("C02: gives a message that arrives while it stops back unrun, at once", async () => {
    await stage.play(async (scene) => {
      const told = { when: "after", what: "^ReceiveMessageCommand.*\\(1 messages\\)", signal: "SIGTERM" } as const;
      const child = scene.child(told, LONG);
      const runId = await scene.send("charge");
      await exitMs(child, performance.now());
      expect(await scene.row(runId)).toBeUndefined();
      await scene.healthy();
      // Not after the 40 s that it was received for.
      await scene.runIs(runId, "finished");
      const [delivery] = await scene.deliveries(runId);
      // A receive that left no row: named as one, and no fault of the run.
      expect(delivery).toMatchObject({ cause: "phantom_receive", receive_count: 2 });
      expect(await scene.row(runId)).toMatchObject({ lost_deliveries: 0, failed_deliveries: 0 });
      expect(await scene.charges()).toEqual(["created"]);
    });
  });
});

function queueOf(scene: CrashScene): string {
  return scene.queueUrl.split("/").at(-1) ?? "";
}
