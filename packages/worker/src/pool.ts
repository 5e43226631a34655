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
  listenTo(pool, options.onError);
  return pool;
}

/** A pool, and how to let go of it. */
export interface HeldPool {
  readonly pool: pg.Pool;
  readonly letGo: () => Promise<void>;
}

/** Yours stays open when the worker lets go of it; one of the worker's own is ended. */
export function holdPool(yours: pg.Pool | undefined, own: PoolOptions): HeldPool {
  if (yours === undefined) {
    const pool = createPool(own);
    return { pool, letGo: () => pool.end() };
  }
  const stop = listenTo(yours, own.onError);
  return { pool: yours, letGo: async () => stop() };
}

// The idle clients report through the pool, a checked-out one only through itself (case E02). What a client was given stays with it:
// it may be lost after the worker stopped.
function listenTo(pool: pg.Pool, onError: (text: string) => void): () => void {
  const onPoolError = (error: Error): void => onError(errorText(error));
  const onConnect = (client: pg.PoolClient): void => void client.on("error", onPoolError);
  pool.on("error", onPoolError);
  pool.on("connect", onConnect);
  return () => {
    pool.off("error", onPoolError);
    pool.off("connect", onConnect);
  };
}
