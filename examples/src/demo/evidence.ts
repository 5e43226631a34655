// The demo's evidence: read from the provider's log, the exported spans and PostgreSQL; nothing from the script that played it.
import { ATTR, type OtlpSpan, type OtlpTrace } from "@reprise/tracing";
import type { RequestEntry } from "../support/payments-log.ts";
import type { Stage } from "./story.ts";

export type CheckpointRow = {
  readonly step: number;
  readonly source: string;
  readonly worker: string;
  readonly written: string;
  readonly gapMs: number;
};
export type LedgerRow = Readonly<Record<string, unknown>>;

export type Evidence = {
  readonly deliveries: number;
  readonly requests: readonly RequestEntry[];
  readonly charges: readonly string[];
  readonly ledger: readonly LedgerRow[];
  readonly checkpoints: readonly CheckpointRow[];
  /** Traces of the run, oldest first. */
  readonly traces: readonly OtlpTrace[];
  /** What `receive_count>1` finds. */
  readonly redelivered: readonly OtlpTrace[];
};

/** The JSON object of `npm run demo -- --json`. */
export type Verdict = {
  readonly deliveries: number;
  readonly provider_requests: number;
  readonly charges: number;
  readonly key_reused: boolean;
  readonly second_delivery: Readonly<Record<string, unknown>>;
  readonly first_delivery: { readonly obituary: boolean };
  readonly filter_receive_count_gt_1: number;
};

export async function collect(stage: Stage): Promise<Evidence> {
  const { pool, runId, threadId, customer, payments, stack } = stage;
  const sink = stack.sink;
  if (sink === undefined) throw new TypeError("the demo always starts its own sink");
  const deliveries = await pool.query<{ n: number }>(
    "select count(*)::int as n from reprise.deliveries where run_id = $1",
    [runId],
  );
  const ledger = await pool.query<LedgerRow>(
    `select key, tool, tool_call_id, policy, state, executions, seen, effect_ref from reprise.effects where thread_id = $1`,
    [threadId],
  );
  return {
    deliveries: deliveries.rows[0]?.n ?? 0,
    requests: await payments.requests({ method: "POST", customer }),
    charges: (await payments.charges(customer)).map((charge) => charge.id),
    ledger: ledger.rows,
    checkpoints: await checkpointsOf(stage),
    traces: sink.traces(`run_id=${runId}`),
    redelivered: sink.traces("receive_count>1"),
  };
}

/** The seed's question to the checkpoint table; the writer comes from the metadata our saver adds, since LangGraph's tables have no such column. */
async function checkpointsOf({ pool, threadId }: Stage): Promise<readonly CheckpointRow[]> {
  const { rows } = await pool.query<CheckpointRow>(
    `select (metadata->>'step')::int as step, metadata->>'source' as source, metadata->>'worker' as worker,
       to_char((checkpoint->>'ts')::timestamptz, 'HH24:MI:SS.MS') as written,
       coalesce(round(extract(epoch from (checkpoint->>'ts')::timestamptz
         - lag((checkpoint->>'ts')::timestamptz) over (order by checkpoint_id)) * 1000), 0)::int as "gapMs"
     from checkpoints where thread_id = $1 and checkpoint_ns = '' order by checkpoint_id`,
    [threadId],
  );
  return rows;
}

/** Judges nothing that the evidence does not say. */
export function verdictOf(evidence: Evidence): Verdict {
  const keys = new Set(evidence.requests.map((request) => request.idempotencyKey));
  const roots = evidence.traces.map((trace) => rootOf(trace));
  const second = roots.find((root) => root?.attributes[ATTR.receiveCount] === 2);
  const first = roots.find((root) => root?.attributes[ATTR.receiveCount] === 1);
  return {
    deliveries: evidence.deliveries,
    provider_requests: evidence.requests.length,
    charges: evidence.charges.length,
    key_reused: evidence.requests.length > 1 && keys.size === 1 && !keys.has(null),
    second_delivery: {
      receive_count: second?.attributes[ATTR.receiveCount],
      redelivered: second?.attributes[ATTR.redelivered],
      redelivery_cause: second?.attributes[ATTR.redeliveryCause],
      resumed_from_step: second?.attributes[ATTR.resumedFromStep],
      sampling_reason: second?.attributes[ATTR.samplingReason],
    },
    first_delivery: { obituary: first?.attributes[ATTR.reconstructed] === true },
    filter_receive_count_gt_1: evidence.redelivered.length,
  };
}

export function rootOf(trace: OtlpTrace): OtlpSpan | undefined {
  const ids = new Set(trace.spans.map((span) => span.spanId));
  return trace.spans.find((span) => span.parentSpanId === undefined || !ids.has(span.parentSpanId));
}
