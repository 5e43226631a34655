// Starts the payment provider as a process of its own, so that it outlives the workers that are killed.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { extname } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { SupportError } from "./errors.ts";
import { isRecord } from "./payments-charge.ts";
import { parseJson } from "./payments-create.ts";

export type PaymentsProcessOptions = {
  /** Append the request log to this JSON lines file. */
  readonly logFile?: string;
  /** The program to run. Default payments-main beside this file: built, since Node 20 does not run TypeScript. */
  readonly entry?: string;
  /** Default 10,000. */
  readonly startTimeoutMs?: number;
};

export type PaymentsProcess = {
  readonly url: string;
  readonly pid: number;
  /** SIGTERM, then waits for the exit. */
  readonly stop: () => Promise<void>;
};

const STDERR_CHARACTERS_MAX = 4_000;

/** Starts the provider and waits for its line. It ends with this process, however this process ends. */
export async function spawnPayments(options: PaymentsProcessOptions = {}): Promise<PaymentsProcess> {
  const beside = new URL(`./payments-main${extname(import.meta.url)}`, import.meta.url);
  const logFile = options.logFile === undefined ? [] : ["--log-file", options.logFile];
  const entry = options.entry ?? fileURLToPath(beside);
  const child = spawn(process.execPath, [entry, "--until-stdin-ends", ...logFile], { stdio: ["pipe", "pipe", "pipe"] });
  // A write to a child that is gone must not take this process with it; nothing is ever written, only closed.
  child.stdin.on("error", () => undefined);
  const complaint = collect(child);
  const url = await firstUrl(child, options.startTimeoutMs ?? 10_000).catch((cause: unknown) => {
    child.kill("SIGKILL");
    const message = `the payment provider (${entry}) did not start; run npm run build. It wrote: ${complaint() || "nothing"}`;
    throw new SupportError("PAYMENTS_START_FAILED", message, { cause });
  });
  return { url, pid: child.pid ?? -1, stop: async () => await stop(child) };
}

async function firstUrl(child: ChildProcess, timeoutMs: number): Promise<string> {
  if (child.stdout === null) throw new TypeError("the provider's standard output is not piped");
  const lines = createInterface({ input: child.stdout });
  const signal = AbortSignal.timeout(timeoutMs);
  const line = once(lines, "line", { signal });
  const ended = once(child, "exit", { signal }).then(([code]) => {
    throw new Error(`it exited with ${String(code)} before it printed its url`);
  });
  const [text]: unknown[] = await Promise.race([line, ended]);
  const parsed = typeof text === "string" ? parseJson(text) : undefined;
  const { url } = isRecord(parsed) ? parsed : {};
  if (typeof url !== "string") throw new Error(`its first line was not JSON with a url: ${String(text)}`);
  return url;
}

/** The first characters of the child's standard error; the rest is read and dropped, so that the pipe never fills. */
function collect(child: ChildProcess): () => string {
  let text = "";
  child.stderr?.setEncoding("utf8").on("data", (piece: string) => {
    if (text.length < STDERR_CHARACTERS_MAX) text += piece.slice(0, STDERR_CHARACTERS_MAX - text.length);
  });
  return () => text.trim();
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  await exited;
}
