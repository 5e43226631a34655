// What the `real` project's global set-up hands to every test file.

import "vitest";

declare module "vitest" {
  export interface ProvidedContext {
    /** URL of a running PostgreSQL server; take a database with `await createDatabase(inject("databaseUrl"))`. */
    readonly databaseUrl: string;
  }
}
