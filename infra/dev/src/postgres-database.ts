// Creates and drops databases on any PostgreSQL server: cheap enough for one database a test file.

import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { PRODUCT } from "@reprise/tracing";
import pg from "pg";
import { DevStackError } from "./errors.ts";

/** A database of the test's own. */
export interface TestDatabase {
  readonly name: string;
  readonly url: string;
  /** Drops it, ending whatever is still connected. Dropping twice is harmless. */
  drop(): Promise<void>;
}

/** How long a clone waits for sessions to leave its template: PostgreSQL refuses to copy a database in use. */
const TEMPLATE_BUSY_WAIT_MS = 5_000;
const TEMPLATE_BUSY_RETRY_MS = 50;
/** object_in_use: https://www.postgresql.org/docs/18/errcodes-appendix.html */
const SQLSTATE_IN_USE = "55006";

/**
 * Creates a database beside the one the URL names; the URL's user needs CREATEDB.
 * @param serverUrl a `postgresql://` URL of any server, embedded or not.
 * @param options.template name of the database to clone (default: the server's `template1`).
 * @param options.name name of the new database (default: `reprise_` and 12 random hex digits).
 * @throws DevStackError DATABASE_CREATE_FAILED, the server's error as its cause.
 */
export async function createDatabase(
  serverUrl: string,
  options: { readonly template?: string; readonly name?: string } = {},
): Promise<TestDatabase> {
  const name = options.name ?? `${PRODUCT.name}_${randomBytes(6).toString("hex")}`;
  const template = options.template === undefined ? "" : ` TEMPLATE ${pg.escapeIdentifier(options.template)}`;
  try {
    await runWhenFree(serverUrl, `CREATE DATABASE ${pg.escapeIdentifier(name)}${template}`);
  } catch (error) {
    throw new DevStackError(
      "DATABASE_CREATE_FAILED",
      `Cannot create database ${name}${options.template === undefined ? "" : ` from ${options.template}`} on ${withoutPassword(serverUrl)}: ${String(error)}. The user needs CREATEDB, and nobody may be connected to the template.`,
      { cause: error },
    );
  }
  return {
    name,
    url: withDatabase(serverUrl, name),
    drop: () => run(serverUrl, `DROP DATABASE IF EXISTS ${pg.escapeIdentifier(name)} WITH (FORCE)`),
  };
}

/** The same server, another database; the query string (sslmode and friends) stays. */
export function withDatabase(serverUrl: string, name: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${encodeURIComponent(name)}`;
  return url.href;
}

/** A database URL fit for messages and logs. */
export function withoutPassword(databaseUrl: string): string {
  if (!URL.canParse(databaseUrl)) return "(a DATABASE_URL that does not parse)";
  const url = new URL(databaseUrl);
  if (url.password !== "") url.password = "***";
  if (url.searchParams.has("password")) url.searchParams.set("password", "***");
  return url.href;
}

/** A pool that was just ended may hold its sessions for some milliseconds more, so "in use" is asked again for a while. */
async function runWhenFree(serverUrl: string, sql: string): Promise<void> {
  const deadline = performance.now() + TEMPLATE_BUSY_WAIT_MS;
  for (;;) {
    try {
      return await run(serverUrl, sql);
    } catch (error) {
      const inUse = error instanceof Error && "code" in error && error.code === SQLSTATE_IN_USE;
      if (!inUse || performance.now() > deadline) throw error;
      await sleep(TEMPLATE_BUSY_RETRY_MS);
    }
  }
}

async function run(serverUrl: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl, connectionTimeoutMillis: 10_000 });
  // Without a listener a server that goes away between two calls would end the process.
  client.on("error", () => undefined);
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * A pool for tests and examples, with the listeners that every pool needs: a server that stops, or a database that is dropped,
 * ends connections that are idle or still closing, and without a listener the process with them (case E02).
 */
export function openPool(
  url: string,
  options: { readonly max: number; readonly min?: number; readonly pipeline?: boolean },
): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, ...options });
  const ignore = (): void => undefined;
  pool.on("error", ignore);
  pool.on("connect", (client) => client.on("error", ignore));
  return pool;
}
