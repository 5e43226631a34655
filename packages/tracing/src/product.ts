// The product's name, prefix and database schema: the one place a rename has to touch.

/**
 * Who we are, wherever a name has to be said: packages, environment variables, tables, tracers.
 * A fork or a rename edits this object; `infra/test/repository.test.ts` fails when a literal strays elsewhere.
 */
export const PRODUCT = {
  /** The command, the tracer prefix and the database schema. */
  name: "reprise",
  /** How the product is written in a sentence. */
  title: "Reprise",
  /** npm scope of every package. */
  scope: "@reprise",
  /** PostgreSQL schema of our own tables; LangGraph's tables stay where the user's saver keeps them. */
  schema: "reprise",
  /** Prefix of the environment variables that only we read. */
  environmentPrefix: "REPRISE_",
} as const;
