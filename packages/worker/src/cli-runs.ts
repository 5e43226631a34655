// `reprise runs`: the latest runs with what their deliveries say, through the one filter grammar.
import { ATTR, PRODUCT, parseFilter } from "@reprise/tracing";
import { readOne } from "./config.ts";
import { WorkerError } from "./errors.ts";
import { createPool } from "./pool.ts";

const s = PRODUCT.schema;
const LIMIT_MAX = 10_000;

const RECENT = `
  select r.run_id, r.thread_id, r.agent, r.status, r.latest_step, r.error_code, r.interrupts, r.created_at, r.ended_at,
    d.deliveries, d.receive_count, d.cause, d.outcome
  from ${s}.runs r left join lateral (
    select count(*)::int as deliveries, max(receive_count) as receive_count,
      (array_agg(cause order by started_at desc))[1] as cause, (array_agg(outcome order by started_at desc))[1] as outcome
    from ${s}.deliveries where run_id = r.run_id) d on true
  order by r.position desc limit $1`;

export async function runs(options: {
  readonly where?: string;
  readonly limit: string;
  readonly json?: true;
}): Promise<void> {
  const limit = Number(options.limit);
  if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX) {
    throw new WorkerError("CONFIG_INVALID", `--limit is "${options.limit}", not a whole number from 1 to ${LIMIT_MAX}`);
  }
  const filter = options.where === undefined ? undefined : parseFilter(options.where);
  if (filter?.ok === false) throw new WorkerError("CONFIG_INVALID", `--where: ${filter.message}`);
  const pool = createPool({
    connectionString: readOne("databaseUrl"),
    max: 2,
    applicationName: `${PRODUCT.name}-runs`,
    onError: (text) => process.stderr.write(`${PRODUCT.name}: ${text}\n`),
  });
  try {
    const { rows } = await pool.query<Record<string, unknown>>(RECENT, [limit]);
    const chosen = rows.filter((row) => filter === undefined || filter.matches(attributesOf(row)));
    process.stdout.write(options.json === true ? jsonLines(chosen) : table(chosen));
  } finally {
    await pool.end();
  }
}

/** The names the traces use, so that one filter finds a run here and its trace in the backend. */
function attributesOf(row: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return {
    status: row["status"],
    deliveries: row["deliveries"],
    [ATTR.runId]: row["run_id"],
    [ATTR.threadId]: row["thread_id"],
    [ATTR.agentName]: row["agent"],
    [ATTR.receiveCount]: row["receive_count"],
    [ATTR.redelivered]: Number(row["receive_count"] ?? 1) > 1 || Number(row["deliveries"] ?? 1) > 1,
    [ATTR.redeliveryCause]: row["cause"],
    [ATTR.outcome]: row["outcome"],
  };
}

function jsonLines(rows: readonly Record<string, unknown>[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

const COLUMNS = [
  "run_id",
  "thread_id",
  "agent",
  "status",
  "latest_step",
  "deliveries",
  "receive_count",
  "cause",
  "outcome",
  "error_code",
] as const;

function table(rows: readonly Record<string, unknown>[]): string {
  if (rows.length === 0) return "no runs\n";
  const cells = [COLUMNS.map(String), ...rows.map((row) => COLUMNS.map((column) => printable(row[column])))];
  const widths = COLUMNS.map((_, index) => Math.max(...cells.map((line) => (line[index] ?? "").length)));
  return cells
    .map(
      (line) =>
        `${line
          .map((cell, index) => cell.padEnd(widths[index] ?? 0))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}

/** Ids come from whoever may write to the queue: control characters never reach the terminal. */
function printable(value: unknown): string {
  return value === null || value === undefined ? "-" : String(value).replace(/\p{C}/gu, "?").slice(0, 60);
}
