// Ids near one that does not exist: what somebody who mistyped or half copied an id most likely meant.
import { PRODUCT } from "@reprise/tracing";
import type pg from "pg";

const s = PRODUCT.schema;
/** The newest runs are compared; an operator rarely asks for others by hand. */
const COMPARED_MAX = 5_000;
const OFFERED_MAX = 3;
const LENGTH_COMPARED_MAX = 200;

export interface Near {
  readonly runIds: readonly string[];
  /** Runs on a thread of exactly this name. */
  readonly onThread: readonly string[];
}

export async function nearest(pool: pg.Pool, id: string): Promise<Near> {
  const recent = await pool.query<{ run_id: string }>(
    `select run_id from ${s}.runs order by position desc limit ${COMPARED_MAX}`,
  );
  const thread = await pool.query<{ run_id: string }>(
    `select run_id from ${s}.runs where thread_id = $1 order by position desc limit ${OFFERED_MAX}`,
    [id],
  );
  const runIds = nearestOf(
    id,
    recent.rows.map((row) => row.run_id),
  );
  return { runIds, onThread: thread.rows.map((row) => row.run_id) };
}

/** Those that contain the id or begin alike, and those a third of their letters away at most; the nearest first. */
export function nearestOf(id: string, candidates: readonly string[]): readonly string[] {
  const wanted = id.toLowerCase().slice(0, LENGTH_COMPARED_MAX);
  return candidates
    .map((candidate) => ({
      candidate,
      distance: distanceOf(wanted, candidate.toLowerCase().slice(0, LENGTH_COMPARED_MAX)),
    }))
    .filter(({ distance }) => distance <= Math.max(1, wanted.length / 3))
    .toSorted((left, right) => left.distance - right.distance)
    .slice(0, OFFERED_MAX)
    .map(({ candidate }) => candidate);
}

function distanceOf(wanted: string, candidate: string): number {
  if (wanted.length >= 4 && candidate.includes(wanted)) return 0.5;
  return editDistance(wanted, candidate);
}

/** Levenshtein's, one row at a time. */
function editDistance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, at) => at);
  for (let i = 1; i <= left.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= right.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[right.length] ?? 0;
}
