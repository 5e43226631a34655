// The statements of prune: what is over, what is old, and the deletes of one batch.
import { PRODUCT } from "@reprise/tracing";
import { quoteIdentifier } from "./delivery-bury.ts";

const s = PRODUCT.schema;

const before = (ms: string): string => `clock_timestamp() - ${ms}::float8 * interval '1 millisecond'`;

/**
 * Only what nobody goes on with. Failed, parked and abandoned runs wait for a redrive or a cancel, however old; a run whose
 * completion is still to be sent waits for that.
 */
const isOver = (r: string, ms: string): string => `
  ${r}.status in ('finished', 'cancelled', 'rejected') and ${r}.ended_at < ${before(ms)}
  and not exists (select 1 from ${s}.completions c where c.run_id = ${r}.run_id and c.state = 'pending')`;

/** $1 age in ms $2 rows $3 after this thread */
export const THREADS_SQL = `
  select r.thread_id from ${s}.runs r where r.thread_id > $3 group by r.thread_id
  having bool_and(coalesce(${isOver("r", "$1")}, false)) order by r.thread_id limit $2`;

/** $1 thread $2 age in ms. Asked under the thread's fence. */
export const THREAD_IS_OVER_SQL = `
  select coalesce(bool_and(coalesce(${isOver("r", "$2")}, false)), false) as over from ${s}.runs r where r.thread_id = $1`;

/** $1 threads. The sizes are the stored ones, compressed where PostgreSQL did. */
export function countCheckpointsSql(schema: string): string {
  const t = quoteIdentifier(schema);
  return `
    select c.n as checkpoints, b.n as checkpoint_blobs, w.n as checkpoint_writes, c.bytes + b.bytes + w.bytes as checkpoint_bytes
    from (select count(*) as n, coalesce(sum(pg_column_size(checkpoint) + pg_column_size(metadata)), 0) as bytes
          from ${t}.checkpoints where thread_id = any($1)) c,
      (select count(*) as n, coalesce(sum(pg_column_size(blob)), 0) as bytes from ${t}.checkpoint_blobs where thread_id = any($1)) b,
      (select count(*) as n, coalesce(sum(pg_column_size(blob)), 0) as bytes from ${t}.checkpoint_writes where thread_id = any($1)) w`;
}

/** $1 age in ms $2 rows. Completions go with their run (on delete cascade). */
export const DELETE_RUNS_SQL = `
  with doomed as (
    select r.run_id from ${s}.runs r where ${isOver("r", "$1")} limit $2 for update of r skip locked
  ), deliveries as (delete from ${s}.deliveries d using doomed where d.run_id = doomed.run_id returning 1
  ), answers as (delete from ${s}.answers a using doomed where a.run_id = doomed.run_id returning 1
  ), parked as (delete from ${s}.parked p using doomed where p.run_id = doomed.run_id returning 1
  ), runs as (delete from ${s}.runs r using doomed where r.run_id = doomed.run_id returning 1)
  select (select count(*) from runs) as runs, (select count(*) from deliveries) as deliveries,
    (select count(*) from answers) as answers, (select count(*) from parked) as parked`;

const strayDelivery = (ms: string): string => `
  d.ended_at < ${before(ms)} and not exists (select 1 from ${s}.runs r where r.run_id = d.run_id)`;
const oldRedriven = (ms: string): string => `p.redriven_at >= p.parked_at and p.redriven_at < ${before(ms)}`;

/** $1 age in ms $2 rows. Deliveries of runs that never were, and parked messages that went their way long ago. */
export const DELETE_OLD_ROWS_SQL = `
  with deliveries as (
    delete from ${s}.deliveries where delivery_id in (
      select d.delivery_id from ${s}.deliveries d where ${strayDelivery("$1")} limit $2 for update skip locked) returning 1
  ), parked as (
    delete from ${s}.parked where parked_id in (
      select p.parked_id from ${s}.parked p where ${oldRedriven("$1")} limit $2 for update skip locked) returning 1)
  select (select count(*) from deliveries) as deliveries, (select count(*) from parked) as parked`;

/**
 * A call may be claimed again as long as a run can go on from a checkpoint that holds it, and a provider may be asked as long
 * as it remembers the key. An unknown one waits for a person.
 */
const isSettledEffect = (ms: string): string => `
  e.state in ('done', 'failed') and e.settled_at < ${before(ms)}
  and e.first_claim_at + coalesce(e.retention_ms, 0) * interval '1 millisecond' < clock_timestamp()
  and not exists (select 1 from ${s}.runs r where r.thread_id = e.thread_id and r.status not in ('finished', 'cancelled', 'rejected'))`;

/** $1 age in ms $2 rows */
export const DELETE_EFFECTS_SQL = `
  with doomed as (
    select e.key from ${s}.effects e where ${isSettledEffect("$1")} limit $2 for update of e skip locked
  ), executions as (delete from ${s}.effect_executions x using doomed where x.key = doomed.key returning 1
  ), effects as (delete from ${s}.effects e using doomed where e.key = doomed.key returning 1)
  select (select count(*) from effects) as effects, (select count(*) from executions) as effect_executions`;

/** $1 age in ms $2 age of effects in ms or null */
export const COUNT_SQL = `
  with over as (select r.run_id from ${s}.runs r where ${isOver("r", "$1")}),
  settled as (select e.key from ${s}.effects e where $2::float8 is not null and ${isSettledEffect("$2")})
  select (select count(*) from over) as runs,
    (select count(*) from ${s}.deliveries d where d.run_id in (select run_id from over) or (${strayDelivery("$1")})) as deliveries,
    (select count(*) from ${s}.answers a where a.run_id in (select run_id from over)) as answers,
    (select count(*) from ${s}.parked p where p.run_id in (select run_id from over) or (${oldRedriven("$1")})) as parked,
    (select count(*) from settled) as effects,
    (select count(*) from ${s}.effect_executions x where x.key in (select key from settled)) as effect_executions`;
