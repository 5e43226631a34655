// Preflight of the database: version, tables, connections and clock in, lines out.
import { PRODUCT } from "@reprise/tracing";
import type { CheckedConfig, CheckLine, Probe } from "./check.ts";
import { skewLine } from "./check-process.ts";

export interface DatabaseFacts {
  /** `server_version_num`: 140005 is 14.5. */
  readonly version: number;
  readonly readOnly: boolean;
  readonly missingMigrations: readonly string[];
  readonly hasCheckpoints: boolean;
  readonly connectionsMax: number;
  readonly connectionsReserved: number;
  readonly connectionsUsed: number;
  /** The server's clock less ours, as of the middle of one round trip. */
  readonly skewMs: number;
}

const VERSION_MIN = 14;
/** A run has a checkpoint and a beat, or a ledger's claim, under way at the same time. */
const CONNECTIONS_PER_RUN = 2;
/** Beyond ten seconds a checkpoint of another host lies too far in the future to be waited for (DESIGN 5.5). */
const SKEW = { warnedAboveMs: 1_000, failedAboveMs: 10_000 } as const;

export function databaseLines(probe: Probe<DatabaseFacts>, config: CheckedConfig): readonly CheckLine[] {
  if (probe.state === "unread") {
    const fix = "check DATABASE_URL, the network, and that the role may log in";
    return [{ what: "database", found: probe.error, needed: "a connection", verdict: "fail", fix }, poolLine(config)];
  }
  const facts = probe.value;
  return [
    versionLine(facts),
    tablesLine(facts, config),
    poolLine(config),
    connectionsLine(facts, config),
    skewLine("database clock", facts.skewMs, SKEW),
  ];
}

function versionLine({ version, readOnly }: DatabaseFacts): CheckLine {
  const found = `PostgreSQL ${Math.floor(version / 10_000)}.${version % 10_000}${readOnly ? ", read-only" : ""}`;
  const line = { what: "database", found, needed: `PostgreSQL ${VERSION_MIN} or newer, writable` };
  if (readOnly) return { ...line, verdict: "fail", fix: "point DATABASE_URL at the primary" };
  return version >= VERSION_MIN * 10_000
    ? { ...line, verdict: "ok" }
    : { ...line, verdict: "fail", fix: "upgrade the server" };
}

function tablesLine({ missingMigrations, hasCheckpoints }: DatabaseFacts, config: CheckedConfig): CheckLine {
  const missing = [
    ...missingMigrations,
    ...(hasCheckpoints ? [] : [`checkpoint tables in schema ${config.checkpointSchema}`]),
  ];
  const line = { what: "tables", needed: "all migrations" };
  return missing.length === 0
    ? { ...line, found: "all", verdict: "ok" }
    : { ...line, found: `without ${missing.join(", ")}`, verdict: "fail", fix: `run \`${PRODUCT.name} migrate\`` };
}

/** Needs no database: the worker says it at its start, too. */
export function poolLine({ poolMax, concurrency }: Pick<CheckedConfig, "poolMax" | "concurrency">): CheckLine {
  const wanted = concurrency * CONNECTIONS_PER_RUN;
  const line = {
    what: "pool",
    found: `${poolMax} connections for ${concurrency} runs`,
    needed: `${wanted}, two a run`,
  };
  return poolMax >= wanted
    ? { ...line, verdict: "ok" }
    : { ...line, verdict: "warn", fix: "raise the pool or lower the concurrency: beats wait behind checkpoints" };
}

function connectionsLine(facts: DatabaseFacts, { poolMax }: CheckedConfig): CheckLine {
  const all = facts.connectionsMax - facts.connectionsReserved;
  const free = Math.max(0, all - facts.connectionsUsed);
  const line = { what: "connections", found: `${free} of ${all} free`, needed: `${poolMax} for each worker` };
  const fix = "raise max_connections, put a pooler in between, or lower the pool";
  if (poolMax > all) return { ...line, verdict: "fail", fix };
  return poolMax > free ? { ...line, verdict: "warn", fix } : { ...line, verdict: "ok" };
}
