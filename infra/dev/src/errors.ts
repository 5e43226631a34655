// Errors of the development stack: every one carries a code, and its message says what to do next.

/** Codes a caller may switch on. Each has a row in this package's README. */
export type DevStackErrorCode =
  | "POSTGRES_PACKAGE_MISSING"
  | "POSTGRES_UID_WITHOUT_ACCOUNT"
  | "POSTGRES_CANNOT_DROP_ROOT"
  | "POSTGRES_NO_USABLE_DIRECTORY"
  | "POSTGRES_DATA_DIR_UNREACHABLE"
  | "POSTGRES_DATA_DIR_IN_USE"
  | "POSTGRES_DATA_DIR_VERSION"
  | "POSTGRES_INITDB_FAILED"
  | "POSTGRES_START_FAILED"
  | "POSTGRES_PORT_IN_USE"
  | "POSTGRES_START_TIMEOUT"
  | "DATABASE_CREATE_FAILED"
  | "SINK_FILTER_INVALID"
  | "SINK_LISTEN_FAILED"
  | "STACK_OPTION_INVALID"
  | "STACK_QUEUE_FAILED";

/** Thrown by everything in this package. `message` holds no secrets: database URLs are printed without their password. */
export class DevStackError extends Error {
  readonly code: DevStackErrorCode;

  constructor(code: DevStackErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = "DevStackError";
    this.code = code;
  }
}

/** The way out that every PostgreSQL failure names: a server of the reader's own. */
export const USE_DATABASE_URL =
  "Set DATABASE_URL to a PostgreSQL server of your own (for example postgresql://user@127.0.0.1:5432/postgres) and the embedded one is not started.";
