// The sweep: deliveries whose worker was lost and whose message never comes back are ended, and get their obituary, all the same.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import { type LostDeliveryRow, lostColumns, lostRowOf, lostSchema } from "./delivery-rows.ts";

const s = PRODUCT.schema;

/** One sweep ends at most this many; the next one ends more. */
const SWEEP_MAX = 20;

export interface SweptDelivery {
  readonly lost: LostDeliveryRow;
  readonly run: { readonly runId: string; readonly threadId: string; readonly agent: string };
}

/*
 * A message that was deleted before its row was ended, that expired, or that SQS moved to a dead-letter queue brings no next
 * holder. Silent for much longer than a redelivery takes, and without a live lease, a delivery is lost beyond doubt. The
 * guarded update gives each row to one sweeper; a fault is counted where the run is not over, as a next holder would have.
 */
const SWEEP = `
  with lost as (
    update ${s}.deliveries d set ended_at = clock_timestamp(), outcome = 'lost'
    where d.delivery_id in (
      select c.delivery_id from ${s}.deliveries c
      where c.ended_at is null and coalesce(c.last_beat, c.started_at) < clock_timestamp() - $1::int * interval '1 millisecond'
        and not exists (select 1 from ${s}.thread_leases l
          where l.thread_id = c.thread_id and l.fence = c.fence and l.expires_at > clock_timestamp())
      order by c.started_at limit ${SWEEP_MAX} for update skip locked)
    returning d.*
  ), counted as (
    update ${s}.runs r set lost_deliveries = lost_deliveries + 1, updated_at = clock_timestamp()
    where r.status = 'running' and r.run_id in (select run_id from lost where fence is not null)
  )
  select ${lostColumns("lost")}, lost.run_id, lost.thread_id, coalesce(r.agent, '') as agent
  from lost left join ${s}.runs r on r.run_id = lost.run_id`;

const sweptSchema = lostSchema.extend({ run_id: z.string(), thread_id: z.string(), agent: z.string() });

/** @param silentMs how long without a beat; two visibilities and a minute leave every redelivery the first go */
export async function sweepLost(db: Queryable, silentMs: number): Promise<readonly SweptDelivery[]> {
  const { rows } = await db.query(SWEEP, [Math.round(silentMs)]);
  return rows.map((row) => {
    const swept = sweptSchema.parse(row);
    return { lost: lostRowOf(swept), run: { runId: swept.run_id, threadId: swept.thread_id, agent: swept.agent } };
  });
}
