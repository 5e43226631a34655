// Cancel: asked by an operator, kept in the run's row, brought to its worker by the next beat or checkpoint; ends its one signal.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import { WorkerError } from "./errors.ts";
import type { RunStatus } from "./run.ts";
import { Stop, type StopSignal } from "./signals.ts";

const s = PRODUCT.schema;

/** The code in the row and on the span of a run that an operator ended. */
export const CANCELLED = "RUN_CANCELLED";

/** A delivery's side of a cancel. */
export interface Cancel {
  /** Aborted with a WorkerError RUN_CANCELLED: nodes and tools see it in the run's signal. */
  readonly signal: StopSignal;
  /** Asked again it does nothing. */
  ask(): void;
}

export function startCancel(runId: string): Cancel {
  const signal = new Stop();
  return {
    signal,
    ask: () => {
      if (signal.aborted) return;
      signal.abort(new WorkerError(CANCELLED, `an operator cancelled run ${runId}; it ends here`));
    },
  };
}

export type CancelAnswer =
  | { readonly state: "unknown" }
  /** Over already, or by this call. `before` is the status it had. */
  | { readonly state: "ended"; readonly before: RunStatus; readonly effectsLeftUnknown: number }
  | { readonly state: "asked"; readonly worker: string }
  | { readonly state: "too_late"; readonly status: RunStatus };

/*
 * A run that no worker holds is ended by this statement; for one that is held it leaves the request. The lease row is locked
 * first, so that a delivery which ends at this moment is either seen to have ended or sees the request. What lies between its
 * last mark and its lease's release is caught by the same statement asked again (`endAskedRuns`, the command's own wait).
 * A killed holder's calls that are still reserved are nobody's any more: they become unknown with the run.
 */
const CANCEL = `
  with found as (select run_id, thread_id, status from ${s}.runs where run_id = $1),
  lease as (
    select l.owner from ${s}.thread_leases l join found f on f.thread_id = l.thread_id and f.run_id = l.run_id
    where l.expires_at > clock_timestamp() for update of l
  ), run as (
    update ${s}.runs r set cancel_requested_at = coalesce(r.cancel_requested_at, clock_timestamp()),
      cancel_reason = coalesce(r.cancel_reason, $2), updated_at = clock_timestamp(),
      status = case when exists (select 1 from lease) then r.status else 'cancelled' end,
      error_code = case when exists (select 1 from lease) then r.error_code else '${CANCELLED}' end,
      error_text = case when exists (select 1 from lease) then r.error_text else coalesce($2, 'cancelled by an operator') end,
      waiting_since = case when exists (select 1 from lease) then r.waiting_since end,
      ended_at = case when exists (select 1 from lease) then null else clock_timestamp() end
    where r.run_id = $1 and r.status in ('queued', 'running', 'interrupted', 'failed', 'parked', 'abandoned')
    returning r.thread_id, r.status
  ), effects as (
    ${leaveUnknown("(select status from run) = 'cancelled' and e.lease_until <= clock_timestamp()")} returning 1
  )
  select (select status from found) as before, (select status from run) as after, (select owner from lease) as worker,
    (select count(*)::int from effects) as effects`;

/** $1 run. By delivery, which is indexed; a call of a subagent is on a thread of its own. */
function leaveUnknown(where: string): string {
  return `update ${s}.effects e set state = 'unknown', unknown_at = clock_timestamp(),
      detail = 'Its run was cancelled before an outcome was recorded.'
    where e.delivery_id in (select delivery_id from ${s}.deliveries where run_id = $1) and e.state = 'reserved' and ${where}`;
}

/**
 * After a run's own worker has ended it: no further delivery will settle what its tools left open. A body that goes on after
 * its signal may still settle its call, under its fence.
 */
export async function leaveCallsUnknown(db: Queryable, runId: string): Promise<void> {
  await db.query(leaveUnknown("true"), [runId]);
}

const cancelSchema = z.object({
  before: z.custom<RunStatus>((value) => typeof value === "string").nullable(),
  after: z.string().nullable(),
  worker: z.string().nullable(),
  effects: z.number(),
});

const OVER: ReadonlySet<RunStatus> = new Set(["finished", "cancelled", "rejected"]);

/** Safe to repeat: a request that stands already is kept as it is. */
export async function requestCancel(db: Queryable, runId: string, reason?: string): Promise<CancelAnswer> {
  const { rows } = await db.query(CANCEL, [runId, reason ?? null]);
  const { before, after, worker, effects } = cancelSchema.parse(rows[0]);
  if (before === null) return { state: "unknown" };
  // It ended while this statement waited for its row: the next one sees how.
  if (after === null && !OVER.has(before)) return requestCancel(db, runId, reason);
  if (after === null) return { state: "too_late", status: before };
  if (after === "cancelled") return { state: "ended", before, effectsLeftUnknown: effects };
  return { state: "asked", worker: worker ?? "" };
}

/** Ends runs whose cancel was asked of a worker that no longer holds them; `max` at a time. @returns their ids */
export async function endAskedRuns(db: Queryable, max = 100): Promise<readonly string[]> {
  const { rows } = await db.query(
    `select run_id from ${s}.runs where cancel_requested_at is not null and status in ('queued', 'running', 'interrupted')
     order by cancel_requested_at limit $1`,
    [max],
  );
  const ended: string[] = [];
  for (const row of rows) {
    const { run_id: runId } = z.object({ run_id: z.string() }).parse(row);
    const answer = await requestCancel(db, runId);
    if (answer.state === "ended") ended.push(runId);
  }
  return ended;
}
