// `reprise runs`: the latest runs with what their deliveries say, through the one filter grammar.
import { ATTR, PRODUCT } from "@reprise/tracing";
import type pg from "pg";
import { withDatabase } from "./cli-database.ts";
import { type Filter, filterOption, wholeOption } from "./cli-options.ts";
import { type Column, jsonLines, screenOf, table, toneOf } from "./cli-print.ts";

const s = PRODUCT.schema;
const LIMIT_MAX = 10_000;
/** A filter looks at this many of the newest runs, in pages; older ones are said not to have been looked at. */
const LOOKED_AT_MAX = 10_000;
const PAGE = 500;
/** Deliveries of one run that a filter sees, newest first. */
const DELIVERIES_MAX = 100;

interface DeliverySummary {
  readonly delivery_id: string;
  readonly sqs_message_id: string;
  readonly receive_count: number | null;
  readonly cause: string | null;
  readonly outcome: string | null;
  readonly outcome_code: string | null;
  readonly resumed_from_step: number | null;
  readonly worker: string;
}

export interface RunSummary {
  readonly run_id: string;
  readonly thread_id: string;
  readonly agent: string;
  readonly status: string;
  readonly latest_step: number | null;
  readonly error_code: string | null;
  readonly interrupts: string | null;
  readonly created_at: Date;
  readonly ended_at: Date | null;
  readonly position: string;
  readonly deliveries: number;
  readonly latest: readonly DeliverySummary[];
}

const RECENT = `
  select r.run_id, r.thread_id, r.agent, r.status, r.latest_step, r.error_code, r.interrupts, r.created_at, r.ended_at,
    r.position::text as position, (select count(*)::int from ${s}.deliveries where run_id = r.run_id) as deliveries,
    coalesce((select json_agg(row_to_json(d)) from (
      select delivery_id, sqs_message_id, receive_count, cause, outcome, outcome_code, resumed_from_step, worker
      from ${s}.deliveries where run_id = r.run_id order by started_at desc limit ${DELIVERIES_MAX}) d), '[]') as latest
  from ${s}.runs r where ($1::bigint is null or r.position < $1) order by r.position desc limit $2`;

export interface RunsOptions {
  readonly where?: string;
  readonly limit: string;
  readonly json?: true;
}

export async function runs(options: RunsOptions): Promise<void> {
  const limit = wholeOption("--limit", options.limit, { min: 1, max: LIMIT_MAX });
  const filter = filterOption(options.where);
  await withDatabase("runs", async (pool) => {
    const { rows, complete } = await recentRuns(pool, { limit, filter });
    if (!complete) {
      process.stderr.write(
        `${PRODUCT.name}: looked at the newest ${LOOKED_AT_MAX} runs; older ones were not looked at\n`,
      );
    }
    const shown = rows.map((row) => lineOf(row, filter));
    process.stdout.write(options.json === true ? jsonLines(shown) : text(shown));
  });
}

interface Found {
  readonly rows: readonly RunSummary[];
  /** False when a filter stopped before the oldest run. */
  readonly complete: boolean;
}

async function recentRuns(
  pool: pg.Pool,
  { limit, filter }: { readonly limit: number; readonly filter: Filter | undefined },
): Promise<Found> {
  const found: RunSummary[] = [];
  let before: string | null = null;
  for (let seen = 0; seen < LOOKED_AT_MAX; seen += PAGE) {
    const take = filter === undefined ? Math.min(PAGE, limit - found.length) : PAGE;
    const { rows }: { rows: RunSummary[] } = await pool.query<RunSummary>(RECENT, [before, take]);
    found.push(...rows.filter((row) => filter === undefined || matching(row, filter) !== undefined));
    if (found.length >= limit || rows.length < take) return { rows: found.slice(0, limit), complete: true };
    before = rows.at(-1)?.position ?? null;
  }
  return { rows: found, complete: false };
}

/**
 * A run matches when one of its deliveries does, as a trace matches by one of its spans: `receive_count>1 and
 * cause=visibility_expired` means one delivery that has both. @returns the newest that does
 */
export function matching(row: RunSummary, filter: Filter): DeliverySummary | "run" | undefined {
  if (row.latest.length === 0) return filter(attributesOf(row, undefined)) ? "run" : undefined;
  return row.latest.find((delivery) => filter(attributesOf(row, delivery)));
}

/** The names the traces use, so that one filter finds a run here and its trace in the backend. */
function attributesOf(row: RunSummary, delivery: DeliverySummary | undefined): Readonly<Record<string, unknown>> {
  return {
    status: row.status,
    deliveries: row.deliveries,
    [ATTR.runId]: row.run_id,
    [ATTR.threadId]: row.thread_id,
    [ATTR.agentName]: row.agent,
    [ATTR.deliveryId]: delivery?.delivery_id,
    [ATTR.messagingMessageId]: delivery?.sqs_message_id,
    [ATTR.receiveCount]: delivery?.receive_count,
    [ATTR.redelivered]: (delivery?.receive_count ?? 1) > 1 || row.deliveries > 1,
    [ATTR.redeliveryCause]: delivery?.cause,
    [ATTR.outcome]: delivery?.outcome,
    [ATTR.outcomeCode]: delivery?.outcome_code ?? row.error_code,
    [ATTR.resumedFromStep]: delivery?.resumed_from_step,
    [ATTR.worker]: delivery?.worker,
  };
}

/** One line: the run, the highest receive count, and the delivery that matched, else the newest. */
function lineOf(row: RunSummary, filter: Filter | undefined): Line {
  const { latest, position: _position, ...run } = row;
  const matched = filter === undefined ? undefined : matching(row, filter);
  const shown = matched === undefined || matched === "run" ? latest[0] : matched;
  const counts = latest.flatMap(({ receive_count }) => (receive_count === null ? [] : [receive_count]));
  return {
    ...run,
    receive_count: counts.length === 0 ? null : Math.max(...counts),
    cause: shown?.cause ?? null,
    outcome: shown?.outcome ?? null,
  };
}

type Line = Omit<RunSummary, "latest" | "position"> & {
  readonly receive_count: number | null;
  readonly cause: string | null;
  readonly outcome: string | null;
};

const COLUMNS: readonly Column<Line>[] = [
  { title: "run_id", value: (row) => row.run_id },
  { title: "thread_id", value: (row) => row.thread_id },
  { title: "agent", value: (row) => row.agent },
  { title: "status", value: (row) => row.status, tone: (row) => toneOf(row.status) },
  { title: "step", value: (row) => row.latest_step },
  { title: "deliveries", value: (row) => row.deliveries },
  { title: "receive_count", value: (row) => row.receive_count },
  { title: "cause", value: (row) => row.cause },
  { title: "outcome", value: (row) => row.outcome, tone: (row) => toneOf(row.outcome) },
  { title: "error_code", value: (row) => row.error_code },
];

function text(rows: readonly Line[]): string {
  return rows.length === 0 ? "no runs\n" : table(rows, COLUMNS, screenOf(process.stdout));
}
