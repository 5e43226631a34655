// A small pool for the kit and for each of its holders, with the listeners without which a stopping server ends a process.
import pg from "pg";

export function openKitPool(connectionString: string, max: number): pg.Pool {
  const pool = new pg.Pool({ connectionString, max, connectionTimeoutMillis: 30_000 });
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
}
