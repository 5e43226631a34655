// Proves the wait: what ends it, how often it asks, and what it says when time is up. Rows and time are the test's.
import type { Queryable } from "@reprise/tools";
import { describe, expect, test } from "vitest";
import { type WaitTime, waitForRun } from "../src/run-wait.ts";

type Row = Readonly<Record<string, unknown>>;
const row = (status: string, more: Row = {}): Row => ({
  status,
  result: null,
  interrupts: null,
  error_code: null,
  error_text: null,
  ...more,
});

/** Answers each look with the next of these; the last one again and again. An error is thrown. */
function database(...looks: readonly (Row | undefined | Error)[]): { readonly pool: Queryable; asked(): number } {
  let asked = 0;
  const query: Queryable["query"] = async () => {
    const look = looks[Math.min(asked, looks.length - 1)];
    asked += 1;
    if (look instanceof Error) throw look;
    return { rows: look === undefined ? [] : [look], rowCount: look === undefined ? 0 : 1 };
  };
  return { pool: { query }, asked: () => asked };
}

function clock(): { readonly time: WaitTime; readonly pauses: number[] } {
  const pauses: number[] = [];
  let now = 0;
  const time: WaitTime = {
    now: () => now,
    random: () => 0,
    pause: async (ms) => {
      pauses.push(ms);
      now += ms;
    },
  };
  return { time, pauses };
}

const failure = (code: string | undefined): Error => Object.assign(new Error("no"), code === undefined ? {} : { code });

describe("a wait", () => {
  test("ends with the result, after a run that was not there yet, and then queued, and then running", async () => {
    const { pool, asked } = database(undefined, row("queued"), row("running"), row("finished", { result: "7" }));
    expect(await waitForRun("r", { pool, ...clock() })).toEqual({ state: "finished", result: 7 });
    expect(asked()).toBe(4);
  });

  test.each(["failed", "cancelled", "rejected", "parked", "abandoned"])("ends when the run is %s", async (status) => {
    const { pool } = database(row(status, { error_code: "C", error_text: "why" }));
    expect(await waitForRun("r", { pool, ...clock() })).toEqual({ state: status, code: "C", text: "why" });
  });

  test("ends with a question, but not with one that was answered already", async () => {
    const asks = (id: string): Row => row("interrupted", { interrupts: JSON.stringify([{ id, value: "?" }]) });
    const { pool, asked } = database(asks("i1"), asks("i1"), asks("i2"));
    const report = await waitForRun("r", { pool, answered: ["i1"], ...clock() });
    expect(report).toEqual({ state: "interrupted", interrupts: [{ id: "i2", value: "?" }] });
    expect(asked()).toBe(3);
  });

  test("asks after 100 ms, then ever more slowly up to every 2 s, and never past its time", async () => {
    const { time, pauses } = clock();
    const { pool } = database(row("running"));
    await expect(waitForRun("r", { pool, timeoutMs: 10_000, time })).rejects.toMatchObject({
      code: "RUN_WAIT_TIMEOUT",
    });
    expect(pauses[0]).toBe(100);
    expect(pauses.slice(0, -1)).toEqual([...pauses.slice(0, -1)].sort((a, b) => a - b));
    expect(Math.max(...pauses)).toBe(2_000);
    expect(pauses.reduce((sum, ms) => sum + ms, 0)).toBe(10_000);
  });

  test("looks a last time when its time is up", async () => {
    const { pool } = database(row("running"), row("finished", { result: "1" }));
    expect(await waitForRun("r", { pool, timeoutMs: 50, ...clock() })).toEqual({ state: "finished", result: 1 });
  });

  test("stops at its signal, with the signal's reason", async () => {
    const stop = new AbortController();
    const { pool, asked } = database(row("running"));
    const time: WaitTime = { ...clock().time, pause: async () => stop.abort(new Error("enough")) };
    await expect(waitForRun("r", { pool, signal: stop.signal, time })).rejects.toThrow("enough");
    expect(asked()).toBe(1);
  });
});

describe("time that is up", () => {
  test("says that the run was never seen, since its message may not have been received", async () => {
    const { pool } = database(undefined);
    const wait = waitForRun("r", { pool, timeoutMs: 500, ...clock() });
    await expect(wait).rejects.toMatchObject({ name: "WorkerError", code: "RUN_WAIT_TIMEOUT" });
    await expect(wait).rejects.toThrow(/run r was never seen here.*after 500 ms/);
  });

  test("says how the run stands", async () => {
    const { pool } = database(row("queued"));
    await expect(waitForRun("r", { pool, timeoutMs: 500, ...clock() })).rejects.toThrow(/run r is queued/);
  });
});

describe("a database error", () => {
  test.each([["08006"], ["57P01"], ["53300"], ["ECONNREFUSED"], [undefined]])(
    "that passes (%s) is waited out",
    async (code) => {
      const { pool } = database(failure(code), row("finished", { result: "1" }));
      expect(await waitForRun("r", { pool, ...clock() })).toMatchObject({ state: "finished" });
    },
  );

  test.each([["42P01"], ["28P01"], ["42501"]])("that waiting does not mend (%s) is thrown at once", async (code) => {
    const { pool, asked } = database(failure(code));
    await expect(waitForRun("r", { pool, ...clock() })).rejects.toMatchObject({ code });
    expect(asked()).toBe(1);
  });

  test("that lasts is the cause of the timeout", async () => {
    const error = failure("57P03");
    const { pool } = database(error);
    const wait = waitForRun("r", { pool, timeoutMs: 500, ...clock() });
    await expect(wait).rejects.toMatchObject({ code: "RUN_WAIT_TIMEOUT", cause: error });
  });
});
