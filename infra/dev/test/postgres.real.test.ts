import pg from "pg";
import { expect, inject, it } from "vitest";
import { createDatabase } from "../src/postgres-database.ts";

it("hands every test file a server on which it can create a database of its own", async () => {
  const database = await createDatabase(inject("databaseUrl"));
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  const { rows } = await client.query<{ name: string }>("SELECT current_database() AS name");
  await client.end();
  expect(rows).toEqual([{ name: database.name }]);
  await database.drop();
});
