// The development stack, in the order it is composed: PostgreSQL and its databases, SQS, the trace sink, all three.

export type { DevEnvironment } from "./env.ts";
export { readEnvironment } from "./env.ts";
export type { DevStackErrorCode } from "./errors.ts";
export { DevStackError } from "./errors.ts";
export type { Postgres, PostgresOptions } from "./postgres.ts";
export { startPostgres } from "./postgres.ts";
export type { TestDatabase } from "./postgres-database.ts";
export { createDatabase, openPool, withDatabase, withoutPassword } from "./postgres-database.ts";
export type { Sink, SinkOptions, SinkStats } from "./sink.ts";
export { startSink } from "./sink.ts";
export { SqsEndpointError } from "./sqs-errors.ts";
export type { SqsFault, SqsFaultKind, SqsFaultOperation, SqsFaultScope, SqsFaults } from "./sqs-faults.ts";
export type { SqsOptions, SqsServer } from "./sqs-server.ts";
export { startSqs } from "./sqs-server.ts";
export type { Stack, StackOptions } from "./stack.ts";
export { startStack } from "./stack.ts";
