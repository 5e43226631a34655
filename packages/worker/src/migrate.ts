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
  // A session lock, since the setup commits as it goes; and the setup on the same connection, since a pool may have no other.
  const client = await pool.connect();
  try {
    await client.query(`select pg_advisory_lock(${SETUP_LOCK})`);
    await new PostgresSaver(poolOf(client), undefined, { schema: checkpointSchema }).setup();
    return applied;
  } finally {
    await client.query(`select pg_advisory_unlock(${SETUP_LOCK})`).finally(() => client.release());
  }
}

/** One connection as a pool. PostgresSaver's setup uses connect of a pool, and query and release of a client (1.0.5). */
function poolOf(client: pg.PoolClient): pg.Pool {
  const borrowed = { query: client.query.bind(client), release: (): void => undefined };
  return { connect: async () => borrowed, query: borrowed.query } as unknown as pg.Pool;
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
