// The command in a process of its own, built, as a user types it.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Scene } from "./scene.ts";

export const PACKAGE = dirname(import.meta.dirname);
const ROOT = dirname(dirname(PACKAGE));
export const CLI = join(PACKAGE, "dist", "cli.js");

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Builds all packages; for a `beforeAll` with a generous limit. */
export async function buildCommand(): Promise<void> {
  await promisify(execFile)(join(ROOT, "node_modules", ".bin", "tsc"), ["-b"], { cwd: ROOT });
}

export async function reprise(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [CLI, ...args], {
    env: { PATH: process.env["PATH"] ?? "", ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (piece: Buffer) => {
    stdout += piece.toString();
  });
  child.stderr.on("data", (piece: Buffer) => {
    stderr += piece.toString();
  });
  const [code]: (number | null)[] = await once(child, "close");
  return { code: code ?? null, stdout, stderr };
}

export function environmentOf(s: Scene): Record<string, string> {
  return {
    DATABASE_URL: s.config.databaseUrl,
    QUEUE_URL: s.queueUrl,
    SQS_ENDPOINT: s.sqs.endpoint,
    AWS_REGION: "us-east-1",
    AWS_ACCESS_KEY_ID: "x",
    AWS_SECRET_ACCESS_KEY: "y",
    OTEL_SDK_DISABLED: "true",
    REPRISE_WAIT_SECONDS: "1",
    REPRISE_VISIBILITY_SECONDS: "10",
  };
}
