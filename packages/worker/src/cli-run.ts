// `reprise run <id>`: everything the database knows of one run, and where to look when it knows none of that name.
import { type ListedEffect, listEffects } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import type pg from "pg";
import { placeOf, withDatabase } from "./cli-database.ts";
import { type Column, fields, screenOf, table, toneOf } from "./cli-print.ts";
import { nearest } from "./cli-run-nearest.ts";
import { type AnswerOfRun, type DeliveryOfRun, type RunOfReport, readRun } from "./cli-run-rows.ts";
import { WorkerError } from "./errors.ts";

/** Calls of one thread that are looked at; a run with more is shown with its newest. */
const EFFECTS_MAX = 1_000;

interface Report {
  readonly run: RunOfReport;
  readonly deliveries: readonly DeliveryOfRun[];
  readonly answers: readonly AnswerOfRun[];
  readonly effects: readonly ListedEffect[];
  /** Calls of other runs on the same thread. */
  readonly effects_of_thread: number;
}

/** @throws WorkerError RUN_UNKNOWN */
export async function run(runId: string, options: { readonly json?: true }): Promise<void> {
  const report = await withDatabase("run", (pool) => reportOf(pool, runId));
  process.stdout.write(options.json === true ? `${JSON.stringify(report)}\n` : text(report));
}

async function reportOf(pool: pg.Pool, runId: string): Promise<Report> {
  const found = await readRun(pool, runId);
  if (found === undefined) throw await unknownRun(pool, runId);
  const ofThread = await listEffects(pool, { threadId: found.run.thread_id, max: EFFECTS_MAX });
  const effects = ofThread.filter((effect) => effect.run_id === runId);
  return { ...found, effects, effects_of_thread: ofThread.length - effects.length };
}

/** Ids are typed and pasted: the near ones are offered, and a thread's id is recognised. */
export async function unknownRun(pool: pg.Pool, runId: string): Promise<WorkerError> {
  const near = await nearest(pool, runId);
  const hints = [
    ...(near.onThread.length === 0 ? [] : [`"${runId}" is a thread; its runs: ${near.onThread.join(", ")}`]),
    ...(near.runIds.length === 0 ? [] : [`near it: ${near.runIds.join(", ")}`]),
    `\`${PRODUCT.name} runs\` lists the newest; a message that no worker has received yet is not there`,
  ];
  return new WorkerError("RUN_UNKNOWN", `no run "${runId}" in ${placeOf()}. ${hints.join(". ")}`);
}

const DELIVERIES: readonly Column<DeliveryOfRun>[] = [
  { title: "started", value: (row) => row.started_at },
  { title: "ended", value: (row) => row.ended_at },
  { title: "receive_count", value: (row) => row.receive_count },
  { title: "cause", value: (row) => row.cause },
  { title: "from step", value: (row) => row.resumed_from_step },
  { title: "outcome", value: (row) => row.outcome ?? "(working)", tone: (row) => toneOf(row.outcome) },
  { title: "code", value: (row) => row.outcome_code },
  { title: "trace", value: (row) => row.trace_id },
  { title: "worker", value: (row) => row.worker, prose: true },
  { title: "reason", value: (row) => row.outcome_reason, prose: true },
];
const ANSWERS: readonly Column<AnswerOfRun>[] = [
  { title: "interrupt", value: (row) => row.interrupt_id },
  { title: "recorded", value: (row) => row.recorded_at },
  { title: "used", value: (row) => row.used_at },
];
const EFFECTS: readonly Column<ListedEffect>[] = [
  { title: "call", value: (row) => row.tool_call_id },
  { title: "tool", value: (row) => row.tool },
  { title: "state", value: stateOf, tone: (row) => toneOf(row.state) },
  { title: "effect", value: (row) => row.effect_ref },
  { title: "executions", value: (row) => row.executions },
  { title: "seen", value: (row) => row.seen },
  { title: "first claim", value: (row) => row.first_claim_at },
  { title: "detail", value: (row) => row.detail ?? row.evidence, prose: true },
];

/** A reserved call whose holder's lease is over has an outcome that nobody knows, whatever its row says. */
export function stateOf(effect: Pick<ListedEffect, "state" | "lease_over">): string {
  return effect.state === "reserved" && effect.lease_over ? "reserved, lease over" : effect.state;
}

function text(report: Report): string {
  const { run: row, deliveries, answers, effects } = report;
  const screen = screenOf(process.stdout);
  const faults = `${row.lost_deliveries} lost, ${row.failed_deliveries} failed`;
  const head = fields(
    [
      ["run", row.run_id],
      ["status", row.status, toneOf(row.status)],
      ["cancel asked", row.cancel_requested_at],
      ["thread", row.thread_id],
      ["agent", row.agent],
      ["input hash", row.input_hash],
      ["queue", row.queue_url],
      ["created", row.created_at],
      ["ended", row.ended_at],
      [
        "last checkpoint",
        row.latest_checkpoint_id === null ? null : `${row.latest_checkpoint_id}, step ${row.latest_step}`,
      ],
      ["faults", faults],
      ["error", row.error_code === null ? null : `${row.error_code}: ${row.error_text ?? ""}`, "bad"],
      ["waits for", row.interrupts],
      ["result", row.result],
    ],
    screen,
  );
  const section = <Row>(title: string, rows: readonly Row[], columns: readonly Column<Row>[]): string =>
    rows.length === 0 ? `\n${title}: none\n` : `\n${title}\n${table(rows, columns, screen)}`;
  const others =
    report.effects_of_thread === 0 ? "" : `${report.effects_of_thread} more calls of other runs on this thread\n`;
  return [
    head,
    section("deliveries", deliveries, DELIVERIES),
    section("answers", answers, ANSWERS),
    section("effects", effects, EFFECTS),
    others,
  ].join("");
}
