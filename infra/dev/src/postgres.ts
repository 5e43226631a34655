// Starts PostgreSQL from the npm binaries: choose an account, prepare binaries and data folder, spawn, wait until ready.

import { type ChildProcess, spawn } from "node:child_process";
import { chownSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { PRODUCT } from "@reprise/tracing";
import { DevStackError, USE_DATABASE_URL } from "./errors.ts";
import { type Binaries, findNative, prepareBinaries, temporaryFolders } from "./postgres-binaries.ts";
import { createDatabase } from "./postgres-database.ts";
import { chooseIdentity, type Identity, identityFacts, identityMay, spawnAs } from "./postgres-identity.ts";
import { initialiseDataDir } from "./postgres-initdb.ts";
import { freeDataDir, OWNER_FILE, startWatchdog } from "./postgres-owner.ts";

export interface PostgresOptions {
  /** Where the data lives. Default: a fresh temporary folder, removed by `stop()` and by the watchdog. */
  readonly dataDir?: string;
  /** Port on 127.0.0.1. Default: a free one. */
  readonly port?: number;
  /** Server settings as for `-c name=value`; they win over ours. */
  readonly settings?: Readonly<Record<string, string>>;
}

export interface Postgres {
  /** `postgresql://reprise@127.0.0.1:<port>/postgres`; the user is a superuser without a password, loopback only. */
  readonly url: string;
  readonly dataDir: string;
  /** Process id of the server, for tests that stop or kill it. */
  readonly serverPid: number;
  /** Resolves when the server process has ended, by `stop()` or otherwise; holds the tail of its log. */
  readonly ended: Promise<string>;
  /** See the free function `createDatabase`. Resolves to the URL. */
  createDatabase(options?: { readonly template?: string; readonly name?: string }): Promise<string>;
  /** Fast shutdown; removes the folder when it was a temporary one. Safe to call twice. */
  stop(): Promise<void>;
}

/** Superuser of the embedded cluster. */
export const EMBEDDED_USER = PRODUCT.name;

const HOST = "127.0.0.1";
const PORT_TRIES_MAX = 5;
/** Recovery after a crash replays the log first, so this is generous; a healthy start takes well under a second. */
const READY_WAIT_MS = 60_000;
const STOP_STEP_MS = 10_000;
const LOG_TAIL_CHARS = 8_192;

/** Room for several workers' pools and parallel test files; the default of 100 is not. */
const SETTINGS: Readonly<Record<string, string>> = { max_connections: "300", timezone: "UTC", log_timezone: "UTC" };
/** A folder that is removed at the end needs to survive a killed server, not a power cut. */
const THROW_AWAY_SETTINGS: Readonly<Record<string, string>> = { ...SETTINGS, fsync: "off", full_page_writes: "off" };

interface Launch {
  readonly binaries: Binaries;
  readonly identity: Identity;
  readonly dataDir: string;
  readonly throwAwayDir: string | undefined;
  readonly settings: Readonly<Record<string, string>>;
}

/**
 * Starts a server of our own and waits until it accepts connections.
 * @throws DevStackError with a POSTGRES_ code; the message names DATABASE_URL where that is the way out.
 */
export async function startPostgres(options: PostgresOptions = {}): Promise<Postgres> {
  const identity = chooseIdentity(identityFacts());
  const binaries = await prepareBinaries(findNative(), identity);
  const throwAwayDir = options.dataDir === undefined ? await createThrowAwayDir(identity) : undefined;
  const dataDir = resolve(options.dataDir ?? join(throwAwayDir ?? "", "data"));
  try {
    await initialiseDataDir(binaries.initdb, dataDir, identity);
    await freeDataDir(dataDir);
    const settings = { ...(throwAwayDir === undefined ? SETTINGS : THROW_AWAY_SETTINGS), ...options.settings };
    const launch = { binaries, identity, dataDir, throwAwayDir, settings };
    return await launchOnPort(launch, options.port);
  } catch (error) {
    if (throwAwayDir !== undefined) await rm(throwAwayDir, { recursive: true, force: true });
    throw error;
  }
}

/** Between asking the kernel for a free port and PostgreSQL binding it, another process may take it: try another. */
async function launchOnPort(launch: Launch, wanted: number | undefined): Promise<Postgres> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await launchOnce(launch, wanted ?? (await freePort()));
    } catch (error) {
      const taken = error instanceof DevStackError && error.code === "POSTGRES_PORT_IN_USE";
      if (!taken || wanted !== undefined || tries === PORT_TRIES_MAX) throw error;
    }
  }
}

async function launchOnce(launch: Launch, port: number): Promise<Postgres> {
  const { identity, dataDir, throwAwayDir } = launch;
  const server = spawnServer(launch, port);
  const log = collectLog(server);
  const ended = new Promise<string>((resolve) => {
    server.once("close", () => resolve(log.tail()));
    server.once("error", (error) => resolve(String(error)));
  });
  const serverPid = server.pid ?? 0;
  // Before anything that waits: we may be killed while the server starts.
  if (server.pid !== undefined) {
    const watchdog = startWatchdog(server.pid, throwAwayDir, identity);
    // It ends with the server, before the server's number can be given to another process.
    server.once("exit", () => watchdog.kill("SIGKILL"));
  }
  await ready(server, log, { dataDir, port });
  await writeFile(join(dataDir, OWNER_FILE), `${process.pid}\n`);
  const url = `postgresql://${EMBEDDED_USER}@${HOST}:${port}/postgres`;
  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    await stopServer(server, ended);
    if (throwAwayDir !== undefined) await rm(throwAwayDir, { recursive: true, force: true, maxRetries: 3 });
  };
  return {
    url,
    dataDir,
    serverPid,
    ended,
    createDatabase: async (wanted) => (await createDatabase(url, wanted)).url,
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}

function spawnServer({ binaries, identity, dataDir, settings }: Launch, port: number): ChildProcess {
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  // No socket file (`-k ""`): /tmp may not be ours, and its path length is limited.
  return spawn(binaries.postgres, ["-D", dataDir, "-h", HOST, "-p", String(port), "-k", "", ...flags], {
    ...spawnAs(identity),
    cwd: dataDir,
    // LANG and LC_ALL often name a locale the machine never generated; PostgreSQL then refuses to start.
    env: { LC_ALL: "C", TZ: "UTC", PATH: "/usr/local/bin:/usr/bin:/bin" },
    stdio: ["ignore", "ignore", "pipe"],
    // Own process group: Ctrl-C must reach the worker first and the database last.
    detached: true,
  });
}

interface Log {
  readonly tail: () => string;
  readonly onLine: (listener: () => void) => void;
}

function collectLog(server: ChildProcess): Log {
  let text = "";
  const listeners: (() => void)[] = [];
  server.stderr?.setEncoding("utf8");
  server.stderr?.on("data", (chunk: string) => {
    text = (text + chunk).slice(-LOG_TAIL_CHARS);
    for (const listener of listeners) listener();
  });
  return { tail: () => text, onLine: (listener) => void listeners.push(listener) };
}

async function ready(server: ChildProcess, log: Log, at: { dataDir: string; port: number }): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      log.onLine(() => {
        if (log.tail().includes("database system is ready to accept connections")) resolve();
      });
      server.once("error", (error) => reject(startError(at, { log: String(error), cause: error })));
      // "close" instead of "exit": only then is the log complete.
      server.once("close", () => reject(startError(at, { log: log.tail() })));
      timer = setTimeout(() => {
        server.kill("SIGQUIT");
        reject(
          new DevStackError(
            "POSTGRES_START_TIMEOUT",
            `PostgreSQL on ${at.dataDir} was not ready after ${READY_WAIT_MS} ms. Its log ends: ${log.tail()}`,
          ),
        );
      }, READY_WAIT_MS);
    });
  } finally {
    clearTimeout(timer);
  }
}

/** PostgreSQL says why it did not start only in its log; LC_ALL=C keeps the words English. */
function startError(
  { dataDir, port }: { dataDir: string; port: number },
  { log, cause }: { log: string; cause?: unknown },
): DevStackError {
  if (/could not bind .*address|Address already in use/.test(log)) {
    return new DevStackError(
      "POSTGRES_PORT_IN_USE",
      `Port ${port} on ${HOST} is taken. Choose another port, or none. ${log}`,
    );
  }
  if (/lock file "postmaster.pid" already exists/.test(log)) {
    return new DevStackError("POSTGRES_DATA_DIR_IN_USE", `Another PostgreSQL is using ${dataDir}. Stop it. ${log}`);
  }
  return new DevStackError(
    "POSTGRES_START_FAILED",
    `PostgreSQL on ${dataDir} did not start. Its log: ${log || "(empty)"}. ${USE_DATABASE_URL}`,
    { cause },
  );
}

/** INT ends sessions and checkpoints (fast), QUIT skips the checkpoint (immediate), KILL is for a stopped process. */
async function stopServer(server: ChildProcess, ended: Promise<string>): Promise<void> {
  for (const signal of ["SIGINT", "SIGQUIT", "SIGKILL"] as const) {
    if (server.exitCode !== null || server.signalCode !== null) break;
    server.kill(signal);
    let timer: NodeJS.Timeout | undefined;
    const waited = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, STOP_STEP_MS);
    });
    await Promise.race([ended, waited]);
    clearTimeout(timer);
  }
}

async function createThrowAwayDir(identity: Identity): Promise<string> {
  for (const folder of temporaryFolders()) {
    const dir = await mkdtemp(join(folder, `${PRODUCT.name}-data-`)).catch(() => undefined);
    if (dir === undefined) continue;
    if (identity.kind === "other") chownSync(dir, identity.uid, identity.gid);
    if (identityMay(identity, "write", dir)) return dir;
    await rm(dir, { recursive: true, force: true });
  }
  throw new DevStackError(
    "POSTGRES_NO_USABLE_DIRECTORY",
    `uid ${identity.uid} can write to none of ${temporaryFolders().join(", ")}. Set TMPDIR to a folder it can. ${USE_DATABASE_URL}`,
  );
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, HOST, () => {
      const address = probe.address();
      probe.close(() =>
        address === null || typeof address === "string" ? reject(new Error("no port")) : resolve(address.port),
      );
    });
  });
}
