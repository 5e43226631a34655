// One PostgreSQL for a whole `real` run: the one DATABASE_URL names, else an embedded one. No server is a failure, never a skip.

import type { TestProject } from "vitest/node";
import { readEnvironment } from "../src/env.ts";
import { type Postgres, startPostgres } from "../src/postgres.ts";
import { createDatabase } from "../src/postgres-database.ts";
import "./provided.ts";

/** Vitest calls this before the first test file and the returned function after the last. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const outside = readEnvironment().databaseUrl;
  const postgres: Postgres | undefined = outside === undefined ? await startPostgres() : undefined;
  const databaseUrl = outside ?? postgres?.url ?? "";
  // A wrong DATABASE_URL should fail once, here, and not once in every test.
  await (await createDatabase(databaseUrl)).drop();
  project.provide("databaseUrl", databaseUrl);
  return async () => {
    await postgres?.stop();
  };
}
