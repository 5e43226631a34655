// A database of the test file's own, with our tables and a pool that survives its server's mishaps.

import { createDatabase } from "@reprise/dev-stack";
import pg from "pg";
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
  const pool = new pg.Pool({ connectionString: database.url, max: 20 });
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
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
