// `reprise migrate`: the tables of a database, created or brought up to date.
import { readOne } from "./config.ts";
import { migrateDatabase } from "./migrate.ts";
import { createPool } from "./pool.ts";

export async function migrate(): Promise<void> {
  const pool = createPool({
    connectionString: readOne("databaseUrl"),
    max: 3,
    applicationName: "reprise-migrate",
    onError: (text) => process.stderr.write(`reprise: ${text}\n`),
  });
  try {
    const applied = await migrateDatabase(pool, readOne("checkpointSchema"));
    process.stdout.write(applied.length === 0 ? "nothing to apply\n" : `applied ${applied.join(", ")}\n`);
  } finally {
    await pool.end();
  }
}
