// A worker as a process of its own: started from the built command, ready when it says so, killed with a real signal.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { childEnvironment } from "./env.ts";
import { SupportError } from "./errors.ts";

export type WorkerProcessOptions = {
  /** Path of the module that exports `agents`. */
  readonly module: string;
  /** Added to the little that every child gets. */
  readonly environment: Readonly<Record<string, string>>;
  /** Default 30,000. */
  readonly startTimeoutMs?: number;
};

export type WorkerProcess = {
  readonly pid: number;
  /** Log lines so far, the last 1,000. */
  readonly log: () => readonly string[];
  readonly signal: (signal: "SIGKILL" | "SIGTERM" | "SIGSTOP" | "SIGCONT") => void;
  /** Resolves with the exit code, or the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals>;
};

const LOG_LINES_MAX = 1_000;
/** The built command of the worker package, wherever npm linked it. */
const CLI = fileURLToPath(import.meta.resolve("@reprise/worker")).replace(
  /(dist|src)[\\/]index\.[jt]s$/,
  "dist/cli.js",
);

/** Starts `reprise work <module>` and waits until it receives. Rejects with WORKER_START_FAILED and what it wrote. */
export async function startWorkerProcess(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const child = spawn(process.execPath, [CLI, "work", options.module], {
    env: { ...childEnvironment(), ...options.environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const lines: string[] = [];
  const started = new Promise<void>((resolve) => readLines(child, lines, resolve));
  const exited = once(child, "exit").then(([code, signal]: (number | NodeJS.Signals | null)[]) => code ?? signal ?? 0);
  await ready(started, exited, { lines, timeoutMs: options.startTimeoutMs ?? 30_000 });
  return {
    pid: child.pid ?? -1,
    log: () => lines,
    signal: (signal) => child.kill(signal),
    // Only a number or a signal's name can come out of an exit.
    exited: exited as Promise<number | NodeJS.Signals>,
  };
}

function readLines(child: ChildProcess, lines: string[], onStarted: () => void): void {
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue;
    createInterface({ input: stream }).on("line", (line) => {
      lines.push(line);
      if (lines.length > LOG_LINES_MAX) lines.shift();
      if (line.includes('"worker started"')) onStarted();
    });
  }
}

async function ready(
  started: Promise<void>,
  exited: Promise<unknown>,
  { lines, timeoutMs }: { readonly lines: readonly string[]; readonly timeoutMs: number },
): Promise<void> {
  const failed = (why: string): SupportError =>
    new SupportError("WORKER_START_FAILED", `the worker ${why}; it wrote:\n${lines.slice(-20).join("\n")}`);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(failed(`was not ready after ${timeoutMs} ms`)), timeoutMs);
  });
  const ended = exited.then((code) => {
    throw failed(`ended with ${String(code)} before it was ready`);
  });
  await Promise.race([started, late, ended]).finally(() => clearTimeout(timer));
  ended.catch(() => undefined);
}
