// `reprise effects`: the ledger for people, for spreadsheets and for programs.
import { type ListedEffect, listEffects } from "@reprise/tools";
import { ATTR, PRODUCT } from "@reprise/tracing";
import { withDatabase } from "./cli-database.ts";
import { ageOption, type Filter, filterOption, invalid, wholeOption } from "./cli-options.ts";
import { type Column, csv, jsonLines, screenOf, table, toneOf } from "./cli-print.ts";
import { stateOf } from "./cli-run.ts";

const LIMIT_MAX = 1_000_000;
/** A filter looks at this many of the newest calls. */
const LOOKED_AT_MAX = 100_000;

/** Columns of the export, in this order: programs read them by name. */
const CSV_COLUMNS = [
  "first_claim_at",
  "settled_at",
  "unknown_at",
  "tool",
  "state",
  "lease_over",
  "policy",
  "thread_id",
  "run_id",
  "tool_call_id",
  "assistant_message_id",
  "effect_ref",
  "provider_request_id",
  "executions",
  "seen",
  "detail",
  "evidence",
  "result_bytes",
  "delivery_id",
  "receive_count",
  "node_attempt",
  "holder",
  "key",
] as const satisfies readonly (keyof ListedEffect)[];

export interface EffectsOptions {
  readonly unknown?: true;
  readonly since?: string;
  readonly thread?: string;
  readonly where?: string;
  readonly limit: string;
  readonly csv?: true;
  readonly json?: true;
}

export async function effects(options: EffectsOptions): Promise<void> {
  if (options.csv === true && options.json === true) throw invalid("choose --csv or --json");
  const limit = wholeOption("--limit", options.limit, { min: 1, max: LIMIT_MAX });
  const filter = filterOption(options.where);
  const sinceMs = options.since === undefined ? undefined : ageOption("--since", options.since);
  const rows = await withDatabase("effects", (pool) =>
    listEffects(pool, {
      max: filter === undefined ? limit : LOOKED_AT_MAX,
      unknown: options.unknown === true,
      ...(sinceMs === undefined ? {} : { sinceMs }),
      ...(options.thread === undefined ? {} : { threadId: options.thread }),
    }),
  );
  const shown = rows.filter((row) => filter === undefined || matchesEffect(row, filter)).slice(0, limit);
  process.stdout.write(formatted(shown, options));
  if (rows.length === LOOKED_AT_MAX)
    process.stderr.write(`${PRODUCT.name}: looked at the newest ${LOOKED_AT_MAX} calls; use --since\n`);
}

function formatted(rows: readonly ListedEffect[], options: EffectsOptions): string {
  if (options.json === true) return jsonLines(rows);
  if (options.csv === true) return csv(rows, CSV_COLUMNS);
  if (rows.length === 0) return options.unknown === true ? "no call has an unknown outcome\n" : "no calls\n";
  const hint =
    options.unknown === true
      ? `\nfind out at the provider, then: ${PRODUCT.name} settle <call> --succeeded|--failed --evidence "..."\n`
      : "";
  return `${table(rows, COLUMNS, screenOf(process.stdout))}${hint}`;
}

/** A call's state is both its `status` here and its `tool_outcome` on spans; `outcome` would be its delivery's. */
function matchesEffect(row: ListedEffect, filter: Filter): boolean {
  return filter({
    status: row.state,
    [ATTR.toolOutcome]: row.state,
    [ATTR.toolName]: row.tool,
    [ATTR.toolCallId]: row.tool_call_id,
    [ATTR.toolPolicy]: row.policy,
    [ATTR.toolEffectRef]: row.effect_ref,
    [ATTR.toolEffectSeen]: row.seen,
    [ATTR.threadId]: row.thread_id,
    [ATTR.runId]: row.run_id,
    [ATTR.deliveryId]: row.delivery_id,
    [ATTR.receiveCount]: row.receive_count,
    [ATTR.nodeAttempt]: row.node_attempt,
    [ATTR.worker]: row.holder,
  });
}

const COLUMNS: readonly Column<ListedEffect>[] = [
  { title: "first claim", value: (row) => row.first_claim_at },
  { title: "tool", value: (row) => row.tool },
  { title: "call", value: (row) => row.tool_call_id },
  { title: "state", value: stateOf, tone: (row) => toneOf(row.state) },
  { title: "policy", value: (row) => row.policy },
  { title: "effect", value: (row) => row.effect_ref },
  { title: "runs", value: (row) => row.executions },
  { title: "seen", value: (row) => row.seen },
  { title: "thread_id", value: (row) => row.thread_id },
  { title: "run_id", value: (row) => row.run_id },
  { title: "detail", value: (row) => row.evidence ?? row.detail, prose: true },
];
