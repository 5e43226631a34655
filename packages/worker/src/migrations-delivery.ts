// The functions of a delivery's begin and end: several statements in one round trip, their plans kept by the session.
import type { Migration } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";

const s = PRODUCT.schema;

/*
 * begin_delivery: under our new fence, mark the run running, put the fence on our row, and end every unended delivery of this
 * run under an older fence. The update returns a row to one caller only, so each obituary is written once, and never of
 * a living holder: it would have a newer fence than ours. A delivery without a fence died between its admission and its
 * lease; it is ended only when it is of the same message (SQS gave us a later receive) or long silent, since another
 * copy may be on its way to the lease at this moment, and would then find its own row ended. A redrive starts the counters at
 * zero: whoever is found lost then died after the run had ended. The lost deliveries that count are the latest ones, as many
 * as are counted, so those from before a redrive are not among them.
 */
const BEGIN = `
create function ${s}.begin_delivery(run text, delivery text, claimed bigint, message text, fingerprint text, reopen boolean)
returns json language plpgsql as $begin$
#variable_conflict use_column
declare
  answer json;
begin
  with mine as (
    update ${s}.deliveries set fence = claimed, last_beat = clock_timestamp(),
      checkpoint_at_begin = (select latest_checkpoint_id from ${s}.runs where run_id = run)
    where delivery_id = delivery and ended_at is null returning 1
  ), lost as (
    update ${s}.deliveries d set ended_at = clock_timestamp(), outcome = 'lost'
    where d.run_id = run and d.ended_at is null and d.delivery_id <> delivery and exists (select 1 from mine)
      and (d.fence < claimed or (d.fence is null and (d.sqs_message_id = message or d.started_at < clock_timestamp() - interval '1 minute')))
    returning d.*
  ), begun as (
    update ${s}.runs set status = 'running', graph_fingerprint = coalesce(graph_fingerprint, fingerprint), ended_at = null, interrupts = null,
      lost_deliveries = case when reopen then 0 else lost_deliveries + (select count(*)::int from lost where fence is not null) end,
      failed_deliveries = case when reopen then 0 else failed_deliveries end,
      cancel_requested_at = case when reopen then null else cancel_requested_at end, updated_at = clock_timestamp()
    where run_id = run and exists (select 1 from mine) returning *
  ), counted as (
    select checkpoint_at_begin, alone, fence from (
      select * from ${s}.deliveries where run_id = run and outcome = 'lost' union all select * from lost) every
    where fence is not null order by fence desc limit (select lost_deliveries from begun)
  )
  select json_build_object(
    'mine', (select count(*)::int from mine),
    'cancel_asked', (select cancel_requested_at is not null from begun),
    'faults', (select lost_deliveries + failed_deliveries from begun),
    'lost', coalesce((select json_agg(json_build_object(
        'delivery_id', l.delivery_id, 'sqs_message_id', l.sqs_message_id, 'receive_count', l.receive_count, 'worker', l.worker,
        'trace_id', l.trace_id, 'root_span_id', l.root_span_id, 'fenced', l.fence is not null,
        'started_ms', (extract(epoch from l.started_at) * 1000)::float8,
        'beat_ms', (extract(epoch from l.last_beat) * 1000)::float8) order by l.started_at) from lost l), '[]'),
    'counted', coalesce((select json_agg(row_to_json(c) order by c.fence desc) from counted c), '[]'),
    'standing', (select json_build_object('first_step', first_step, 'latest_step', latest_step,
        'latest_checkpoint_id', latest_checkpoint_id) from begun)) into answer;
  return answer;
end
$begin$;
`;

/*
 * take_lease: the thread's lease for a delivery, or null where somebody has it. Waits for nobody: a lease row that is locked by a
 * holder's open transaction is skipped. Asked again by the same delivery it gives the same fence.
 */
const TAKE = `
create function ${s}.take_lease(thread text, run text, delivery text, worker text, lease_ms bigint) returns bigint language plpgsql as $take$
declare
  taken bigint;
begin
  perform 1 from ${s}.thread_leases l where l.thread_id = thread for update skip locked;
  if not found and exists (select 1 from ${s}.thread_leases l where l.thread_id = thread) then
    return null;
  end if;
  insert into ${s}.thread_leases as l (thread_id, run_id, delivery_id, owner, fence, expires_at)
  values (thread, run, delivery, worker, nextval('${s}.thread_fences'), clock_timestamp() + lease_ms * interval '1 millisecond')
  on conflict (thread_id) do update set run_id = excluded.run_id, delivery_id = excluded.delivery_id, owner = excluded.owner,
      expires_at = excluded.expires_at,
      fence = case when l.delivery_id = excluded.delivery_id and l.expires_at > clock_timestamp() then l.fence else excluded.fence end
    where l.expires_at <= clock_timestamp() or l.delivery_id = excluded.delivery_id
  returning l.fence into taken;
  return taken;
end
$take$;
`;

/*
 * admit_delivery: the run row (if new), what is known of it, and the delivery row; `earlier` never holds this very delivery. The
 * first delivery of a run that begins here needs no redeliveryCause to know its cause: "none". Asking again after a lost reply is harmless. An answer never makes a run: without one the result is null.
 *
 * With `take` the thread is taken, and the delivery begun, at once, where nothing speaks against it; what is not plainly free is
 * left to decideAdmission and acquire_fence (run-rows.real.test.ts: never taken where decideAdmission would not). It waits for
 * nobody: a lease row that a holder's open transaction has locked is skipped, since others of this statement's batch would wait
 * with it, and a frozen holder keeps it for seconds. A row that is there is locked before the run row, as every put does.
 */
const ADMIT = `
create function ${s}.admit_delivery(asked json) returns json language plpgsql as $admit$
#variable_conflict use_column
declare
  a record;
  take record;
  run ${s}.runs;
  lease ${s}.thread_leases;
  is_new boolean := false;
  known json := '[]';
  lower_runs json := '[]';
  free boolean;
  fence bigint;
  begun json;
begin
  -- Read once: each look into a json value parses all of it.
  select * into a from json_to_record(asked) as x("deliveryId" text, "sqsMessageId" text, "receiveCount" int, kind text, "runId" text,
    "threadId" text, agent text, "inputHash" text, body text, "queueUrl" text, "replyTo" text, worker text, "traceId" text,
    "rootSpanId" text, take json);
  select * into take from json_to_record(a.take) as x("faultLimit" int, "leaseMs" bigint, "graphFingerprint" text);
  -- Looked at first: an insert that conflicts would wait for a put that has the row open, and a frozen holder keeps it open.
  select * into run from ${s}.runs r where r.run_id = a."runId";
  if not found and a.kind = 'run' then
    -- A new run comes after every other of its thread, and is running from the start where none of them is open.
    free := a.take is not null
      and not exists (select 1 from ${s}.runs o where o.thread_id = a."threadId" and o.status in ('queued', 'running', 'interrupted'))
      and not exists (select 1 from ${s}.thread_leases l where l.thread_id = a."threadId" and l.expires_at > clock_timestamp());
    insert into ${s}.runs (run_id, thread_id, agent, status, input_hash, body, queue_url, reply_to, graph_fingerprint)
    values (a."runId", a."threadId", a.agent, case when free then 'running' else 'queued' end, a."inputHash", a.body, a."queueUrl",
      a."replyTo", case when free then take."graphFingerprint" end)
    on conflict (run_id) do nothing returning * into run;
    is_new := found;
    if not is_new then
      select * into run from ${s}.runs r where r.run_id = a."runId";
    end if;
  end if;
  if is_new and free then
    fence := ${s}.take_lease(run.thread_id, run.run_id, a."deliveryId", a.worker, take."leaseMs");
    if fence is null then
      update ${s}.runs r set status = 'queued', graph_fingerprint = null where r.run_id = run.run_id;
    end if;
    run.status := 'queued';
    run.graph_fingerprint := null;
  end if;
  if fence is null then
    if not is_new then
      if run.waiting_since is not null and a.kind = 'run' then
        update ${s}.runs r set waiting_since = null, updated_at = clock_timestamp() where r.run_id = run.run_id;
      end if;
      select coalesce(json_agg(json_build_object(
          'deliveryId', d.delivery_id, 'sqsMessageId', d.sqs_message_id, 'receiveCount', d.receive_count, 'outcome', d.outcome,
          'traceId', d.trace_id, 'rootSpanId', d.root_span_id, 'startedAtMs', extract(epoch from d.started_at) * 1000) order by d.started_at), '[]')
        into known
        from (select * from ${s}.deliveries where run_id = a."runId" and delivery_id <> a."deliveryId" order by started_at desc limit 100) d;
    end if;
    select * into lease from ${s}.thread_leases l
      where l.thread_id = run.thread_id and l.expires_at > clock_timestamp() and l.delivery_id <> a."deliveryId";
    select coalesce(json_agg(json_build_object('runId', o.run_id, 'status', o.status) order by o.position), '[]') into lower_runs
      from ${s}.runs o where o.thread_id = run.thread_id and o.position < run.position
        and o.status in ('queued', 'running', 'interrupted');

    if a.take is not null and not is_new and run.run_id is not null and lease.thread_id is null and json_array_length(lower_runs) = 0
      and run.status in ('queued', 'running') and run.input_hash = a."inputHash" and run.thread_id = a."threadId"
      and run.lost_deliveries + run.failed_deliveries < take."faultLimit" then
      fence := ${s}.take_lease(run.thread_id, run.run_id, a."deliveryId", a.worker, take."leaseMs");
      -- Read again under the lease: its holder may have ended the run, and given the thread back, since the first look.
      select * into run from ${s}.runs r where r.run_id = run.run_id;
      if fence is not null and run.status not in ('queued', 'running') then
        delete from ${s}.thread_leases l where l.thread_id = run.thread_id and l.delivery_id = a."deliveryId";
        fence := null;
      end if;
    end if;
  end if;
  insert into ${s}.deliveries (delivery_id, sqs_message_id, receive_count, run_id, thread_id, worker, trace_id, root_span_id, cause, fence, last_beat)
  values (a."deliveryId", a."sqsMessageId", a."receiveCount", a."runId", a."threadId", a.worker, a."traceId", a."rootSpanId",
    case when is_new and fence is not null and coalesce(a."receiveCount", 1) <= 1 then 'none' end,
    case when is_new then fence end, case when is_new and fence is not null then clock_timestamp() end)
  on conflict (delivery_id) do nothing;
  if run.run_id is null then
    return json_build_object('deliveryId', a."deliveryId", 'run', null);
  end if;
  if fence is not null then
    -- What begin_delivery would find of a run that was made just now.
    begun := case when is_new then '{"mine":1,"cancel_asked":false,"faults":0,"lost":[],"counted":[],"standing":{"first_step":null,"latest_step":null,"latest_checkpoint_id":null}}'::json
      else ${s}.begin_delivery(run.run_id, a."deliveryId", fence, a."sqsMessageId", take."graphFingerprint", false) end;
  end if;
  return json_build_object('deliveryId', a."deliveryId",
    'run', json_build_object('run_id', run.run_id, 'thread_id', run.thread_id, 'agent', run.agent, 'position', run.position::text,
      'status', run.status, 'input_hash', run.input_hash, 'graph_fingerprint', run.graph_fingerprint,
      'first_checkpoint_id', run.first_checkpoint_id, 'latest_checkpoint_id', run.latest_checkpoint_id, 'latest_step', run.latest_step,
      'lost_deliveries', run.lost_deliveries, 'failed_deliveries', run.failed_deliveries, 'is_new', is_new),
    'earlier', known, 'lower_runs', lower_runs,
    'lease', case when lease.thread_id is not null then json_build_object('runId', lease.run_id, 'deliveryId', lease.delivery_id,
      'remainingMs', extract(epoch from lease.expires_at - clock_timestamp()) * 1000) end,
    'fence', fence::text, 'begun', begun);
end
$admit$;
`;

/*
 * end_delivery: gives the thread back, ends the row and, with `finished`, marks the run, in this order of locks (lease, run,
 * delivery: as puts and admissions take them). A run is marked under the fence only: whose lease row is gone or another's
 * changes nothing at all. Without a mark the row ends whatever became of the lease. `interrupted` marks it so, unless its cancel
 * was asked: a run that would wait is then cancelled by the caller, and nothing is written here.
 */
const END = `
create function ${s}.end_delivery(asked json) returns json language plpgsql as $end$
declare
  a record;
  held boolean := true;
  done boolean;
begin
  select * into a from json_to_record(asked) as x("deliveryId" text, "runId" text, "threadId" text, fence bigint, outcome text, code text,
    reason text, finished json, interrupted json);
  if a.interrupted is not null then
    perform 1 from ${s}.thread_leases l where l.thread_id = a."threadId" and l.fence = a.fence for update;
    if found then
      update ${s}.runs r set status = 'interrupted', interrupts = a.interrupted->>'interrupts', error_code = null, error_text = null,
        updated_at = clock_timestamp(), ended_at = null
      where r.run_id = a."runId" and r.cancel_requested_at is null;
      if not found then
        return json_build_object('deliveryId', a."deliveryId", 'held', true, 'ended', false, 'cancelAsked', true);
      end if;
    end if;
  end if;
  if a.fence is not null then
    delete from ${s}.thread_leases l where l.thread_id = a."threadId" and l.fence = a.fence;
    held := found;
  end if;
  if not held and (a.finished is not null or a.interrupted is not null) then
    return json_build_object('deliveryId', a."deliveryId", 'held', false, 'ended', false);
  end if;
  if a.finished is not null then
    update ${s}.runs r set status = 'finished', result = a.finished->>'result', interrupts = null, error_code = null,
      error_text = null, updated_at = clock_timestamp(), ended_at = clock_timestamp()
    where r.run_id = a."runId";
  end if;
  update ${s}.deliveries d set ended_at = clock_timestamp(), outcome = a.outcome, outcome_code = a.code, outcome_reason = a.reason
  where d.delivery_id = a."deliveryId" and d.ended_at is null;
  done := found;
  return json_build_object('deliveryId', a."deliveryId", 'held', held, 'ended', done);
end
$end$;
`;

/*
 * mark_checkpoint: the run row moves along with each root checkpoint, in the saver's transaction. Says whether the run's cancel was
 * asked meanwhile; null where there is no such run.
 */
const MARK = `
create function ${s}.mark_checkpoint(run text, checkpoint text, step int) returns boolean language plpgsql as $mark$
declare
  cancel_asked boolean;
begin
  update ${s}.runs r set first_checkpoint_id = coalesce(r.first_checkpoint_id, checkpoint), first_step = coalesce(r.first_step, step),
    latest_checkpoint_id = checkpoint, latest_step = step, updated_at = clock_timestamp()
  where r.run_id = run returning r.cancel_requested_at is not null into cancel_asked;
  return cancel_asked;
end
$mark$;
`;

export const deliveryMigration: Migration = {
  id: "worker-003-delivery-functions",
  sql: BEGIN + TAKE + ADMIT + END + MARK,
};
