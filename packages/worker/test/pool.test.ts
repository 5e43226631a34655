// A pool that was lent to the worker: heard while the worker holds it, left as it was afterwards.
import pg from "pg";
import { expect, test } from "vitest";
import { holdPool } from "../src/pool.ts";

const own = (errors: string[]) => ({
  connectionString: "postgres://nobody@127.0.0.1:1/none",
  max: 1,
  applicationName: "test",
  onError: (text: string) => void errors.push(text),
});

test("E02: yours is heard until the worker lets go of it, and stays open", async () => {
  const yours = new pg.Pool();
  const errors: string[] = [];
  const { pool, letGo } = holdPool(yours, own(errors));
  expect(pool).toBe(yours);
  yours.emit("error", new Error("terminated"), new pg.Client());
  expect(errors).toEqual(["terminated"]);
  await letGo();
  expect([yours.listenerCount("error"), yours.listenerCount("connect"), yours.ended]).toEqual([0, 0, false]);
  await yours.end();
});

test("one of the worker's own is ended", async () => {
  const { pool, letGo } = holdPool(undefined, own([]));
  await letGo();
  expect(pool.ended).toBe(true);
});
