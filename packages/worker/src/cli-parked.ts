// `reprise parked`: what nobody will run, why, and its bytes as they came.
import { ATTR } from "@reprise/tracing";
import { withDatabase } from "./cli-database.ts";
import { type Filter, filterOption, wholeOption } from "./cli-options.ts";
import { type Column, jsonLines, screenOf, table, toneOf } from "./cli-print.ts";
import { WorkerError } from "./errors.ts";
import { listParked, type ParkedRow, readParked } from "./run-redrive.ts";
import { queueName } from "./worker.ts";

const LIMIT_MAX = 10_000;
/** A filter looks at this many of the newest rows. */
export const LOOKED_AT_MAX = 10_000;

export interface ParkedOptions {
  readonly where?: string;
  readonly body?: string;
  readonly all?: true;
  readonly limit: string;
  readonly json?: true;
}

/** @throws WorkerError PARKED_UNKNOWN */
export async function parked(options: ParkedOptions): Promise<void> {
  const limit = wholeOption("--limit", options.limit, { min: 1, max: LIMIT_MAX });
  const filter = filterOption(options.where);
  await withDatabase("parked", async (pool) => {
    if (options.body !== undefined) {
      const message = await readParked(pool, options.body);
      if (message === undefined) throw unknownParked(options.body);
      // As received, to the byte, and nothing after it: for a file or a pipe.
      process.stdout.write(message.body);
      return;
    }
    const rows = (await listParked(pool, LOOKED_AT_MAX)).filter(
      (row) => (options.all === true || isOpen(row)) && (filter === undefined || matchesParked(row, filter)),
    );
    const shown = rows.slice(0, limit);
    process.stdout.write(options.json === true ? jsonLines(shown) : text(shown));
  });
}

export function unknownParked(id: string): WorkerError {
  return new WorkerError(
    "PARKED_UNKNOWN",
    `nothing is parked under "${id}": it is neither the number of a row nor a run with a parked message. The list, with what was redriven: parked --all`,
  );
}

/** Redriven since, it is on its way again; its row stays as history. */
function isOpen(row: ParkedRow): boolean {
  return row.redriven_at === null || row.redriven_at < row.parked_at;
}

export function matchesParked(row: ParkedRow, filter: Filter): boolean {
  return filter({
    status: row.run_status,
    [ATTR.runId]: row.run_id,
    [ATTR.threadId]: row.thread_id,
    [ATTR.agentName]: row.agent,
    [ATTR.receiveCount]: row.receive_count,
    [ATTR.outcome]: "parked",
    [ATTR.outcomeCode]: row.code,
    [ATTR.messagingDestination]: queueName(row.queue_url),
    [ATTR.messagingMessageId]: row.sqs_message_id,
    trace_id: row.trace_id,
  });
}

const COLUMNS: readonly Column<ParkedRow>[] = [
  { title: "id", value: (row) => row.parked_id },
  { title: "parked", value: (row) => row.parked_at },
  { title: "code", value: (row) => row.code, tone: () => "bad" },
  { title: "run_id", value: (row) => row.run_id },
  { title: "run is", value: (row) => row.run_status, tone: (row) => toneOf(row.run_status) },
  { title: "receives", value: (row) => row.receive_count },
  { title: "bytes", value: (row) => row.body_bytes },
  { title: "queue", value: (row) => queueName(row.queue_url) },
  { title: "redriven", value: (row) => row.redriven_at },
  { title: "reason", value: (row) => row.reason, prose: true },
];

function text(rows: readonly ParkedRow[]): string {
  return rows.length === 0 ? "nothing is parked\n" : table(rows, COLUMNS, screenOf(process.stdout));
}
