// Rolling restarts under load: the oldest worker gets SIGTERM, a new one takes its place, again and again, while runs stream in.
import type { WorkerProcess } from "../support/worker-process.ts";
import { type DrillOutcome, type DrillScene, sleep, withDrill } from "./drill-scene.ts";

export type RestartsReport = DrillOutcome & {
  readonly drill: "restarts";
  readonly restarts: number;
  /** Exit codes and signals of the workers told to end: all 0 when each ended by itself inside its budget. */
  readonly exits: Readonly<Record<string, number>>;
  /** From SIGTERM to exit of a worker that waited in a long poll, in ms. */
  readonly idle_exit_ms: number;
  readonly exit_ms_max: number;
  readonly seconds: number;
  readonly broken: readonly string[];
};

const WORKERS = 3;
/** The provider's reply comes this late: most runs are in a tool when their worker is told to end. */
const TOOL_MS = 300;
const ENDED_TIMEOUT_MS = 120_000;
const IDLE_EXIT_MS_MAX = 1_500;
const SETTINGS = {
  REPRISE_VISIBILITY_SECONDS: "20",
  REPRISE_WAIT_SECONDS: "20",
  REPRISE_DRAIN_SECONDS: "20",
  REPRISE_FLUSH_SECONDS: "2",
};

export async function drillRestarts(options: {
  readonly runs: number;
  readonly restarts: number;
}): Promise<RestartsReport> {
  const startedAt = performance.now();
  return withDrill({ settings: SETTINGS }, async (scene) => {
    await scene.payments.arm({ kind: "commit_then_stall", holdMs: TOOL_MS, times: null });
    const fleet = await Promise.all(Array.from({ length: WORKERS }, () => scene.worker()));
    const rolled = await roll(scene, fleet, options);
    await scene.allEnded(ENDED_TIMEOUT_MS);
    const outcome = await scene.outcome();
    const idleExitMs = await idleExit(fleet);
    const report = {
      drill: "restarts" as const,
      ...outcome,
      restarts: options.restarts,
      exits: rolled.exits,
      idle_exit_ms: idleExitMs,
      exit_ms_max: rolled.exitMsMax,
      seconds: Math.round((performance.now() - startedAt) / 100) / 10,
    };
    return { ...report, broken: brokenBy(report, options) };
  });
}

async function roll(
  scene: DrillScene,
  fleet: WorkerProcess[],
  { runs, restarts }: { readonly runs: number; readonly restarts: number },
): Promise<{ readonly exits: Record<string, number>; readonly exitMsMax: number }> {
  const exits: Record<string, number> = {};
  let exitMsMax = 0;
  for (let done = 0; done < restarts; done += 1) {
    while (scene.sent() < (runs * (done + 1)) / restarts) await scene.send();
    // Some of what was just sent is then in a tool, some in a checkpoint, some not received yet.
    await sleep(TOOL_MS / 2);
    const oldest = fleet.shift();
    if (oldest === undefined) throw new TypeError("the fleet is never empty");
    const next = scene.worker();
    const exited = await timedExit(oldest);
    exits[String(exited.how)] = (exits[String(exited.how)] ?? 0) + 1;
    exitMsMax = Math.max(exitMsMax, exited.ms);
    fleet.push(await next);
    if ((done + 1) % 10 === 0) process.stderr.write(`${done + 1} of ${restarts} restarts\n`);
  }
  return { exits, exitMsMax };
}

async function timedExit(worker: WorkerProcess): Promise<{ readonly how: number | string; readonly ms: number }> {
  const since = performance.now();
  worker.signal("SIGTERM");
  const how = await worker.exited;
  return { how, ms: Math.round(performance.now() - since) };
}

/** Nothing is left to do, so every worker waits in its long poll; the slowest exit counts. */
async function idleExit(fleet: readonly WorkerProcess[]): Promise<number> {
  let slowest = 0;
  for (const worker of fleet) slowest = Math.max(slowest, (await timedExit(worker)).ms);
  return slowest;
}

function brokenBy(
  report: Omit<RestartsReport, "broken">,
  options: { readonly runs: number; readonly restarts: number },
): readonly string[] {
  const checks: readonly (readonly [boolean, string])[] = [
    [report.statuses["finished"] === options.runs, `not all ${options.runs} runs finished`],
    [report.charged_once === options.runs, `${report.doubled} charged twice, ${report.uncharged} not charged`],
    [report.left_in_queue === 0, `${report.left_in_queue} messages left in the queue`],
    [report.in_dead_letter_queue === 0, `${report.in_dead_letter_queue} messages in the dead-letter queue`],
    [report.lost_deliveries === 0, `${report.lost_deliveries} deliveries counted as lost`],
    [report.exits["0"] === options.restarts, "a worker did not end with 0"],
    [report.idle_exit_ms < IDLE_EXIT_MS_MAX, `an idle worker took ${report.idle_exit_ms} ms to end`],
    [(report.causes["handback"] ?? 0) > 0, "no restart met a working run, so nothing was shown"],
  ];
  return checks.filter(([holds]) => !holds).map(([, text]) => text);
}
