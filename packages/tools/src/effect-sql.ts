// The statements of the Postgres ledger. Each is one round trip and needs no session state, so a transaction pooler is fine.
import { PRODUCT } from "@reprise/tracing";

const EFFECTS = `${PRODUCT.schema}.effects`;
const EXECUTIONS = `${PRODUCT.schema}.effect_executions`;

/** The columns of a row as `rowOf` reads them; times as epoch milliseconds, bigints as text. */
const rowColumns = (e: string): string => `
  ${e}.key, ${e}.thread_id, ${e}.assistant_message_id, ${e}.position, ${e}.tool, ${e}.tool_call_id, ${e}.args_fingerprint,
  ${e}.identity_fingerprint,
  ${e}.policy, ${e}.retention_ms::float8 as retention_ms, ${e}.state, ${e}.fence::text as fence,
  ${e}.thread_fence::text as thread_fence, ${e}.holder, ${e}.seen, ${e}.executions,
  (extract(epoch from ${e}.lease_until) * 1000)::float8 as lease_until_ms,
  (extract(epoch from ${e}.first_claim_at) * 1000)::float8 as first_claim_at_ms,
  ${e}.result, ${e}.result_sha256, ${e}.result_bytes::float8 as result_bytes,
  ${e}.result_ref, ${e}.effect_ref, ${e}.detail, ${e}.evidence,
  ${e}.provider_request_id`;

/**
 * The functions are in migrate-tools-effects.ts. No row is locked, and nothing is written, unless the row changes hands.
 *
 * $1 key $2 thread $3 assistant message $4 position $5 tool $6 call id $7 fingerprint $8 identity's fingerprint $9 policy
 * $10 retention ms $11 nonce $12 thread fence $13 thread of $12 $14 holder $15 lease ms $16 run $17 delivery $18 receive count
 * $19 node attempt
 */
export const CLAIM_SQL = `select ${PRODUCT.schema}.claim_effect($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
  $17, $18, $19) as answer`;

/** $1 key $2 fence $3 outcome $4 result $5 sha256 $6 bytes $7 reference $8 effect ref $9 detail $10 evidence $11 request id */
export const SETTLE_SQL = `select ${PRODUCT.schema}.settle_effect($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) as recorded`;

/**
 * Adds up claims that were answered without a write. In the order of the keys, so that two processes cannot lock each other out.
 *
 * $1 keys $2 counts
 */
export const COUNT_SEEN_SQL = `
with due as (
  select e.key, n.times from ${EFFECTS} e join unnest($1::text[], $2::int[]) n (key, times) using (key) order by e.key for update of e
)
update ${EFFECTS} e set seen = e.seen + due.times from due where e.key = due.key`;

/** $1 key $2 fence. Only an untouched first claim: with a second execution nobody can say that nothing happened. */
export const RELEASE_SQL = `
delete from ${EFFECTS} where key = $1 and fence = $2::bigint and state = 'reserved' and executions = 1 returning key`;

export const FIND_SQL = `select ${rowColumns("e")} from ${EFFECTS} e where e.key = $1`;

/** $1 thread $2 tool $3 fingerprint of the identity, else of the arguments $4 own key $5 assistant message */
export const FIND_ECHO_SQL = `select ${PRODUCT.schema}.find_echo($1, $2, $3, $4, $5) as echo`;

/** The inline first execution counts as open until it ended, in time or late. */
export const OPEN_EXECUTIONS_SQL = `
select e.key, coalesce(e.first_fence, e.fence)::text as fence, e.thread_id, e.tool, e.tool_call_id, e.policy, e.node_attempt,
  (extract(epoch from e.first_claim_at) * 1000)::float8 as started_at_ms
from ${EFFECTS} e
where e.delivery_id = $1 and e.first_ended_at is null
  and not exists (select 1 from ${EXECUTIONS} x where x.key = e.key and x.fence = coalesce(e.first_fence, e.fence))
union all
select x.key, x.fence::text, x.thread_id, e.tool, e.tool_call_id, e.policy, x.node_attempt,
  (extract(epoch from x.started_at) * 1000)::float8
from ${EXECUTIONS} x join ${EFFECTS} e using (key)
where x.delivery_id = $1 and x.ended_at is null
order by started_at_ms`;
