// A database connection for one command: opened, used, closed, and its usual failures told with what to do next.
import { PRODUCT } from "@reprise/tracing";
import type pg from "pg";
import { readOne } from "./config.ts";
import { errorName, errorText, WorkerError } from "./errors.ts";
import { createPool } from "./pool.ts";

/** Tables, columns or the schema missing: SQLSTATE 42P01, 42703, 3F000 (PostgreSQL, appendix A). */
const NOT_MIGRATED = new Set(["42P01", "42703", "3F000"]);
/** The server was not reached, or let nobody in: its own class 08, 28 and 57P, and Node's names. */
const UNREACHABLE = /^(E[A-Z_]+|08...|28...|57P..|3D000)$/;

/** @param command shown in pg_stat_activity @throws WorkerError DATABASE_NOT_MIGRATED, DATABASE_UNREACHABLE */
export async function withDatabase<T>(command: string, use: (pool: pg.Pool) => Promise<T>): Promise<T> {
  const connectionString = readOne("databaseUrl");
  const pool = createPool({
    connectionString,
    max: 3,
    applicationName: `${PRODUCT.name}-${command}`,
    onError: (text) => process.stderr.write(`${PRODUCT.name}: ${text}\n`),
  });
  try {
    return await use(pool);
  } catch (error) {
    throw explained(error, connectionString);
  } finally {
    await pool.end();
  }
}

function explained(error: unknown, connectionString: string): unknown {
  if (error instanceof WorkerError) return error;
  const name = errorName(error);
  if (NOT_MIGRATED.has(name)) {
    const text = `${placeOf(connectionString)} lacks tables or columns (${errorText(error)}); run \`${PRODUCT.name} migrate\``;
    return new WorkerError("DATABASE_NOT_MIGRATED", text, { cause: error });
  }
  if (UNREACHABLE.test(name) || errorText(error).includes("timeout exceeded when trying to connect")) {
    const text = `${placeOf(connectionString)} cannot be used: ${errorText(error) || name}. Check DATABASE_URL, the network and the server`;
    return new WorkerError("DATABASE_UNREACHABLE", text, { cause: error });
  }
  return error;
}

/** Where a command looked, for people: never with the password. */
export function placeOf(connectionString: string = readOne("databaseUrl")): string {
  try {
    const url = new URL(connectionString);
    return `database ${url.pathname.slice(1) || "?"} at ${url.host}, schema ${PRODUCT.schema}`;
  } catch {
    return `the database of DATABASE_URL, schema ${PRODUCT.schema}`;
  }
}
