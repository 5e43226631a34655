// The tables of effects, and the functions that claim and settle one and find its echo: their plans live in the server's session, so
// that a claim costs neither parsing nor planning, with any driver and behind a transaction pooler.
import { PRODUCT } from "@reprise/tracing";
import { PARKED_DETAIL } from "./effect-decide.ts";

const { schema } = PRODUCT;

// The first execution stands inline: most keys never see a second, and one row is one insert and one HOT update.
// No index mentions state or lease: a completion that touches an indexed column rewrites every index of the row.
// No check constraints: PostgreSQL reads each from its text form again for every statement that writes a row, and three of them were
// a tenth of a claim and its settlement. Nobody but the functions below writes a claim; `effect.ts` holds the same words as types.
// Values are text, not jsonb: jsonb refuses NUL and lone surrogates, which model output does contain (E01).
const TABLES = `
create sequence ${schema}.effect_fences;

create table ${schema}.effects (
  key                  text primary key,
  thread_id            text not null,
  assistant_message_id text,
  position             int,
  tool                 text not null,
  tool_call_id         text not null,
  args_fingerprint     text not null,
  -- of the fields that the tool calls its identity; null where it declares none
  identity_fingerprint text,
  policy               text not null,
  retention_ms         bigint,
  state                text not null default 'reserved',
  nonce                text not null,
  fence                bigint not null default nextval('${schema}.effect_fences'),
  thread_fence         bigint,
  holder               text not null,
  lease_until          timestamptz not null,
  first_claim_at       timestamptz not null default clock_timestamp(),
  seen                 int not null default 1,
  executions           int not null default 1,
  -- the first execution; its fence is the row's own until another execution takes the row
  first_fence          bigint,
  run_id               text not null,
  delivery_id          text not null,
  receive_count        int,
  node_attempt         int not null,
  first_ended_at       timestamptz,
  first_outcome        text,
  -- the outcome
  settled_at           timestamptz,
  unknown_at           timestamptz,
  result               text,
  result_sha256        text,
  result_bytes         bigint,
  result_ref           text,
  effect_ref           text,
  detail               text,
  evidence             text,
  provider_request_id  text
) with (fillfactor = 70);
create index effects_thread on ${schema}.effects (thread_id, tool);
create index effects_delivery on ${schema}.effects (delivery_id);
create index effects_unknown on ${schema}.effects (unknown_at) where unknown_at is not null;

create table ${schema}.effect_executions (
  key                 text not null,
  fence               bigint not null,
  thread_id           text not null,
  decision            text not null check (decision in ('execute', 'resend', 'reconcile')),
  run_id              text not null,
  delivery_id         text not null,
  receive_count       int,
  node_attempt        int not null,
  thread_fence        bigint,
  holder              text not null,
  started_at          timestamptz not null default clock_timestamp(),
  ended_at            timestamptz,
  outcome             text,
  detail              text,
  provider_request_id text,
  late                boolean not null default false,
  primary key (key, fence)
);
create index effect_executions_delivery on ${schema}.effect_executions (delivery_id);
`;

const fields = `e.tool, e.assistant_message_id, e.args_fingerprint, e.policy, e.retention_ms, e.state, e.nonce, e.fence, e.thread_fence,
      e.holder, e.lease_until, e.first_claim_at, e.seen, e.executions, e.result, e.result_sha256, e.result_bytes, e.result_ref,
      e.effect_ref, e.detail`;

const held = `exists (select 1 from ${schema}.thread_leases l where l.thread_id = c_fenced_thread and l.fence = c_thread_fence)`;

/**
 * `stepOf` of effect-decide.ts in SQL, answered with JSON in a text (effect-rows.ts): one column costs a fifth less than sixteen did.
 * A new key, the common case, is one statement. The insert that meets the key reads and writes nothing more; most repeats of a call
 * end with the read after it, since writing a row version only to count them cost three times the read. A row that is to change
 * hands is read again under its lock. The statements of a function see what was committed before each began, so the loser of an
 * insert finds the winner's row.
 */
const CLAIM = `
create function ${schema}.claim_effect(c_key text, c_thread text, c_message text, c_position int, c_tool text, c_call text, c_args text,
  c_identity text, c_policy text, c_retention bigint, c_nonce text, c_thread_fence bigint, c_fenced_thread text, c_holder text,
  c_lease bigint, c_run text, c_delivery text, c_receives int, c_attempt int
) returns text language plpgsql as $$
declare
  was record;
  step text;
  differs text;
  answer text;
  -- Null until it is: a default would be evaluated at every claim.
  locked boolean;
  expired boolean;
  resendable boolean;
begin
  loop
    insert into ${schema}.effects as e (key, thread_id, assistant_message_id, position, tool, tool_call_id, args_fingerprint,
      identity_fingerprint, policy, retention_ms, nonce, thread_fence, holder, lease_until, run_id, delivery_id, receive_count,
      node_attempt)
    select c_key, c_thread, c_message, c_position, c_tool, c_call, c_args, c_identity, c_policy, c_retention, c_nonce,
      c_thread_fence, c_holder, clock_timestamp() + c_lease * interval '1 millisecond', c_run, c_delivery, c_receives, c_attempt
    where c_thread_fence is null or ${held}
    on conflict (key) do nothing
    returning '{"step":"new","fence":"' || e.fence || '","firstClaimAtMs":' || extract(epoch from e.first_claim_at) * 1000 || '}'
    into answer;
    if found then
      return answer;
    end if;
    if c_thread_fence is not null and not ${held} then
      return '{"step":"fenced"}';
    end if;
    if locked then
      select ${fields} into was from ${schema}.effects e where e.key = c_key for update;
    else
      select ${fields} into was from ${schema}.effects e where e.key = c_key;
    end if;
    -- Withdrawn or pruned since the insert met it.
    continue when not found;
    expired := was.lease_until <= clock_timestamp();
    resendable := was.policy = 'keyed' and c_policy = 'keyed'
      and coalesce(was.first_claim_at + was.retention_ms * interval '1 millisecond' > clock_timestamp(), false)
      and coalesce(was.first_claim_at + c_retention * interval '1 millisecond' > clock_timestamp(), false);
    differs := case when was.tool <> c_tool or coalesce(was.assistant_message_id <> c_message, false) then 'owner'
      when was.args_fingerprint <> c_args then 'arguments' end;
    step := case
      when differs is not null then 'keep'
      when coalesce(was.thread_fence > c_thread_fence, false) then 'stale'
      when was.state <> 'reserved' then 'keep'
      when was.nonce = c_nonce then 'own'
      when resendable and (expired or coalesce(was.thread_fence < c_thread_fence, false)) then 'take'
      when not expired then 'keep'
      when was.policy = 'lookup' and c_policy = 'lookup' then 'take'
      else 'park' end;
    exit when locked or step not in ('take', 'park');
    locked := true;
  end loop;
  if step = 'take' then
    update ${schema}.effects e set nonce = c_nonce, fence = default, first_fence = coalesce(e.first_fence, e.fence),
      thread_fence = coalesce(c_thread_fence, e.thread_fence), holder = c_holder,
      lease_until = clock_timestamp() + c_lease * interval '1 millisecond', executions = e.executions + 1, seen = e.seen + 1
    where e.key = c_key returning ${fields} into was;
    insert into ${schema}.effect_executions (key, fence, thread_id, decision, run_id, delivery_id, receive_count, node_attempt,
      thread_fence, holder)
    values (c_key, was.fence, c_thread, case was.policy when 'lookup' then 'reconcile' else 'resend' end, c_run, c_delivery,
      c_receives, c_attempt, c_thread_fence, c_holder);
  elsif step = 'park' then
    update ${schema}.effects e set state = 'unknown', unknown_at = clock_timestamp(), seen = e.seen + 1,
      detail = '${PARKED_DETAIL.replaceAll("'", "''")}'
    where e.key = c_key returning ${fields} into was;
  end if;
  return json_build_object('step', step, 'differs', differs, 'state', was.state, 'policy', was.policy, 'fence', was.fence::text,
    'holder', was.holder, 'seen', was.seen, 'executions', was.executions,
    'firstClaimAtMs', extract(epoch from was.first_claim_at) * 1000,
    'leaseLeftMs', extract(epoch from was.lease_until - clock_timestamp()) * 1000,
    'result', was.result, 'result_sha256', was.result_sha256, 'result_bytes', was.result_bytes, 'result_ref', was.result_ref,
    'effectRef', was.effect_ref, 'detail', was.detail);
end
$$;
`;

/**
 * Settles under the claim's fence, or marks the execution late and keeps what it says: two executions, proven.
 * The same settlement again finds its own state and is recorded again, so a lost reply may be repeated.
 */
const SETTLE = `
create function ${schema}.settle_effect(s_key text, s_fence bigint, s_outcome text, s_result text, s_sha256 text, s_bytes bigint,
  s_ref text, s_effect_ref text, s_detail text, s_evidence text, s_request text
) returns boolean language plpgsql as $$
declare
  executed int;
  recorded boolean;
begin
  update ${schema}.effects e set state = s_outcome, settled_at = clock_timestamp(),
    unknown_at = case when s_outcome = 'unknown' then clock_timestamp() end,
    result = s_result, result_sha256 = s_sha256, result_bytes = s_bytes, result_ref = s_ref, effect_ref = s_effect_ref,
    detail = s_detail, evidence = coalesce(s_evidence, e.evidence),
    provider_request_id = coalesce(s_request, e.provider_request_id),
    first_ended_at = case when e.first_fence is null then clock_timestamp() else e.first_ended_at end,
    first_outcome = case when e.first_fence is null then s_outcome else e.first_outcome end
  where e.key = s_key and e.fence = s_fence and (e.state in ('reserved', 'unknown') or e.state = s_outcome)
  returning e.executions into executed;
  -- A first execution in time has no row beside its own.
  if executed = 1 then
    return true;
  end if;
  recorded := executed is not null;
  update ${schema}.effect_executions x set ended_at = clock_timestamp(), outcome = s_outcome, detail = s_detail,
    provider_request_id = s_request, late = not recorded
  where x.key = s_key and x.fence = s_fence;
  if not recorded then
    insert into ${schema}.effect_executions (key, fence, thread_id, decision, run_id, delivery_id, receive_count, node_attempt,
      holder, started_at, ended_at, outcome, detail, provider_request_id, late)
    select e.key, s_fence, e.thread_id, 'execute', e.run_id, e.delivery_id, e.receive_count, e.node_attempt, e.holder,
      e.first_claim_at, clock_timestamp(), s_outcome, s_detail, s_request, true
    from ${schema}.effects e
    where e.key = s_key and coalesce(e.first_fence, e.fence) = s_fence
    on conflict (key, fence) do nothing;
  end if;
  return recorded;
end
$$;
`;

/** A look at every fresh call: through effects_thread, newest unknown first. Calls of the same message are no echo of each other. */
const ECHO = `
create function ${schema}.find_echo(e_thread text, e_tool text, e_fingerprint text, e_key text, e_message text) returns text
language plpgsql stable as $$
declare
  echo text;
begin
  select json_build_object('toolCallId', e.tool_call_id, 'after', e.state) into echo from ${schema}.effects e
  where e.thread_id = e_thread and e.tool = e_tool and coalesce(e.identity_fingerprint, e.args_fingerprint) = e_fingerprint
    and e.key <> e_key and e.state in ('unknown', 'done') and coalesce(e.assistant_message_id <> e_message, true)
  order by e.state = 'unknown' desc, e.first_claim_at desc limit 1;
  return echo;
end
$$;
`;

/**
 * Processes of the version before go on calling a function while a rolling deploy is under way, so a changed meaning gets a new
 * function under a new name, in a new migration.
 */
export const EFFECTS_SQL = `${TABLES}${CLAIM}${SETTLE}${ECHO}`;
