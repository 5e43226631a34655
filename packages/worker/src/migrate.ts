// All tables of a worker's database: ours by numbered migrations, LangGraph's by its own setup, one caller at a time.
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { migrate, toolsMigrations } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import type pg from "pg";
import { workerMigrations } from "./migrations.ts";

/** LangGraph's setup races between workers (facts/langgraph, setup.ts: five of six failed), so it has a lock of its own. */
const SETUP_LOCK = `hashtext('${PRODUCT.name}:checkpoint-setup')`;

/** Idempotent, and safe from any number of callers. @returns the ids applied now */
export async function migrateDatabase(pool: pg.Pool, checkpointSchema: string): Promise<readonly string[]> {
  const { applied } = await migrate(pool, [...toolsMigrations, ...workerMigrations]);
  // A session lock on its own connection: setup opens its own, with DDL that commits as it goes.
  const lock = await pool.connect();
  try {
    await lock.query(`select pg_advisory_lock(${SETUP_LOCK})`);
    await new PostgresSaver(pool, undefined, { schema: checkpointSchema }).setup();
    return applied;
  } finally {
    await lock.query(`select pg_advisory_unlock(${SETUP_LOCK})`).finally(() => lock.release());
  }
}

/** Ids of migrations that this code needs and the database does not have. */
export async function missingMigrations(pool: pg.Pool): Promise<readonly string[]> {
  const needed = [...toolsMigrations, ...workerMigrations].map((migration) => migration.id);
  const { rows } = await pool.query<{ name: string | null }>(
    `select to_regclass('${PRODUCT.schema}.migrations')::text as name`,
  );
  if (rows[0]?.name == null) return needed;
  const known = await pool.query<{ id: string }>(`select id from ${PRODUCT.schema}.migrations`);
  const ids = new Set(known.rows.map((row) => row.id));
  return needed.filter((id) => !ids.has(id));
}
