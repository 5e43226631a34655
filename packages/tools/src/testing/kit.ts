// checkTools: strikes holders of a tool at every point, counts at the provider what happened, and says which promises broke.
import { randomBytes } from "node:crypto";
import type { EffectPolicy } from "../effect.ts";
import { PostgresLedger } from "../effect-postgres.ts";
import { migrate } from "../migrate.ts";
import { toolsMigrations } from "../migrate-tools.ts";
import type { CountedProvider } from "./counting-provider.ts";
import type { LoadedTool } from "./holder-messages.ts";
import { type Gateway, startGateway } from "./kit-gateway.ts";
import { brokenBy, brokenByRetry } from "./kit-judge.ts";
import { Lane, type LaneParts, type Play, type Played } from "./kit-lane.ts";
import { HolderProcess, type HolderProgram } from "./kit-process.ts";
import { POINTS, type Point, STRIKES, type Strike } from "./points.ts";
import { openKitPool } from "./pool.ts";

export interface CheckToolsOptions {
  /** Path of the program that calls `holdTools`, as Node can run it. */
  readonly holder: string;
  readonly holderArguments?: readonly string[];
  /** For Node itself, such as a loader of TypeScript. */
  readonly nodeArguments?: readonly string[];
  /** A database of the kit's own: it migrates the ledger and fills both tables and checkpoints. */
  readonly databaseUrl: string;
  readonly provider: CountedProvider;
  /** The environment variable from which the tools take their provider's URL: the kit puts a gateway there. */
  readonly urlVariable: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** Names of the held tools to check. Default all. */
  readonly only?: readonly string[];
  /** Plays of each point and strike. Default 1. */
  readonly seeds?: number;
  /** Plays at a time, each with two to three processes. Default 2. */
  readonly lanes?: number;
  /** Default all. */
  readonly points?: readonly Point[];
  /** Default both. */
  readonly strikes?: readonly Strike[];
  /** How long a claim holds in these plays. Default 1,500 ms; a frozen holder outlasts it. */
  readonly leaseMs?: number;
  /** Headers that a gateway before the provider swallows, lower case: with the key's among them a keyed tool must fail. */
  readonly stripHeaders?: readonly string[];
}

export interface ConformanceReport {
  readonly tool: string;
  /** Absent for a tool that `defineTool` did not make. */
  readonly policy?: EffectPolicy;
  readonly plays: readonly Played[];
  /** Only for `keyed`. */
  readonly retry?: Played;
  /** Empty when every promise was kept. */
  readonly broken: readonly string[];
}

const DAY_MS = 86_400_000;

/** Rejects with KIT_FAILED when a play could not be made; a promise that broke stands in the report. */
export async function checkTools(options: CheckToolsOptions): Promise<readonly ConformanceReport[]> {
  const pool = openKitPool(options.databaseUrl, 4);
  const gateways: Gateway[] = [];
  const lanes: Lane[] = [];
  try {
    await migrate(pool, toolsMigrations);
    const tools = await learnTools(options);
    const plays = tools.flatMap((tool) => playsOf(tool, options));
    const laneCount = Math.min(options.lanes ?? 2, plays.length);
    for (let lane = 0; lane < laneCount; lane += 1) {
      const gateway = await startGateway({
        upstream: options.provider.url,
        ...(options.stripHeaders === undefined ? {} : { stripHeaders: options.stripHeaders }),
      });
      gateways.push(gateway);
      lanes.push(new Lane(lanePartsOf(options, gateway, new PostgresLedger(pool))));
    }
    const played = await playAll(lanes, plays);
    return tools.map((tool) => reportOf(tool, played));
  } finally {
    for (const lane of lanes) lane.stop();
    for (const gateway of gateways) await gateway.close();
    await pool.end();
  }
}

// The first holder says what it holds and sets the user's saver up, before others could race it.
async function learnTools(options: CheckToolsOptions): Promise<readonly LoadedTool[]> {
  const holder = new HolderProcess(programOf(options, options.provider.url));
  try {
    const { tools } = await holder.ready(options.databaseUrl, true);
    return tools.filter(({ name }) => options.only === undefined || options.only.includes(name));
  } finally {
    holder.kill();
  }
}

function lanePartsOf(options: CheckToolsOptions, gateway: Gateway, ledger: PostgresLedger): LaneParts {
  const { databaseUrl, provider } = options;
  const program = programOf(options, gateway.url);
  return { program, databaseUrl, ledger, provider, gateway, leaseMs: options.leaseMs ?? 1_500 };
}

function programOf(options: CheckToolsOptions, url: string): HolderProgram {
  return {
    path: options.holder,
    arguments: options.holderArguments ?? [],
    nodeArguments: options.nodeArguments ?? [],
    environment: { ...options.environment, [options.urlVariable]: url },
  };
}

function playsOf({ name, policy }: LoadedTool, options: CheckToolsOptions): readonly Play[] {
  const seeds = options.seeds ?? 1;
  const struck = (options.points ?? POINTS).flatMap((point) =>
    (options.strikes ?? STRIKES).flatMap((strike) =>
      Array.from({ length: seeds }, (_, seed) => ({
        tool: name,
        point,
        strike,
        mark: freshMark(),
        moment: seed / seeds,
      })),
    ),
  );
  return policy === "keyed" ? [...struck, retryPlay(name)] : struck;
}

/** Struck right after the provider committed, and sent again whatever retention the profile says. */
function retryPlay(tool: string): Play {
  return { tool, point: "after_commit", strike: "SIGKILL", mark: freshMark(), moment: 0, retentionMs: DAY_MS };
}

// Letters and digits only: a mark goes into customers' names, URLs and JSON alike.
function freshMark(): string {
  return `kit${randomBytes(8).toString("hex")}`;
}

function reportOf({ name, policy }: LoadedTool, all: readonly PlayedOf[]): ConformanceReport {
  const own = all.filter(({ play }) => play.tool === name);
  const plays = own.filter(({ play }) => play.retentionMs === undefined).map(({ played }) => played);
  const retry = own.find(({ play }) => play.retentionMs !== undefined)?.played;
  const broken = plays.flatMap((played) => brokenBy(policy, played));
  return {
    tool: name,
    ...(policy === undefined ? {} : { policy }),
    plays,
    ...(retry === undefined ? {} : { retry }),
    broken: retry === undefined ? broken : [...broken, ...brokenByRetry(retry)],
  };
}

interface PlayedOf {
  readonly play: Play;
  readonly played: Played;
}

async function playAll(lanes: readonly Lane[], plays: readonly Play[]): Promise<readonly PlayedOf[]> {
  const waiting = [...plays];
  const played: PlayedOf[] = [];
  await Promise.all(
    lanes.map(async (lane) => {
      for (let play = waiting.shift(); play !== undefined; play = waiting.shift()) {
        played.push({ play, played: await lane.play(play) });
      }
    }),
  );
  return played;
}
