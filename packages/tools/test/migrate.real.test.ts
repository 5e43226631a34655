// Migrations: any number of callers at once, forward only, and a changed past is an error.

import { PRODUCT } from "@reprise/tracing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Migration, migrate } from "../src/migrate.ts";
import { toolsMigrations } from "../src/migrate-tools.ts";
import { openDatabase, type TestDatabase } from "./database.ts";

let database: TestDatabase;
beforeEach(async () => {
  database = await openDatabase({ migrated: false });
});
afterEach(() => database.close());

const ids = async (): Promise<readonly string[]> =>
  (await database.pool.query(`select id from ${PRODUCT.schema}.migrations order by id`)).rows.map(
    (row) => row.id as string,
  );

describe("migrate", () => {
  it("lets six callers at once through: one applies, five find it done", async () => {
    const answers = await Promise.all(Array.from({ length: 6 }, () => migrate(database.pool, toolsMigrations)));
    expect(answers.map((answer) => answer.applied.length).sort()).toEqual([0, 0, 0, 0, 0, toolsMigrations.length]);
    expect(await ids()).toEqual(toolsMigrations.map(({ id }) => id));
    expect((await migrate(database.pool, toolsMigrations)).applied).toEqual([]);
  });

  it("takes a newer database than the code as it is", async () => {
    await migrate(database.pool, [...toolsMigrations, { id: "tools-999", sql: "select 1" }]);
    expect((await migrate(database.pool, toolsMigrations)).applied).toEqual([]);
    expect(await ids()).toContain("tools-999");
  });

  it("refuses an applied migration whose text has changed, and applies nothing", async () => {
    const first: Migration = { id: "x-001", sql: "create table x (a int)" };
    await migrate(database.pool, [first]);
    const changed = [
      { ...first, sql: "create table x (b int)" },
      { id: "x-002", sql: "create table y (a int)" },
    ];
    await expect(migrate(database.pool, changed)).rejects.toMatchObject({ code: "MIGRATION_CHANGED" });
    const later = [
      { id: "x-002", sql: "create table y (a int)" },
      { ...first, sql: "changed" },
    ];
    await expect(migrate(database.pool, later)).rejects.toMatchObject({ code: "MIGRATION_CHANGED" });
    expect(await ids()).toEqual(["x-001"]);
  });

  it("applies all or nothing, and the pool stays usable", async () => {
    const broken = [
      { id: "x-001", sql: "create table x (a int)" },
      { id: "x-002", sql: "create table" },
    ];
    await expect(migrate(database.pool, broken)).rejects.toMatchObject({ code: "42601" });
    const left = await database.pool.query(
      `select to_regclass('x') as x, to_regclass('${PRODUCT.schema}.migrations') as m`,
    );
    expect(left.rows[0]).toEqual({ x: null, m: null });
  });
});
