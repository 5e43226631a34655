// The thread fence: one writer a thread, by a lease row and a number that only grows; all times are Postgres's.
import { PRODUCT } from "@reprise/tracing";
import type { Fence } from "./effect.ts";

/** The slice of `pg.Pool` and `pg.PoolClient` that we use, so that a caller may pass either, in or out of a transaction. */
export interface Queryable {
  query(
    text: string,
    values?: unknown[],
  ): Promise<{ readonly rows: readonly Record<string, unknown>[]; readonly rowCount: number | null }>;
}

/** SQLSTATE that `assert_fence` raises. Class RP is ours: no PostgreSQL error has it. */
export const FENCE_LOST_SQLSTATE = "RP001";

/**
 * How long a fenced transaction may wait for its client's next statement before PostgreSQL ends its session. It bounds how
 * long a frozen holder keeps the thread from the next one (the kill harness hung on it; test/fence-pool.real.test.ts).
 */
export const FENCED_IDLE_MAX_MS = 5_000;

const LEASES = `${PRODUCT.schema}.thread_leases`;
const FENCES = `${PRODUCT.schema}.thread_fences`;

/** The statement a transaction runs first; it raises, because a result with no rows is noticed too late in a pipeline. */
export const ASSERT_FENCE_SQL = `select ${PRODUCT.schema}.assert_fence($1, $2::bigint)`;

export interface FenceRequest {
  readonly threadId: string;
  readonly runId: string;
  /** Ours, one per receive. The same delivery asking again gets the fence it has: a lost reply is harmless. */
  readonly deliveryId: string;
  /** Host and process, for people. Never matched on: two processes may share a name. */
  readonly owner: string;
  readonly leaseMs: number;
}

export type FenceAnswer =
  | { readonly fence: Fence }
  | {
      readonly heldBy: { readonly runId: string; readonly deliveryId: string; readonly owner: string };
      readonly remainingMs: number;
    };

export interface FenceRef {
  readonly threadId: string;
  readonly fence: bigint | string;
}

// Always updates, so that it always returns: a filtered upsert returns nothing to the loser, and a SELECT in the same
// statement would use a snapshot that can miss the winner. The loser's update writes the old values back.
const ACQUIRE_SQL = `
insert into ${LEASES} as l (thread_id, run_id, delivery_id, owner, fence, expires_at)
values ($1, $2, $3, $4, nextval('${FENCES}'), clock_timestamp() + $5::bigint * interval '1 millisecond')
on conflict (thread_id) do update set (run_id, delivery_id, owner, fence, expires_at) = (
  select case when d.free then excluded.run_id else l.run_id end,
         case when d.free then excluded.delivery_id else l.delivery_id end,
         case when d.free then excluded.owner else l.owner end,
         case when d.free then excluded.fence else l.fence end,
         case when d.free or d.mine then excluded.expires_at else l.expires_at end
  from (select l.expires_at <= clock_timestamp() as free, l.delivery_id = excluded.delivery_id as mine) d)
returning l.fence::text as fence, l.run_id, l.delivery_id, l.owner,
  extract(epoch from l.expires_at - clock_timestamp()) * 1000 as remaining_ms`;

interface LeaseRow {
  readonly fence: string;
  readonly run_id: string;
  readonly delivery_id: string;
  readonly owner: string;
  readonly remaining_ms: string;
}

/** Takes the thread when it is free or its lease has run out, under a new fence; else says who has it and for how long. */
export async function acquireFence(db: Queryable, request: FenceRequest): Promise<FenceAnswer> {
  const { threadId, runId, deliveryId, owner, leaseMs } = request;
  const answer = await db.query(ACQUIRE_SQL, [threadId, runId, deliveryId, owner, Math.trunc(leaseMs)]);
  // The statement above always returns exactly one row of this shape: pg cannot know it.
  const row = answer.rows[0] as unknown as LeaseRow;
  if (row.delivery_id === deliveryId) return { fence: row.fence };
  const heldBy = { runId: row.run_id, deliveryId: row.delivery_id, owner: row.owner };
  return { heldBy, remainingMs: Math.max(0, Number(row.remaining_ms)) };
}

/** Extends a lease that is still under this fence, run out or not: as long as nobody took it, nobody else wrote. */
export async function renewFence(
  db: Queryable,
  ref: FenceRef & { readonly leaseMs: number },
): Promise<{ readonly renewed: boolean }> {
  const answer = await db.query(
    `update ${LEASES} set expires_at = clock_timestamp() + $3::bigint * interval '1 millisecond' where thread_id = $1 and fence = $2::bigint`,
    [ref.threadId, String(ref.fence), Math.trunc(ref.leaseMs)],
  );
  return { renewed: answer.rowCount === 1 };
}

/** Gives the thread back. The row goes, so that writes of this holder that are still on their way are refused as well. */
export async function releaseFence(db: Queryable, ref: FenceRef): Promise<{ readonly released: boolean }> {
  const answer = await db.query(`delete from ${LEASES} where thread_id = $1 and fence = $2::bigint`, [
    ref.threadId,
    String(ref.fence),
  ]);
  return { released: answer.rowCount === 1 };
}

/** Whether a database error is `assert_fence` speaking. */
export function isFenceLostError(error: unknown): boolean {
  return typeof error === "object" && error !== null && "code" in error && error.code === FENCE_LOST_SQLSTATE;
}
