// A database of the test file's own, with our tables and a pool that survives its server's mishaps.

import { createDatabase, openPool } from "@reprise/dev-stack";
import type pg from "pg";
import { inject } from "vitest";
import { migrate } from "../src/migrate.ts";
import { toolsMigrations } from "../src/migrate-tools.ts";

export interface TestDatabase {
  readonly pool: pg.Pool;
  readonly url: string;
  close(): Promise<void>;
}

export async function openDatabase(
  options: { readonly migrated: boolean } = { migrated: true },
): Promise<TestDatabase> {
  const database = await createDatabase(inject("databaseUrl"));
  const pool = openPool(database.url, { max: 20 });
  if (options.migrated) await migrate(pool, toolsMigrations);
  return {
    pool,
    url: database.url,
    close: async () => {
      await pool.end();
      await database.drop();
    },
  };
}
