// A completion: what is told of a run that ended or waits for a human. Pure: a row in, a report or a message body out.
import { z } from "zod";
import type { RunStatus } from "./run.ts";

/** The schema of completion messages. Readers ignore fields they do not know. */
export const COMPLETION_SCHEMA = 1;

/** A question that a run asks a human; an answer names its id. */
export interface AskedInterrupt {
  readonly id: string;
  readonly value: unknown;
}

export type UnfinishedStatus = "failed" | "cancelled" | "rejected" | "parked" | "abandoned";

/** How a run stands once there is something to tell: the same union for `waitForRun` and for a completion message. */
export type RunReport =
  /** `result` is what the agent's `result` made of the final state, or `{ truncated: true, length, start }` above 64 KB. */
  | { readonly state: "finished"; readonly result: unknown }
  | { readonly state: "interrupted"; readonly interrupts: readonly AskedInterrupt[] }
  | { readonly state: UnfinishedStatus; readonly code: string; readonly text: string };

/** The columns of a run, or of its copy in the outbox, that a report is made of. */
export interface ReportedRow {
  readonly status: RunStatus;
  readonly result: string | null;
  readonly interrupts: string | null;
  readonly error_code: string | null;
  readonly error_text: string | null;
}

/** @returns undefined while the run is queued or running */
export function reportOf(row: ReportedRow): RunReport | undefined {
  switch (row.status) {
    case "queued":
    case "running":
      return undefined;
    case "finished":
      return { state: "finished", result: readJson(row.result) };
    case "interrupted":
      return { state: "interrupted", interrupts: interruptsOf(readJson(row.interrupts)) };
    case "failed":
    case "cancelled":
    case "rejected":
    case "parked":
    case "abandoned":
      return { state: row.status, code: row.error_code ?? "UNKNOWN", text: row.error_text ?? "" };
    default:
      return row.status satisfies never;
  }
}

/** What the outbox knows of one completion. */
export interface CompletionRow extends ReportedRow {
  readonly completion_id: string;
  readonly run_id: string;
  readonly thread_id: string;
  readonly agent: string;
  readonly created_at: Date;
}

/** Queues took 256 KiB until August 2025, and many are still limited to that; the rest is for message attributes. */
const BODY_MAX_BYTES = 262_144 - 2_048;

/** A completion as a message body. What would not fit in 256 KiB is left out and said to be: it stands in the run's row. */
export function completionBody(row: CompletionRow): string {
  const report = reportOf(row);
  if (report === undefined) throw new TypeError(`run ${row.run_id} is ${row.status}: there is nothing to tell yet`);
  const head = {
    schema: COMPLETION_SCHEMA,
    kind: "completion",
    completion_id: row.completion_id,
    run_id: row.run_id,
    thread_id: row.thread_id,
    agent: row.agent,
    status: report.state,
    at: row.created_at.toISOString(),
  };
  const whole = JSON.stringify({ ...head, ...contentOf(report) });
  if (Buffer.byteLength(whole) <= BODY_MAX_BYTES) return whole;
  return JSON.stringify({ ...head, ...contentOf(withoutValues(report)), omitted: true });
}

function contentOf(report: RunReport): Readonly<Record<string, unknown>> {
  switch (report.state) {
    case "finished":
      return { result: report.result };
    case "interrupted":
      return { interrupts: report.interrupts };
    default:
      return { error: { code: report.code, text: report.text } };
  }
}

/** Ids stay: without them nobody could answer. */
function withoutValues(report: RunReport): RunReport {
  switch (report.state) {
    case "finished":
      return { state: "finished", result: null };
    case "interrupted":
      return { state: "interrupted", interrupts: report.interrupts.map(({ id }) => ({ id, value: null })) };
    default:
      return { ...report, text: report.text.slice(0, 1_000) };
  }
}

/** A completion as its reader wants it. The same `completionId` again is the same news: delivery is at least once. */
export type Completion = RunReport & {
  readonly completionId: string;
  readonly runId: string;
  readonly threadId: string;
  readonly agent: string;
  /** Values were too large for a message: read them with `waitForRun`. */
  readonly omitted: boolean;
};

const completionSchema = z.object({
  schema: z.number().int().min(COMPLETION_SCHEMA),
  kind: z.literal("completion"),
  completion_id: z.string(),
  run_id: z.string(),
  thread_id: z.string(),
  agent: z.string(),
  status: z.enum(["finished", "interrupted", "failed", "cancelled", "rejected", "parked", "abandoned"]),
  result: z.unknown().optional(),
  interrupts: z.unknown().optional(),
  error: z.object({ code: z.string(), text: z.string() }).optional(),
  omitted: z.boolean().default(false),
});

/** Reads the body of a message from a reply queue. @returns undefined when it is something else */
export function parseCompletion(body: string): Completion | undefined {
  const read = completionSchema.safeParse(readJson(body));
  if (!read.success) return undefined;
  const { completion_id: completionId, run_id: runId, thread_id: threadId, agent, status, omitted } = read.data;
  const head = { completionId, runId, threadId, agent, omitted };
  switch (status) {
    case "finished":
      return { ...head, state: status, result: read.data.result ?? null };
    case "interrupted":
      return { ...head, state: status, interrupts: interruptsOf(read.data.interrupts) };
    default:
      return { ...head, state: status, ...(read.data.error ?? { code: "UNKNOWN", text: "" }) };
  }
}

const interruptSchema = z.object({ id: z.string(), value: z.unknown().optional() });

function interruptsOf(value: unknown): readonly AskedInterrupt[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((item: unknown) => {
    const read = interruptSchema.safeParse(item);
    return read.success ? [{ id: read.data.id, value: read.data.value ?? null }] : [];
  });
}

/** Interrupts as a row keeps them. Where the whole is longer than `max` characters the values go and the ids stay. */
export function interruptsText(interrupts: readonly { readonly id?: string | undefined }[], max: number): string {
  const whole = JSON.stringify(interrupts);
  if (whole.length <= max) return whole;
  return JSON.stringify(interrupts.map(({ id }) => ({ id, value: { truncated: true } })));
}

function readJson(text: string | null): unknown {
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    return null;
  }
}

/** The configured reply queues: separated by commas or spaces, compared letter by letter. */
export function replyQueues(setting: string | undefined): ReadonlySet<string> {
  return new Set((setting ?? "").split(/[\s,]+/).filter((url) => url !== ""));
}
