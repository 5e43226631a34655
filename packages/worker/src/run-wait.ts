// Waits for a run from outside: asks its row until it has ended or asks a human, for a bounded time.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import { type RunReport, reportOf } from "./completion.ts";
import { errorText, WorkerError } from "./errors.ts";
import { pause } from "./intake-pause.ts";
import type { RunStatus } from "./run.ts";

export interface WaitOptions {
  /** The database of the worker. A `pg.Pool` fits; read access to the runs is enough. */
  readonly pool: Queryable;
  /** Milliseconds until RUN_WAIT_TIMEOUT. Default five minutes. */
  readonly timeoutMs?: number;
  /** Ends the wait with the signal's reason. */
  readonly signal?: AbortSignal;
  /** Interrupts already answered: the run is waited for until it ends or asks something else. */
  readonly answered?: readonly string[];
  /** For tests. */
  readonly time?: WaitTime;
}

export interface WaitTime {
  now(): number;
  random(): number;
  pause(ms: number, signal: AbortSignal | undefined): Promise<void>;
}

const realTime: WaitTime = { now: () => performance.now(), random: Math.random, pause };

const TIMEOUT_MS = 300_000;
/** Asked again after this, half as long again each time, up to the maximum; jittered so that many waiters spread out. */
const POLL = { firstMs: 100, maxMs: 2_000, growth: 1.5 } as const;

/**
 * Resolves when the run has ended, or waits for a human. A run that the database does not know yet is waited for as well:
 * its message may not have been received.
 *
 * @throws WorkerError RUN_WAIT_TIMEOUT after `timeoutMs`, with the last status, or that the run was never seen
 * @throws the signal's reason when it fires; a database error that waiting does not mend (a lost connection is waited out)
 */
export async function waitForRun(runId: string, options: WaitOptions): Promise<RunReport> {
  const { pool, timeoutMs = TIMEOUT_MS, signal, answered = [], time = realTime } = options;
  const endsAt = time.now() + timeoutMs;
  let waitMs: number = POLL.firstMs;
  for (;;) {
    signal?.throwIfAborted();
    const seen = await look(pool, runId);
    if (seen.state === "told" && !isAnswered(seen.report, answered)) return seen.report;
    const leftMs = endsAt - time.now();
    if (leftMs <= 0) throw timeoutError(runId, timeoutMs, seen);
    await time.pause(Math.min(leftMs, waitMs * (1 - 0.25 * time.random())), signal);
    waitMs = Math.min(POLL.maxMs, waitMs * POLL.growth);
  }
}

type Seen =
  | { readonly state: "told"; readonly status: RunStatus; readonly report: RunReport }
  | { readonly state: "open"; readonly status: RunStatus }
  | { readonly state: "unseen" }
  | { readonly state: "unreachable"; readonly error: unknown };

const rowSchema = z.object({
  status: z.custom<RunStatus>((value) => typeof value === "string"),
  result: z.string().nullable(),
  interrupts: z.string().nullable(),
  error_code: z.string().nullable(),
  error_text: z.string().nullable(),
});

async function look(pool: Queryable, runId: string): Promise<Seen> {
  let rows: readonly unknown[];
  try {
    const found = await pool.query(
      `select status, result, interrupts, error_code, error_text from ${PRODUCT.schema}.runs where run_id = $1`,
      [runId],
    );
    rows = found.rows;
  } catch (error) {
    if (!isPassing(error)) throw error;
    return { state: "unreachable", error };
  }
  if (rows[0] === undefined) return { state: "unseen" };
  const row = rowSchema.parse(rows[0]);
  const report = reportOf(row);
  return report === undefined ? { state: "open", status: row.status } : { state: "told", status: row.status, report };
}

/** Between the send of an answer and its admission the row still shows the question that was answered. */
function isAnswered(report: RunReport, answered: readonly string[]): boolean {
  return (
    report.state === "interrupted" &&
    report.interrupts.length > 0 &&
    report.interrupts.every(({ id }) => answered.includes(id))
  );
}

/** A restart, a lost connection, no free connection: SQLSTATE classes 08, 53 and 57, or no SQLSTATE at all. */
function isPassing(error: unknown): boolean {
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
  return typeof code !== "string" || !/^[0-9A-Z]{5}$/.test(code) || /^(08|53|57)/.test(code);
}

function timeoutError(runId: string, timeoutMs: number, seen: Seen): WorkerError {
  const text = `run ${runId} ${standing(seen)} after ${timeoutMs} ms; the run goes on, and waiting again is safe`;
  return new WorkerError("RUN_WAIT_TIMEOUT", text, seen.state === "unreachable" ? { cause: seen.error } : undefined);
}

function standing(seen: Seen): string {
  switch (seen.state) {
    case "told":
      return "still shows only questions that were answered";
    case "open":
      return `is ${seen.status}`;
    case "unseen":
      return "was never seen here (its message was not received yet, or this is another database)";
    case "unreachable":
      return `could not be looked up (${errorText(seen.error)})`;
    default:
      return seen satisfies never;
  }
}
