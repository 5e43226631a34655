// `reprise migrate`: the tables of a database, created or brought up to date.
import { PRODUCT } from "@reprise/tracing";
import { readOne } from "./config.ts";
import { migrateDatabase } from "./migrate.ts";
import { createPool } from "./pool.ts";

export async function migrate(): Promise<void> {
  const pool = createPool({
    connectionString: readOne("databaseUrl"),
    max: 3,
    applicationName: `${PRODUCT.name}-migrate`,
    onError: (text) => process.stderr.write(`${PRODUCT.name}: ${text}\n`),
  });
  try {
    const applied = await migrateDatabase(pool, readOne("checkpointSchema"));
    process.stdout.write(applied.length === 0 ? "nothing to apply\n" : `applied ${applied.join(", ")}\n`);
  } finally {
    await pool.end();
  }
}
