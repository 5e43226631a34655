// The tables of this package: thread leases with their fence, effects, and the executions after the first.
import { PRODUCT } from "@reprise/tracing";
import { FENCE_LOST_SQLSTATE, FENCED_IDLE_MAX_MS } from "./fence.ts";
import type { Migration } from "./migrate.ts";

const schema = PRODUCT.schema;

// Fences come from a sequence, so a deleted lease row can never bring an old number back.
// `for share` makes a taker wait until the transaction that asserted the fence has committed or gone. A process that is frozen
// in between (SIGSTOP, a suspended machine) would make it wait without end, so such a transaction may not idle for long.
const THREADS = `
create sequence ${schema}.thread_fences;

create table ${schema}.thread_leases (
  thread_id   text primary key,
  run_id      text not null,
  delivery_id text not null,
  owner       text not null,
  fence       bigint not null,
  expires_at  timestamptz not null
) with (fillfactor = 50);

create function ${schema}.assert_fence(thread text, claimed bigint) returns void language plpgsql as $$
begin
  perform set_config('idle_in_transaction_session_timeout', '${FENCED_IDLE_MAX_MS}', true);
  perform 1 from ${schema}.thread_leases l where l.thread_id = thread and l.fence = claimed for share;
  if not found then
    raise exception 'fence % of thread % is not the current one', claimed, thread using errcode = '${FENCE_LOST_SQLSTATE}';
  end if;
end
$$;
`;

// The first execution stands inline: most keys never see a second, and one row is one insert and one HOT update.
// No index mentions state or lease: a completion that touches an indexed column rewrites every index of the row.
// Values are text, not jsonb: jsonb refuses NUL and lone surrogates, which model output does contain (E01).
const EFFECTS = `
create sequence ${schema}.effect_fences;

create table ${schema}.effects (
  key                  text primary key,
  thread_id            text not null,
  assistant_message_id text,
  position             int,
  tool                 text not null,
  tool_call_id         text not null,
  args_fingerprint     text not null,
  policy               text not null check (policy in ('keyed', 'lookup', 'once')),
  retention_ms         bigint,
  state                text not null default 'reserved' check (state in ('reserved', 'done', 'failed', 'unknown')),
  nonce                text not null,
  fence                bigint not null,
  thread_fence         bigint,
  holder               text not null,
  lease_until          timestamptz not null,
  first_claim_at       timestamptz not null default clock_timestamp(),
  seen                 int not null default 1,
  executions           int not null default 1,
  -- the first execution
  first_fence          bigint not null,
  run_id               text not null,
  delivery_id          text not null,
  receive_count        int,
  node_attempt         int not null,
  first_ended_at       timestamptz,
  first_outcome        text,
  -- the outcome
  settled_at           timestamptz,
  unknown_at           timestamptz,
  result               text check (octet_length(result) <= 65536),
  result_sha256        text,
  result_bytes         bigint,
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

/** Forward-only. Give them to `migrate`, before the migrations of packages that build on these tables. */
export const toolsMigrations: readonly Migration[] = [
  { id: "tools-001", sql: THREADS },
  { id: "tools-002", sql: EFFECTS },
];
