// Starts crash-worker.ts as a process of its own and watches it.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Kill } from "./crash-kill.ts";

export interface WorkerChild {
  readonly pid: number;
  /** Resolves when it receives; rejects when it ends first. */
  readonly started: Promise<void>;
  /** The exit code, or the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals>;
  /** The last lines it wrote, for a failure's message. */
  log(): string;
  /** Whether it is stopped by SIGSTOP. */
  isFrozen(): boolean;
  signal(signal: NodeJS.Signals): void;
}

export interface WorkerChildOptions {
  /** What bundleForNode made of crash-worker.ts. */
  readonly bundle: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly kill?: Kill;
}

const KEPT = ["PATH", "HOME", "TMPDIR"];
const LOG_LINES_MAX = 200;

export function startChild(options: WorkerChildOptions): WorkerChild {
  const kept = KEPT.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]] as const]));
  const child = spawn(process.execPath, [options.bundle], {
    env: {
      ...Object.fromEntries(kept),
      AWS_ACCESS_KEY_ID: "local",
      AWS_SECRET_ACCESS_KEY: "local",
      OTEL_SDK_DISABLED: "true",
      ...options.environment,
      ...(options.kill === undefined ? {} : { CRASH_KILL: JSON.stringify(options.kill) }),
    },
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const lines: string[] = [];
  const exited = once(child, "exit").then(
    ([code, signal]: (number | NodeJS.Signals | null)[]) => code ?? signal ?? 0,
  ) as WorkerChild["exited"];
  const log = (): string => lines.join("\n");
  const started = Promise.race([
    firstLine(child, lines, '"worker started"'),
    exited.then((how) => {
      throw new Error(`the worker ended with ${how} before it received:\n${log()}`);
    }),
  ]);
  // Whoever waits for it sees the rejection; who does not, need not.
  started.catch(() => undefined);
  const pid = child.pid ?? -1;
  return { pid, started, exited, log, isFrozen: () => isFrozen(pid), signal: (signal) => void child.kill(signal) };
}

function firstLine(child: ChildProcess, lines: string[], wanted: string): Promise<void> {
  return new Promise((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on("line", (line) => {
        lines.push(line);
        if (lines.length > LOG_LINES_MAX) lines.shift();
        if (line.includes(wanted)) resolve();
      });
    }
  });
}

/** `T` is "stopped by job control signal" (ps(1)). */
function isFrozen(pid: number): boolean {
  return spawnSync("ps", ["-o", "state=", "-p", String(pid)], { encoding: "utf8" })
    .stdout.trim()
    .startsWith("T");
}
