// The demo's page: the two trees, the checkpoints with their gap, the provider's log, the ledger row, the filter's answer.
import { ATTR, type OtlpTrace, renderTrace } from "@reprise/tracing";
import { type Evidence, rootOf } from "./evidence.ts";

export function page(evidence: Evidence, naive: boolean): string {
  return [
    ...evidence.traces.map((trace) => section(titleOf(rootOf(trace)?.attributes ?? {}), tree(trace))),
    section(
      "Checkpoints in PostgreSQL: a gap of seconds between two steps means that nobody was running",
      evidence.checkpoints
        .map(
          (row) =>
            `  ${String(row.step).padStart(3)}  ${row.source.padEnd(6)} ${row.written}  +${row.gapMs} ms  ${row.worker}`,
        )
        .join("\n"),
    ),
    section(
      naive
        ? "The provider's own request log: two keys, because each was made at the moment of its request"
        : "The provider's own request log: asked twice under one key, charged once",
      evidence.requests
        .map(
          (row) => `  ${row.at}  ${row.id}  key=${row.idempotencyKey ?? "none"}  ${row.outcome} ${row.chargeId ?? "-"}`,
        )
        .join("\n"),
    ),
    section(
      evidence.ledger.length === 0
        ? "The effect ledger: empty, a tool that does not say what it does cannot be recorded"
        : "The effect ledger: one row for the call, two executions, one charge",
      evidence.ledger
        .map(
          (row) =>
            `  ${Object.entries(row)
              .map(([name, value]) => `${name}=${String(value)}`)
              .join(" ")}`,
        )
        .join("\n"),
    ),
    section(
      "GET /traces?where=receive_count>1: the filter you will type at three in the morning",
      evidence.redelivered.map((trace) => `  trace ${trace.traceId}  ${rootOf(trace)?.name ?? ""}`).join("\n"),
    ),
    `Charges: ${evidence.charges.length} (${evidence.charges.join(", ")}).`,
  ].join("\n\n");
}

/** Every statement has a span of its own; on one screen they would hide the run. */
function tree(trace: OtlpTrace): string {
  const isDatabase = (name: string): boolean => /^pg[.-]/.test(name);
  const hidden = trace.spans.filter((span) => isDatabase(span.name)).length;
  const rest = hidden === 0 ? "" : `\n   (and ${hidden} database spans)`;
  return `${renderTrace(trace, { hide: (span) => isDatabase(span.name) })}${rest}`;
}

function titleOf(root: Readonly<Record<string, unknown>>): string {
  return root[ATTR.reconstructed] === true
    ? "Delivery 1, as the next holder found it: the process is gone, these spans were rebuilt from PostgreSQL"
    : `Delivery ${String(root[ATTR.receiveCount])}: resumed from step ${String(root[ATTR.resumedFromStep])}, cause ${String(root[ATTR.redeliveryCause])}`;
}

function section(title: string, body: string): string {
  return `${title}\n${body}`;
}
