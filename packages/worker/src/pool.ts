// The worker's own pg.Pool: listeners on pool and clients, since a terminated connection without one kills the process.

import pg from "pg";
import { errorText } from "./errors.ts";

export interface PoolOptions {
  readonly connectionString: string;
  /** Connections; about two a run. */
  readonly max: number;
  /** Shown in pg_stat_activity. */
  readonly applicationName: string;
  readonly onError: (text: string) => void;
}

/** pg waits for a free connection without end by default; a run that cannot get one must fail and be retried. */
const CHECKOUT_TIMEOUT_MS = 15_000;

export function createPool(options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.connectionString,
    max: options.max,
    application_name: options.applicationName,
    connectionTimeoutMillis: CHECKOUT_TIMEOUT_MS,
    keepAlive: true,
    // A checkpoint's transaction goes out in one round trip (tools, fence-pipeline.ts).
    pipeline: true,
  });
  return listenTo(pool, options.onError);
}

/** For a pool the user made, too: the idle clients report through the pool, a checked-out one only through itself (case E02). */
export function listenTo(pool: pg.Pool, onError: (text: string) => void): pg.Pool {
  pool.on("error", (error) => onError(errorText(error)));
  pool.on("connect", (client) => client.on("error", (error) => onError(errorText(error))));
  return pool;
}
