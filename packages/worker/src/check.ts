// Preflight: what was found in, one line a requirement out, each with its verdict and what to do about it. Pure.
import { type DatabaseFacts, databaseLines } from "./check-database.ts";
import { type ProcessFacts, processLines } from "./check-process.ts";
import { type QueueFacts, queueLines } from "./check-queue.ts";
import type { Config } from "./config.ts";

/** `fail`: the worker would not work, or would lose or repeat what it must not. `warn`: it works, worse than it could. */
export type Verdict = "ok" | "warn" | "fail";

export interface CheckLine {
  readonly what: string;
  readonly found: string;
  readonly needed: string;
  readonly verdict: Verdict;
  /** What to do; absent when nothing has to be done. */
  readonly fix?: string;
}

/** What one look at something gave. `name` is the error's code, where it had one. */
export type Probe<T> =
  | { readonly state: "read"; readonly value: T }
  | { readonly state: "unread"; readonly name: string; readonly error: string };

/** The settings that checks compare with what they find. */
export type CheckedConfig = Pick<
  Config,
  | "queueUrl"
  | "visibilitySeconds"
  | "waitSeconds"
  | "concurrency"
  | "poolMax"
  | "checkpointSchema"
  | "drainSeconds"
  | "flushSeconds"
  | "stopGraceSeconds"
  | "runDeadlineSeconds"
>;

export interface CheckFacts {
  readonly config: CheckedConfig;
  readonly queue: Probe<QueueFacts>;
  readonly database: Probe<DatabaseFacts>;
  readonly process: ProcessFacts;
}

/** Every line there is to say, in the order of the flow: queue, database, process. */
export function checkLines(facts: CheckFacts): readonly CheckLine[] {
  return [
    ...queueLines(facts.queue, facts.config),
    ...databaseLines(facts.database, facts.config),
    ...processLines(facts.process, facts.config),
  ];
}

/** The worst of them. */
export function verdictOf(lines: readonly CheckLine[]): Verdict {
  if (lines.some((line) => line.verdict === "fail")) return "fail";
  return lines.some((line) => line.verdict === "warn") ? "warn" : "ok";
}
