// The ledger as an operator reads it: calls of a thread, of a time, or those whose outcome nobody knows. Never their results.
import { PRODUCT } from "@reprise/tracing";
import type { EffectState, RecordedPolicy } from "./effect.ts";
import type { Queryable } from "./fence.ts";

const EFFECTS = `${PRODUCT.schema}.effects`;

/** One call. Times are dates of PostgreSQL's clock; what was never known is null. */
export interface ListedEffect {
  readonly tool_call_id: string;
  readonly tool: string;
  readonly thread_id: string;
  readonly run_id: string;
  readonly state: EffectState;
  /** Nobody holds it: an outcome, if it comes at all, comes late. True for every settled call. */
  readonly lease_over: boolean;
  readonly policy: RecordedPolicy;
  readonly effect_ref: string | null;
  readonly detail: string | null;
  readonly evidence: string | null;
  readonly provider_request_id: string | null;
  readonly executions: number;
  readonly seen: number;
  readonly result_bytes: number | null;
  readonly first_claim_at: Date;
  readonly settled_at: Date | null;
  readonly unknown_at: Date | null;
  readonly assistant_message_id: string | null;
  readonly position: number | null;
  readonly delivery_id: string;
  readonly receive_count: number | null;
  readonly node_attempt: number;
  readonly holder: string;
  /** What the provider saw as the idempotency key: to search its log with. */
  readonly key: string;
  readonly fence: string;
}

export interface EffectSelection {
  /** The call's id or its key. */
  readonly call?: string;
  readonly threadId?: string;
  /** Calls first claimed no longer ago. */
  readonly sinceMs?: number;
  /** Calls with an unknown outcome: those that say so, and those whose holder's lease is over without a word. */
  readonly unknown?: boolean;
  /** Rows, newest first. */
  readonly max: number;
}

const LIST = `
  select e.tool_call_id, e.tool, e.thread_id, e.run_id, e.state, e.state <> 'reserved' or e.lease_until <= clock_timestamp() as lease_over,
    e.policy, e.effect_ref, e.detail, e.evidence, e.provider_request_id, e.executions, e.seen,
    coalesce(e.result_bytes, octet_length(e.result))::float8 as result_bytes, e.first_claim_at, e.settled_at, e.unknown_at,
    e.assistant_message_id, e.position, e.delivery_id, e.receive_count, e.node_attempt, e.holder, e.key, e.fence::text as fence
  from ${EFFECTS} e
  where ($1::text is null or e.thread_id = $1) and ($2::text is null or e.tool_call_id = $2 or e.key = $2)
    and ($3::bigint is null or e.first_claim_at > clock_timestamp() - $3::bigint * interval '1 millisecond')
    and (not $4::boolean or e.state = 'unknown' or (e.state = 'reserved' and e.lease_until <= clock_timestamp()))
  order by e.first_claim_at desc limit $5`;

/** Reads the whole table unless a thread is named: the ledger has no index on time, which every claim would pay for. */
export async function listEffects(db: Queryable, selection: EffectSelection): Promise<readonly ListedEffect[]> {
  const { threadId, call, sinceMs, unknown = false, max } = selection;
  const values = [threadId ?? null, call ?? null, sinceMs === undefined ? null : Math.trunc(sinceMs), unknown, max];
  const { rows } = await db.query(LIST, values);
  // The shape is the select list of the statement.
  return rows as unknown as readonly ListedEffect[];
}
