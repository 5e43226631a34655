// Orphans: a watchdog that stops PostgreSQL when we are killed, and the check of a data folder that somebody else left.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { PRODUCT } from "@reprise/tracing";
import { DevStackError } from "./errors.ts";
import { type Identity, spawnAs } from "./postgres-identity.ts";

/**
 * Waits for the end of its standard input, which the kernel closes when we die by whatever signal; then stops PostgreSQL
 * (fast, then immediate) and removes the throw-away folder. One idle `sh`, no polling. Its own death costs nothing but the
 * protection. Proved by "stops the server and removes its folder when the parent is killed".
 */
const WATCHDOG_SCRIPT = `trap '' INT TERM HUP
read -r _
kill -INT "$1" 2>/dev/null
n=0
while kill -0 "$1" 2>/dev/null; do
  n=$((n+1))
  [ "$n" -eq 100 ] && kill -QUIT "$1" 2>/dev/null
  [ "$n" -eq 150 ] && break
  sleep 0.1
done
[ -n "$2" ] && rm -rf "$2"
exit 0`;

/** How long an orphan may take to shut down before we give up on its folder. */
const ORPHAN_STOP_MS = 15_000;
const ORPHAN_POLL_MS = 50;

/** Starts the watchdog of one server. */
export function startWatchdog(serverPid: number, throwAwayDir: string | undefined, identity: Identity): ChildProcess {
  const watchdog = spawn(
    "/bin/sh",
    ["-c", WATCHDOG_SCRIPT, `${PRODUCT.name}-postgres-watchdog`, String(serverPid), throwAwayDir ?? ""],
    {
      ...spawnAs(identity),
      cwd: "/",
      env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
      stdio: ["pipe", "ignore", "ignore"],
      // Its own process group: Ctrl-C in a terminal reaches the whole foreground group.
      detached: true,
    },
  );
  watchdog.on("error", () => undefined);
  watchdog.stdin?.on("error", () => undefined);
  watchdog.unref();
  // The pipe must stay open as long as we live, yet must not keep us alive.
  const { stdin } = watchdog;
  if (stdin !== null && "unref" in stdin && typeof stdin.unref === "function") stdin.unref();
  return watchdog;
}

/** Who holds a data folder. */
export type Holder =
  | { readonly state: "free" }
  | { readonly state: "recycled"; readonly pidFile: string }
  | { readonly state: "orphan"; readonly serverPid: number }
  | { readonly state: "held"; readonly serverPid: number; readonly ownerPid: number | undefined };

/** What `ps` says of a process: its parent, and its command line. Undefined when there is no such process. */
export type LookUpProcess = (pid: number) => { readonly parentPid: number; readonly command: string } | undefined;

/** File in the data folder that names the process which started the server. */
export const OWNER_FILE = `${PRODUCT.name}.owner`;

/**
 * Reads postmaster.pid. A server whose parent is no longer the process that started it was orphaned (the kernel gave it a
 * new parent), so it is ours to stop; a server with its parent is somebody's, and is left alone. When the process is gone,
 * PostgreSQL recovers by itself; when its number went to some other program (containers start counting anew), PostgreSQL
 * would refuse to start, so the file is reported for removal.
 */
export function holderOf(dataDir: string, lookUp: LookUpProcess = lookUpProcess): Holder {
  const pidFile = join(dataDir, "postmaster.pid");
  const serverPid = readPid(pidFile);
  if (serverPid === undefined) return { state: "free" };
  const server = lookUp(serverPid);
  if (server === undefined) return { state: "free" };
  // A postgres under another spelling of the path may be the holder: PostgreSQL's own lock decides.
  if (!server.command.includes("postgres")) return { state: "recycled", pidFile };
  if (!server.command.includes(dataDir)) return { state: "free" };
  const ownerPid = readPid(join(dataDir, OWNER_FILE));
  return ownerPid !== undefined && server.parentPid !== ownerPid
    ? { state: "orphan", serverPid }
    : { state: "held", serverPid, ownerPid };
}

/**
 * Frees a data folder from an orphaned server.
 * @throws DevStackError POSTGRES_DATA_DIR_IN_USE when a living process owns the server, or the orphan does not stop.
 */
export async function freeDataDir(dataDir: string): Promise<void> {
  const holder = holderOf(dataDir);
  switch (holder.state) {
    case "free":
      return;
    case "recycled":
      rmSync(holder.pidFile, { force: true });
      return;
    case "held":
      throw inUse(dataDir, holder.serverPid, `started by process ${holder.ownerPid ?? "unknown"}`);
    case "orphan":
      if (await stopOrphan(dataDir, holder.serverPid)) return;
      throw inUse(dataDir, holder.serverPid, "left by a process that was killed, and it does not stop");
    default:
      return holder satisfies never;
  }
}

/** "INT" is PostgreSQL's fast shutdown; "QUIT" skips the checkpoint and the next start recovers. */
async function stopOrphan(dataDir: string, serverPid: number): Promise<boolean> {
  for (const signal of ["SIGINT", "SIGQUIT"] as const) {
    sendSignal(serverPid, signal);
    const deadline = performance.now() + ORPHAN_STOP_MS / 2;
    while (performance.now() < deadline) {
      if (holderOf(dataDir).state !== "orphan") return true;
      await sleep(ORPHAN_POLL_MS);
    }
  }
  return false;
}

function inUse(dataDir: string, serverPid: number, how: string): DevStackError {
  return new DevStackError(
    "POSTGRES_DATA_DIR_IN_USE",
    `PostgreSQL process ${serverPid}, ${how}, is using ${dataDir}. Stop that process, or choose another data folder.`,
  );
}

function readPid(file: string): number | undefined {
  if (!existsSync(file)) return undefined;
  const pid = Number(readFileSync(file, "utf8").split("\n")[0]);
  return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined;
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone between look-up and signal: what we wanted.
  }
}

/** /proc where there is one (slim images have no ps), else ps. */
function lookUpProcess(pid: number): ReturnType<LookUpProcess> {
  if (existsSync("/proc/self/stat")) {
    try {
      // The second field is the name in brackets and may hold spaces; state and parent follow the last bracket.
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ");
      if (fields[0] === "Z") return undefined;
      return {
        parentPid: Number(fields[1]),
        command: readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " "),
      };
    } catch {
      return undefined;
    }
  }
  const shown = spawnSync("ps", ["-o", "ppid=,command=", "-p", String(pid)], { encoding: "utf8" });
  const [, parentPid, command] = /^\s*(\d+)\s+(.*)$/s.exec(shown.stdout ?? "") ?? [];
  return parentPid === undefined || command === undefined ? undefined : { parentPid: Number(parentPid), command };
}
