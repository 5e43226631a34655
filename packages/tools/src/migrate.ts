// Forward-only migrations of our own tables: one transaction, one advisory lock, safe for any number of callers at once.
import { createHash } from "node:crypto";
import { PRODUCT } from "@reprise/tracing";
import type pg from "pg";
import { ToolsError } from "./errors.ts";

export interface Migration {
  /** Package and number: `tools-001`. Never reused, never edited once shipped. */
  readonly id: string;
  readonly sql: string;
}

export interface MigrateOptions {
  /** How long to wait for other callers and for table locks. Default 60 s. */
  readonly lockTimeoutMs?: number;
}

// Any fixed number will do, as long as every version of us takes the same lock.
const LOCK_ID = "59662923998";
const TABLE = `${PRODUCT.schema}.migrations`;

const hashOf = (sql: string): string => createHash("sha256").update(sql).digest("hex");

/**
 * Applies what is missing, in the given order, all or nothing. Ids in the database that this code does not know are a
 * newer version's and are left alone. Rejects with MIGRATION_CHANGED when an applied migration's text differs.
 */
export async function migrate(
  pool: pg.Pool,
  migrations: readonly Migration[],
  options: MigrateOptions = {},
): Promise<{ readonly applied: readonly string[] }> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query("BEGIN");
    // Transaction-scoped, so it also works behind a transaction pooler and cannot outlive a crash.
    await client.query(`set local lock_timeout = ${Math.trunc(options.lockTimeoutMs ?? 60_000)}`);
    await client.query("select pg_advisory_xact_lock($1::bigint)", [LOCK_ID]);
    const applied = await applyMissing(client, migrations);
    await client.query("COMMIT");
    return { applied };
  } catch (error) {
    await client.query("ROLLBACK").catch((failure: unknown) => {
      broken = failure instanceof Error ? failure : new Error(String(failure));
    });
    throw error;
  } finally {
    client.release(broken);
  }
}

async function applyMissing(client: pg.PoolClient, migrations: readonly Migration[]): Promise<readonly string[]> {
  await client.query(`create schema if not exists ${PRODUCT.schema}`);
  await client.query(
    `create table if not exists ${TABLE} (id text primary key, hash text not null, applied_at timestamptz not null default clock_timestamp())`,
  );
  const known = await client.query<{ id: string; hash: string }>(`select id, hash from ${TABLE}`);
  const hashes = new Map(known.rows.map((row) => [row.id, row.hash]));
  const applied: string[] = [];
  for (const migration of migrations) {
    const hash = hashOf(migration.sql);
    const before = hashes.get(migration.id);
    if (before === undefined) {
      await client.query(migration.sql);
      await client.query(`insert into ${TABLE} (id, hash) values ($1, $2)`, [migration.id, hash]);
      applied.push(migration.id);
    } else if (before !== hash) {
      throw new ToolsError(
        "MIGRATION_CHANGED",
        `Migration ${migration.id} was applied with other text than this code has. Restore its text and add a new migration instead.`,
      );
    }
  }
  return applied;
}
