// The development stack, in the order it is composed: PostgreSQL, its databases.

export type { DevStackErrorCode } from "./errors.ts";
export { DevStackError } from "./errors.ts";
export type { Postgres, PostgresOptions } from "./postgres.ts";
export { startPostgres } from "./postgres.ts";
export type { TestDatabase } from "./postgres-database.ts";
export { createDatabase, withDatabase, withoutPassword } from "./postgres-database.ts";
