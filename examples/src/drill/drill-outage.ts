// PostgreSQL restarted, cut off, and out of connections while runs go on: no worker dies, nothing is charged twice, all runs end.
import { randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Postgres, startPostgres } from "@reprise/dev-stack";
import { PRODUCT } from "@reprise/tracing";
import pg from "pg";
import type { WorkerProcess } from "../support/worker-process.ts";
import { type Relay, startRelay } from "./drill-proxy.ts";
import { type DrillOutcome, type DrillScene, sleep, until, withDrill } from "./drill-scene.ts";

export const OUTAGES = ["restart", "cut", "full"] as const;
export type Outage = (typeof OUTAGES)[number];

export type OutageReport = DrillOutcome & {
  readonly drill: "outage";
  readonly outage: Outage;
  readonly outage_seconds: number;
  /** Runs without an end when the outage began: those it could hurt. */
  readonly unfinished_at_outage: number;
  /** From PostgreSQL's recovery to the end of the last run. */
  readonly recovered_in_seconds: number;
  readonly workers_alive: number;
  readonly broken: readonly string[];
};

const WORKERS = 2;
const TOOL_MS = 1_000;
/** Enough for two workers' pools and the harness; few enough that a hog takes the rest quickly. */
const MAX_CONNECTIONS = "60";
const RECOVERY_MS_MAX = 60_000;
const SETTINGS = {
  REPRISE_VISIBILITY_SECONDS: "15",
  REPRISE_WAIT_SECONDS: "2",
  REPRISE_CONCURRENCY: "10",
  REPRISE_POOL_MAX: "20",
};

type Server = { postgres: Postgres; readonly relay: Relay; readonly port: number; readonly dataDir: string };

export async function drillOutage(options: {
  readonly outage: Outage;
  readonly runs: number;
  readonly seconds: number;
}): Promise<OutageReport> {
  // Kept over the restart; not made here, since the account that PostgreSQL runs under must own it.
  const dataDir = join(tmpdir(), `outage-${randomBytes(6).toString("hex")}`);
  const settings = { max_connections: MAX_CONNECTIONS };
  const postgres = await startPostgres({ dataDir, settings });
  const direct = new URL(postgres.url);
  const relay = await startRelay({ host: direct.hostname, port: Number(direct.port) });
  const server: Server = { postgres, relay, port: Number(direct.port), dataDir };
  const through = new URL(postgres.url);
  through.port = String(relay.port);
  try {
    const stack = { environment: { databaseUrl: through.href } };
    return await withDrill({ stack, directUrl: direct.href, settings: SETTINGS }, (scene) =>
      play(scene, server, options),
    );
  } finally {
    await relay.stop();
    await server.postgres.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

async function play(
  scene: DrillScene,
  server: Server,
  { outage, runs, seconds }: { readonly outage: Outage; readonly runs: number; readonly seconds: number },
): Promise<OutageReport> {
  await scene.payments.arm({ kind: "commit_then_stall", holdMs: TOOL_MS, times: null });
  const workers = await Promise.all(Array.from({ length: WORKERS }, () => scene.worker()));
  for (let n = 0; n < runs; n += 1) await scene.send();
  // As many are in work then as the workers take, or half of those there are; the others wait in the queue.
  await until(30_000, async () => ((await scene.statuses())["running"] ?? 0) >= Math.min(10, runs / 2));
  const unfinished = runs - ((await scene.statuses())["finished"] ?? 0);
  await STRIKES[outage](server, seconds);
  const recoveredAt = performance.now();
  await scene.allEnded(RECOVERY_MS_MAX * 2);
  const recoveredInMs = performance.now() - recoveredAt;
  const alive = await aliveOf(workers);
  const report = {
    drill: "outage" as const,
    outage,
    outage_seconds: seconds,
    unfinished_at_outage: unfinished,
    recovered_in_seconds: Math.round(recoveredInMs / 100) / 10,
    workers_alive: alive,
    ...(await scene.outcome()),
  };
  return { ...report, broken: brokenBy(report, runs) };
}

const STRIKES: Readonly<Record<Outage, (server: Server, seconds: number) => Promise<void>>> = {
  restart: async (server, seconds) => {
    await server.postgres.stop();
    await sleep(seconds * 1000);
    const settings = { max_connections: MAX_CONNECTIONS };
    server.postgres = await startPostgres({ dataDir: server.dataDir, port: server.port, settings });
  },
  cut: async (server, seconds) => {
    server.relay.cut();
    await sleep(seconds * 1000);
    server.relay.restore();
  },
  full: async (server, seconds) => {
    const hog = await fill(server.postgres.url, Number(MAX_CONNECTIONS));
    await sleep(seconds * 1000);
    await Promise.all(hog.map((client) => client.end()));
  },
};

/** Takes every connection there is: throws the workers off theirs again and again, and keeps what gets free. */
async function fill(url: string, most: number): Promise<readonly pg.Client[]> {
  const hog: pg.Client[] = [];
  const take = async (): Promise<boolean> => {
    const client = new pg.Client({ connectionString: url, application_name: "hog" });
    client.on("error", () => undefined);
    const connected = await client.connect().then(
      () => true,
      () => false,
    );
    if (connected) hog.push(client);
    return connected;
  };
  if (!(await take())) return hog;
  const evict = `select pg_terminate_backend(pid) from pg_stat_activity where application_name like '${PRODUCT.name}%'`;
  for (let round = 0; round < 5 && hog.length < most; round += 1) {
    await hog[0]?.query(evict);
    while (hog.length < most && (await take()));
  }
  return hog;
}

async function aliveOf(workers: readonly WorkerProcess[]): Promise<number> {
  const running = Symbol("running");
  const states = await Promise.all(
    workers.map((worker) => Promise.race([worker.exited, sleep(50).then(() => running)])),
  );
  return states.filter((state) => state === running).length;
}

function brokenBy(report: Omit<OutageReport, "broken">, runs: number): readonly string[] {
  const checks: readonly (readonly [boolean, string])[] = [
    [report.workers_alive === WORKERS, `${WORKERS - report.workers_alive} workers died`],
    [report.statuses["finished"] === runs, `not all ${runs} runs finished: ${JSON.stringify(report.statuses)}`],
    [report.charged_once === runs, `${report.doubled} charged twice, ${report.uncharged} not charged`],
    [
      report.recovered_in_seconds <= RECOVERY_MS_MAX / 1000,
      `the last run ended ${report.recovered_in_seconds} s after`,
    ],
    [report.left_in_queue === 0, `${report.left_in_queue} messages left in the queue`],
    [report.in_dead_letter_queue === 0, `${report.in_dead_letter_queue} messages in the dead-letter queue`],
    [report.unfinished_at_outage > 0, "every run had ended before the outage, so nothing was shown"],
  ];
  return checks.filter(([holds]) => !holds).map(([, text]) => text);
}
