// A worker under load for half an hour: its heap after a forced collection and its open handles, early against late.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { childEnvironment } from "../support/env.ts";
import { type DrillOutcome, type DrillScene, sleep, withDrill } from "./drill-scene.ts";
import type { Holdings } from "./drill-soak-worker.ts";

export type SoakReport = DrillOutcome & {
  readonly drill: "soak";
  readonly minutes: number;
  readonly early_heap_mb: number;
  readonly late_heap_mb: number;
  readonly growth_mb: number;
  readonly early_handles: Readonly<Record<string, number>>;
  readonly late_handles: Readonly<Record<string, number>>;
  readonly samples: readonly { readonly minute: number; readonly heap_mb: number }[];
  readonly broken: readonly string[];
};

const ENTRY = fileURLToPath(new URL("./drill-soak-worker.js", import.meta.url));
const GROWTH_MB_MAX = 5;
const RUNS_A_SECOND = 4;
/** Longer than an idle pooled connection or socket is kept, so that only what leaked is left to be counted. */
const QUIET_MS = 25_000;
const RESTING_LOOKS = 36;
const RESTING_PAUSE_MS = 1_700;
const SETTINGS = { REPRISE_VISIBILITY_SECONDS: "30", REPRISE_WAIT_SECONDS: "5", REPRISE_SAMPLE_SHARE: "0.05" };

/** The early measure is taken after a sixth of the time: minute 5 of 30. */
export async function drillSoak(options: { readonly minutes: number }): Promise<SoakReport> {
  return withDrill({ settings: SETTINGS }, async (scene) => {
    const worker = await startSoakWorker(scene);
    const samples: { minute: number; heap_mb: number }[] = [];
    const early = await loadAndMeasure(scene, worker, { minutes: options.minutes / 6, samples });
    const late = await loadAndMeasure(scene, worker, { minutes: (options.minutes * 5) / 6, samples });
    const outcome = await scene.outcome();
    worker.kill("SIGKILL");
    const report = {
      drill: "soak" as const,
      minutes: options.minutes,
      early_heap_mb: megabytes(early.heapBytes),
      late_heap_mb: megabytes(late.heapBytes),
      growth_mb: megabytes(late.heapBytes - early.heapBytes),
      early_handles: early.handles,
      late_handles: late.handles,
      samples,
      ...outcome,
    };
    return { ...report, broken: brokenBy(report) };
  });
}

async function startSoakWorker(scene: DrillScene): Promise<ChildProcess> {
  const child = fork(ENTRY, {
    env: { ...childEnvironment(), ...scene.environment },
    execArgv: ["--expose-gc"],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  await once(child, "message");
  return child;
}

/** Sends at a steady rate, then lets the worker come to rest, then measures. */
async function loadAndMeasure(
  scene: DrillScene,
  worker: ChildProcess,
  { minutes, samples }: { readonly minutes: number; readonly samples: { minute: number; heap_mb: number }[] },
): Promise<Holdings> {
  const startedAt = performance.now();
  const minuteBefore = samples.at(-1)?.minute ?? 0;
  let nextSampleAt = 60_000;
  for (let n = 1; performance.now() - startedAt < minutes * 60_000; n += 1) {
    await scene.send();
    const passed = performance.now() - startedAt;
    if (passed > nextSampleAt) {
      nextSampleAt += 60_000;
      const { heapBytes } = await holdingsOf(worker);
      samples.push({ minute: Math.round(minuteBefore + passed / 60_000), heap_mb: megabytes(heapBytes) });
      process.stderr.write(`${JSON.stringify(samples.at(-1))}\n`);
    }
    await sleep(Math.max(0, (n * 1000) / RUNS_A_SECOND - passed));
  }
  await scene.allEnded(60_000);
  await sleep(QUIET_MS);
  const held = await restingHoldings(worker);
  samples.push({ minute: Math.round(minuteBefore + minutes), heap_mb: megabytes(held.heapBytes) });
  return held;
}

/**
 * The least of a minute of looks: a poll that is just being answered or a sweep that is at the database hold a socket for a moment,
 * what leaked is there in every look.
 */
async function restingHoldings(worker: ChildProcess): Promise<Holdings> {
  const looks: Holdings[] = [];
  for (let look = 0; look < RESTING_LOOKS; look += 1) {
    looks.push(await holdingsOf(worker));
    await sleep(RESTING_PAUSE_MS);
  }
  const kinds = new Set(looks.flatMap(({ handles }) => Object.keys(handles)));
  const least = (kind: string): number => Math.min(...looks.map(({ handles }) => handles[kind] ?? 0));
  return {
    heapBytes: Math.min(...looks.map(({ heapBytes }) => heapBytes)),
    handles: Object.fromEntries([...kinds].map((kind) => [kind, least(kind)])),
  };
}

async function holdingsOf(worker: ChildProcess): Promise<Holdings> {
  const answer = once(worker, "message");
  worker.send("measure");
  const [held] = await answer;
  // What drill-soak-worker.ts sends for "measure".
  return held as Holdings;
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 10_000) / 100;
}

function brokenBy(report: Omit<SoakReport, "broken">): readonly string[] {
  const checks: readonly (readonly [boolean, string])[] = [
    [report.growth_mb <= GROWTH_MB_MAX, `the heap grew by ${report.growth_mb} MB`],
    [
      JSON.stringify(sorted(report.early_handles)) === JSON.stringify(sorted(report.late_handles)),
      "the open handles differ",
    ],
    [report.charged_once === report.sent, `${report.doubled} charged twice, ${report.uncharged} not charged`],
    [report.left_in_queue === 0, `${report.left_in_queue} messages left in the queue`],
  ];
  return checks.filter(([holds]) => !holds).map(([, text]) => text);
}

function sorted(handles: Readonly<Record<string, number>>): readonly (readonly [string, number])[] {
  return Object.entries(handles).sort(([a], [b]) => (a < b ? -1 : 1));
}
