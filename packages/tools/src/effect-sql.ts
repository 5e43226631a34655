// The statements of the Postgres ledger. Each is one round trip and needs no session state, so a transaction pooler is fine.
import { PRODUCT } from "@reprise/tracing";
import { PARKED_DETAIL } from "./effect-decide.ts";

const EFFECTS = `${PRODUCT.schema}.effects`;
const EXECUTIONS = `${PRODUCT.schema}.effect_executions`;
const LEASES = `${PRODUCT.schema}.thread_leases`;
const FENCES = `${PRODUCT.schema}.effect_fences`;

/** The columns of a row as `rowOf` reads them; times as epoch milliseconds, bigints as text. */
const rowColumns = (e: string): string => `
  ${e}.key, ${e}.thread_id, ${e}.assistant_message_id, ${e}.position, ${e}.tool, ${e}.tool_call_id, ${e}.args_fingerprint,
  ${e}.policy, ${e}.retention_ms::float8 as retention_ms, ${e}.state, ${e}.fence::text as fence,
  ${e}.thread_fence::text as thread_fence, ${e}.holder, ${e}.seen, ${e}.executions,
  (extract(epoch from ${e}.lease_until) * 1000)::float8 as lease_until_ms,
  (extract(epoch from ${e}.first_claim_at) * 1000)::float8 as first_claim_at_ms,
  ${e}.result, ${e}.result_sha256, ${e}.result_bytes::float8 as result_bytes, ${e}.effect_ref, ${e}.detail, ${e}.evidence,
  ${e}.provider_request_id`;

const windowOpen = (retention: string): string =>
  `coalesce(e.first_claim_at + ${retention} * interval '1 millisecond' > clock_timestamp(), false)`;

/**
 * `stepOf` of effect-decide.ts in SQL. It always updates, so that it always returns: a filtered upsert gives the loser
 * no row, and a SELECT beside it reads a snapshot that can miss the winner. The extra row version also counts `seen`.
 * The first execution is the row itself; only later ones write to effect_executions.
 *
 * $1 key $2 thread $3 assistant message $4 position $5 tool $6 call id $7 fingerprint $8 policy $9 retention ms $10 nonce
 * $11 thread fence $12 holder $13 lease ms $14 run $15 delivery $16 receive count $17 node attempt $18 thread of $11
 */
export const CLAIM_SQL = `
with thread as (
  select $11::bigint is null
      or exists (select 1 from ${LEASES} l where l.thread_id = $18 and l.fence = $11::bigint) as current
), claimed as (
  insert into ${EFFECTS} as e (key, thread_id, assistant_message_id, position, tool, tool_call_id, args_fingerprint, policy,
    retention_ms, nonce, fence, thread_fence, holder, lease_until, first_fence, run_id, delivery_id, receive_count, node_attempt)
  select $1, $2, $3, $4::int, $5, $6, $7, $8, $9::bigint, $10, f.fence, $11::bigint, $12,
    clock_timestamp() + $13::bigint * interval '1 millisecond', f.fence, $14, $15, $16::int, $17::int
  from thread, lateral (select nextval('${FENCES}') as fence where thread.current) f
  on conflict (key) do update set
    (state, nonce, fence, thread_fence, holder, lease_until, executions, seen, unknown_at, detail) = (
    select case s.step when 'take' then 'reserved' when 'park' then 'unknown' else e.state end,
      case s.step when 'take' then excluded.nonce else e.nonce end,
      case s.step when 'take' then excluded.fence else e.fence end,
      case s.step when 'take' then coalesce(excluded.thread_fence, e.thread_fence) else e.thread_fence end,
      case s.step when 'take' then excluded.holder else e.holder end,
      case s.step when 'take' then excluded.lease_until else e.lease_until end,
      case s.step when 'take' then e.executions + 1 else e.executions end,
      case s.step when 'own' then e.seen else e.seen + 1 end,
      case s.step when 'park' then clock_timestamp() else e.unknown_at end,
      case s.step when 'park' then '${PARKED_DETAIL.replaceAll("'", "''")}' else e.detail end
    from (
      select case
        when m.differs or m.stale or e.state <> 'reserved' then 'keep'
        when e.nonce = excluded.nonce then 'own'
        when m.resendable and (m.expired or coalesce(e.thread_fence < excluded.thread_fence, false)) then 'take'
        when not m.expired then 'keep'
        when e.policy = 'lookup' and excluded.policy = 'lookup' then 'take'
        else 'park' end as step
      from (
        select e.tool <> excluded.tool or e.args_fingerprint <> excluded.args_fingerprint
            or coalesce(e.assistant_message_id <> excluded.assistant_message_id, false) as differs,
          coalesce(e.thread_fence > excluded.thread_fence, false) as stale,
          e.lease_until <= clock_timestamp() as expired,
          e.policy = 'keyed' and excluded.policy = 'keyed' and ${windowOpen("e.retention_ms")}
            and ${windowOpen("excluded.retention_ms")} as resendable
      ) m
    ) s)
  returning ${rowColumns("e")}, e.nonce = $10 and e.state = 'reserved' as won,
    coalesce(e.thread_fence > $11::bigint, false) as stale,
    case when e.tool <> $5 or coalesce(e.assistant_message_id <> $3, false) then 'owner'
         when e.args_fingerprint <> $7 then 'arguments' end as differs,
    (extract(epoch from e.lease_until - clock_timestamp()) * 1000)::float8 as lease_left_ms
), logged as (
  insert into ${EXECUTIONS} (key, fence, thread_id, decision, run_id, delivery_id, receive_count, node_attempt, thread_fence, holder)
  select c.key, c.fence::bigint, c.thread_id, case c.policy when 'lookup' then 'reconcile' else 'resend' end,
    $14, $15, $16::int, $17::int, $11::bigint, $12
  from claimed c where c.won and c.executions > 1 on conflict (key, fence) do nothing
)
select * from claimed`;

/**
 * Settles under the claim's fence, or marks the execution late and keeps what it says: two executions, proven.
 * The same settlement again finds its own state and is recorded again, so a lost reply may be repeated.
 *
 * $1 key $2 fence $3 outcome $4 result $5 sha256 $6 bytes $7 effect ref $8 detail $9 evidence $10 provider request id
 */
export const SETTLE_SQL = `
with hit as (
  update ${EFFECTS} e set state = $3, settled_at = clock_timestamp(),
    unknown_at = case when $3 = 'unknown' then clock_timestamp() end,
    result = $4, result_sha256 = $5, result_bytes = $6::bigint, effect_ref = $7, detail = $8,
    evidence = coalesce($9, e.evidence), provider_request_id = coalesce($10, e.provider_request_id),
    first_ended_at = case when e.fence = e.first_fence then clock_timestamp() else e.first_ended_at end,
    first_outcome = case when e.fence = e.first_fence then $3 else e.first_outcome end
  where e.key = $1 and e.fence = $2::bigint and (e.state in ('reserved', 'unknown') or e.state = $3)
  returning 1
), ended as (
  update ${EXECUTIONS} x set ended_at = clock_timestamp(), outcome = $3, detail = $8, provider_request_id = $10,
    late = not exists (select 1 from hit)
  where x.key = $1 and x.fence = $2::bigint
), late_first as (
  insert into ${EXECUTIONS} (key, fence, thread_id, decision, run_id, delivery_id, receive_count, node_attempt, holder,
    started_at, ended_at, outcome, detail, provider_request_id, late)
  select e.key, e.first_fence, e.thread_id, 'execute', e.run_id, e.delivery_id, e.receive_count, e.node_attempt, e.holder,
    e.first_claim_at, clock_timestamp(), $3, $8, $10, true
  from ${EFFECTS} e
  where e.key = $1 and e.first_fence = $2::bigint and not exists (select 1 from hit)
  on conflict (key, fence) do nothing
)
select exists (select 1 from hit) as recorded`;

/** $1 key $2 fence. Only an untouched first claim: with a second execution nobody can say that nothing happened. */
export const RELEASE_SQL = `
delete from ${EFFECTS} where key = $1 and fence = $2::bigint and state = 'reserved' and executions = 1 returning key`;

export const FIND_SQL = `select ${rowColumns("e")} from ${EFFECTS} e where e.key = $1`;

/**
 * Reads the thread's calls of this tool through effects_thread. Calls of the same message are no echo of each other.
 *
 * $1 thread $2 tool $3 fingerprint $4 own key $5 assistant message
 */
export const FIND_ECHO_SQL = `
select e.tool_call_id, e.state from ${EFFECTS} e
where e.thread_id = $1 and e.tool = $2 and e.args_fingerprint = $3 and e.key <> $4 and e.state in ('unknown', 'done')
  and coalesce(e.assistant_message_id <> $5, true)
order by e.state = 'unknown' desc, e.first_claim_at desc limit 1`;

/** The inline first execution counts as open until it ended, in time or late. */
export const OPEN_EXECUTIONS_SQL = `
select e.key, e.first_fence::text as fence, e.thread_id, e.tool, e.tool_call_id, e.policy, e.node_attempt,
  (extract(epoch from e.first_claim_at) * 1000)::float8 as started_at_ms
from ${EFFECTS} e
where e.delivery_id = $1 and e.first_ended_at is null
  and not exists (select 1 from ${EXECUTIONS} x where x.key = e.key and x.fence = e.first_fence)
union all
select x.key, x.fence::text, x.thread_id, e.tool, e.tool_call_id, e.policy, x.node_attempt,
  (extract(epoch from x.started_at) * 1000)::float8
from ${EXECUTIONS} x join ${EFFECTS} e using (key)
where x.delivery_id = $1 and x.ended_at is null
order by started_at_ms`;
