// A real worker process killed at each point of ARCHITECTURE.md's table; what comes next is what the table says.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sweepLost } from "../src/delivery-sweep.ts";
import { gate } from "./crash-gate.ts";
import type { Kill } from "./crash-kill.ts";
import { CRASH_POINTS, type CrashPointId } from "./crash-points.ts";
import { answer, type CrashScene, expectStory, openStage, type Stage } from "./crash-scene.ts";

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage?.close());

/** How a run of `charge` whose worker died once ends under the next worker. */
interface Ended {
  /** `[outcome, cause, resumed_from_step]` of each delivery, oldest first. */
  readonly story: readonly (readonly unknown[])[];
  /** What the provider answered to each request. */
  readonly charges: readonly string[];
  readonly executions: number;
  readonly faults: number;
}

const created = ["created"];
const once = { charges: created, executions: 1 };
/** The victim's row says where it began, too: it was fresh. */
const lostFresh = (step: number | null): Ended["story"] => [
  ["lost", "none", null],
  ["finished", "visibility_expired", step],
];

type Killed =
  | "received"
  | "begun"
  | "checkpointing"
  | "model"
  | "claimed"
  | "committed"
  | "settled"
  | "writes"
  | "ended"
  | "marked";

const ENDED: Readonly<Record<Killed, Ended>> = {
  received: { ...once, story: [["finished", "phantom_receive", null]], faults: 0 },
  begun: { ...once, story: lostFresh(null), faults: 1 },
  checkpointing: { ...once, story: lostFresh(0), faults: 1 },
  model: { ...once, story: lostFresh(1), faults: 1 },
  claimed: { charges: created, executions: 2, story: lostFresh(1), faults: 1 },
  committed: { charges: ["created", "replayed"], executions: 2, story: lostFresh(1), faults: 1 },
  settled: { ...once, story: lostFresh(1), faults: 1 },
  writes: { ...once, story: lostFresh(1), faults: 1 },
  ended: { ...once, story: lostFresh(null), faults: 1 },
  // biome-ignore format: one line a point
  marked: { ...once, story: [["finished", "none", null], ["settled", null, null]], faults: 0 },
};

/** Sends a run of `charge`, lets its worker die there, and gives it to a healthy one. */
async function playCharge(scene: CrashScene, kill: Kill, ended: Ended): Promise<void> {
  const runId = await scene.send("charge");
  await scene.died(scene.child(kill));
  await scene.healthy();
  await scene.runIs(runId, "finished");
  await restored(scene);
  await expectStory(scene, runId, ended.story);
  expect(await scene.charges()).toEqual(ended.charges);
  expect(await scene.row(runId)).toMatchObject({ lost_deliveries: ended.faults, failed_deliveries: 0 });
  const effects = await scene.pool.query("select state, executions from reprise.effects");
  expect(effects.rows).toEqual([{ state: "done", executions: ended.executions }]);
  // What no next delivery ends is the sweep's, and of a run that is over it counts no fault.
  const open = ended.story.filter(([outcome]) => outcome === null).length;
  expect(await sweepLost(scene.pool, 0)).toHaveLength(open);
  expect(await scene.row(runId)).toMatchObject({ lost_deliveries: ended.faults });
  // Whoever ends a lost row tells its story, and nobody else does.
  expect(scene.obituaries).toHaveLength(ended.story.filter(([outcome]) => outcome === "lost").length);
}

/** One charge, no message, no live lease: what every point demands. */
async function restored(scene: CrashScene): Promise<void> {
  await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
  await scene.until("the lease to be gone", async () => (await scene.leases()) === 0);
  expect(await scene.payments.charges(scene.customer)).toHaveLength(1);
}

const PLAYS: Readonly<Record<Exclude<CrashPointId, Killed>, (scene: CrashScene, kill: Kill) => Promise<void>>> = {
  failed: async (scene, kill) => {
    const runId = await scene.send("broken");
    await scene.died(scene.child(kill));
    expect(await scene.row(runId)).toMatchObject({ status: "running", failed_deliveries: 1, lost_deliveries: 0 });
    await scene.healthy({ settings: { REPRISE_FAULT_LIMIT: "3" } });
    // The death is the second fault, and the next failure the third.
    const run = await scene.runIs(runId, "parked");
    expect(run).toMatchObject({ error_code: "FAULT_LIMIT", lost_deliveries: 1, failed_deliveries: 2 });
    await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
    await expectStory(scene, runId, [
      ["lost", "none", null],
      ["parked", "visibility_expired", 0],
    ]);
  },

  "parked-message": async (scene, kill) => {
    await scene.sendBody("no run at all");
    await scene.died(scene.child(kill));
    expect((await scene.pool.query("select receive_count from reprise.parked")).rows).toEqual([{ receive_count: 1 }]);
    await scene.healthy();
    await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
    const { rows } = await scene.pool.query("select code, receive_count, body from reprise.parked");
    expect(rows).toEqual([{ code: "MESSAGE_NOT_JSON", receive_count: 2, body: Buffer.from("no run at all") }]);
  },

  "parked-run": async (scene, kill) => {
    const settings = { REPRISE_FAULT_LIMIT: "1" };
    const runId = await scene.send("broken");
    await scene.died(scene.child(kill, settings));
    expect(await scene.row(runId)).toMatchObject({ status: "parked", error_code: "FAULT_LIMIT" });
    await scene.healthy({ settings });
    await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
    await expectStory(scene, runId, [
      [null, "none", null],
      ["settled", null, null],
    ]);
    expect(await scene.row(runId)).toMatchObject({ status: "parked", lost_deliveries: 0 });
    expect((await scene.pool.query("select code from reprise.parked")).rows).toEqual([{ code: "FAULT_LIMIT" }]);
  },

  "parked-deleted": async (scene, kill) => {
    const runId = await scene.send("broken");
    await scene.died(scene.child(kill, { REPRISE_FAULT_LIMIT: "1" }));
    expect(await scene.queued()).toBe(0);
    await scene.until("the lease to have run out", async () => (await scene.leases()) === 0);
    expect(await sweepLost(scene.pool, 0)).toHaveLength(1);
    await expectStory(scene, runId, [["lost", "none", null]]);
    expect(await scene.row(runId)).toMatchObject({ status: "parked", lost_deliveries: 0 });
  },

  "waiting-marked": async (scene, kill) => {
    const { second, open } = await behindAnother(scene, kill);
    expect(await scene.queued()).toBe(2);
    await scene.healthy();
    await scene.until("the second message to be gone", async () => (await scene.queued()) === 1);
    open();
    await scene.runIs(second, "finished");
    await restored(scene);
    await expectStory(scene, second, [
      ["waiting", null, null],
      ["waiting", null, null],
      ["finished", "none", null],
    ]);
    const receives = (await scene.deliveries(second)).map((row) => row["receive_count"]);
    // The re-sent message is a new one to SQS.
    expect(receives).toEqual([1, 2, 1]);
    expect(await scene.row(second)).toMatchObject({ lost_deliveries: 0, waiting_since: null });
  },

  "waiting-deleted": async (scene, kill) => {
    const { second, open } = await behindAnother(scene, kill);
    expect(await scene.queued()).toBe(1);
    open();
    await scene.runIs(second, "finished");
    await restored(scene);
    await expectStory(scene, second, [
      ["waiting", null, null],
      ["finished", "none", null],
    ]);
    expect(await scene.row(second)).toMatchObject({ lost_deliveries: 0 });
  },

  "waiting-resent": async (scene, kill) => {
    const child = scene.child(kill, { REPRISE_CONCURRENCY: "2" });
    const first = await scene.send("pause", { pauseMs: 2_000 });
    await scene.runIs(first, "running");
    const second = await scene.send("charge");
    await scene.died(child);
    expect(await scene.row(first)).toMatchObject({ status: "finished" });
    expect(await scene.row(second)).toMatchObject({ status: "queued", resent_at: expect.any(Date) });
    expect(await scene.queued()).toBe(0);
    await scene.pool.query("update reprise.runs set resent_at = resent_at - interval '61 seconds' where run_id = $1", [
      second,
    ]);
    await scene.healthy();
    await scene.runIs(second, "finished");
    await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
    expect(await scene.payments.charges(scene.customer)).toHaveLength(2);
    await expectStory(scene, second, [
      ["waiting", null, null],
      ["finished", "none", null],
    ]);
  },

  interrupted: async (scene, kill) => {
    const runId = await scene.send("ask");
    await scene.died(scene.child(kill));
    await scene.healthy();
    await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
    expect(await scene.row(runId)).toMatchObject({ status: "interrupted", lost_deliveries: 0 });
    await answer(scene, runId);
    await scene.runIs(runId, "finished");
    await restored(scene);
    await expectStory(scene, runId, [
      ["interrupted", "none", null],
      ["settled", null, null],
      ["finished", "none", 1],
    ]);
  },

  "answer-admitted": (scene, kill) => playAnswer(scene, kill, { died: "unbegun" }),
  "answer-leased": (scene, kill) => playAnswer(scene, kill, { died: "unbegun" }),
  "answer-recorded": (scene, kill) => playAnswer(scene, kill, { died: "recorded" }),
  "answer-used": (scene, kill) => playAnswer(scene, kill, { died: "used" }),

  "handed-back": async (scene, kill) => {
    await scene.payments.arm({ kind: "commit_then_stall", holdMs: 1_500, customer: scene.customer, times: 1 });
    const runId = await scene.send("charge");
    const child = scene.child(kill);
    await scene.payments.nextHeld({ customer: scene.customer, timeoutMs: 60_000 });
    child.signal("SIGTERM");
    await scene.died(child);
    await expectStory(scene, runId, [["handback", "none", null]]);
    expect(await scene.leases()).toBe(0);
    await scene.healthy();
    await scene.runIs(runId, "finished");
    await restored(scene);
    await expectStory(scene, runId, [
      ["handback", "none", null],
      ["finished", "handback", 2],
    ]);
    expect(await scene.charges()).toEqual(created);
    expect(await scene.row(runId)).toMatchObject({ lost_deliveries: 0, failed_deliveries: 0 });
    expect(scene.obituaries).toEqual([]);
  },
};

/** A healthy worker with one slot stands in a first run; the victim takes a second one of the same thread and dies. */
async function behindAnother(
  scene: CrashScene,
  kill: Kill,
): Promise<{ readonly second: string; readonly open: () => void }> {
  const { agent, open } = gate();
  await scene.healthy({ agents: [agent], settings: { REPRISE_CONCURRENCY: "1" } });
  const first = await scene.send("gate");
  await scene.runIs(first, "running");
  const second = await scene.send("charge", { runId: `second-${randomUUID()}` });
  await scene.died(scene.child(kill));
  expect(await scene.row(second)).toMatchObject({ status: "queued", waiting_since: expect.any(Date) });
  return { second, open };
}

async function playAnswer(
  scene: CrashScene,
  kill: Kill,
  at: { readonly died: "unbegun" | "recorded" | "used" },
): Promise<void> {
  const unbegun = at.died === "unbegun";
  const child = scene.child(kill);
  const runId = await scene.send("ask");
  await scene.runIs(runId, "interrupted");
  await scene.until("the question's message to be gone", async () => (await scene.queued()) === 0);
  await answer(scene, runId);
  await scene.died(child);
  const answers = await scene.pool.query("select used_at is not null as used from reprise.answers");
  expect(answers.rows).toEqual(unbegun ? [] : [{ used: at.died === "used" }]);
  await scene.healthy();
  await scene.runIs(runId, "finished");
  await restored(scene);
  await expectStory(scene, runId, [
    ["interrupted", "none", null],
    unbegun ? ["lost", null, null] : ["lost", "none", 1],
    ["finished", "visibility_expired", 1],
  ]);
  expect(await scene.charges()).toEqual(created);
  expect(await scene.row(runId)).toMatchObject({ lost_deliveries: unbegun ? 0 : 1 });
}

function isKilledCharge(id: CrashPointId): id is Killed {
  return id in ENDED;
}

describe("a worker killed between", () => {
  it.concurrent.each(CRASH_POINTS)("$between", async ({ id, kill }) => {
    await stage.play((scene) => (isKilledCharge(id) ? playCharge(scene, kill, ENDED[id]) : PLAYS[id](scene, kill)));
  });

  it.concurrent("a call's claim and its end, at the fault limit: the run is parked, not driven once more", async () => {
    await stage.play(async (scene) => {
      const runId = await scene.send("charge");
      await scene.died(scene.child({ when: "after", what: "select reprise\\.claim_effect" }));
      await scene.healthy({ settings: { REPRISE_FAULT_LIMIT: "1" } });
      const run = await scene.runIs(runId, "parked");
      expect(run).toMatchObject({ error_code: "FAULT_LIMIT", lost_deliveries: 1, failed_deliveries: 0 });
      await scene.until("the message to be gone", async () => (await scene.queued()) === 0);
      await expectStory(scene, runId, [
        ["lost", "none", null],
        ["parked", "visibility_expired", null],
      ]);
      expect(await scene.charges()).toEqual([]);
    });
  });
});
