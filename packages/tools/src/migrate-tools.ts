// The tables of this package: thread leases with their fence, effects, and the executions after the first.
import { PRODUCT } from "@reprise/tracing";
import { FENCE_LOST_SQLSTATE, FENCED_IDLE_MAX_MS } from "./fence.ts";
import type { Migration } from "./migrate.ts";
import { EFFECTS_SQL } from "./migrate-tools-effects.ts";

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
  perform set_config('idle_in_transaction_session_timeout', '${FENCED_IDLE_MAX_MS}', true)
  from ${schema}.thread_leases l where l.thread_id = thread and l.fence = claimed for share;
  if not found then
    raise exception 'fence % of thread % is not the current one', claimed, thread using errcode = '${FENCE_LOST_SQLSTATE}';
  end if;
end
$$;
`;

/** Forward-only. Give them to `migrate`, before the migrations of packages that build on these tables. */
export const toolsMigrations: readonly Migration[] = [
  { id: "tools-001", sql: THREADS },
  { id: "tools-002", sql: EFFECTS_SQL },
];
