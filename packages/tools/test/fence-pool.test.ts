// What the fenced pool says in a trace: nothing statement by statement, and how long the saver's call waited for a connection.

import { AsyncLocalStorage } from "node:async_hooks";
import { type Context, type ContextManager, context, ROOT_CONTEXT, type Span, trace } from "@opentelemetry/api";
import type pg from "pg";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { fencedPool } from "../src/fence-pool.ts";

const active = new AsyncLocalStorage<Context>();
const manager: ContextManager = {
  active: () => active.getStore() ?? ROOT_CONTEXT,
  with: (inside, run, self, ...args) => active.run(inside, () => run.call(self, ...args)),
  bind: (_, target) => target,
  enable: () => manager,
  disable: () => manager,
};
beforeAll(() => {
  context.setGlobalContextManager(manager);
  vi.useFakeTimers({ toFake: ["setTimeout", "performance"] });
});
afterAll(() => {
  context.disable();
  vi.useRealTimers();
});

/** One put of a saver under a span, on a pool that lets it wait. */
async function put(
  waitMs: number,
): Promise<{ readonly traced: readonly string[]; readonly said: Record<string, unknown> }> {
  const said: Record<string, unknown> = {};
  const span = Object.assign(
    trace.wrapSpanContext({ traceId: "a".repeat(32), spanId: "b".repeat(16), traceFlags: 1 }),
    {
      setAttribute: (name: string, value: unknown) => {
        said[name] = value;
      },
    },
  ) as unknown as Span;
  const traced: string[] = [];
  const look = (what: string): void => {
    if (trace.getSpan(context.active()) !== undefined) traced.push(what);
  };
  const client = {
    pipeline: true,
    query: async (text: string) => {
      look(text);
      return { command: text, rows: [] };
    },
    release: () => undefined,
  };
  const connect = async () => {
    look("connect");
    await new Promise((resolve) => setTimeout(resolve, waitMs));
    return client;
  };
  const query = async () => ({ rows: [] });
  const pool = fencedPool({ connect, query } as unknown as pg.Pool, { threadId: "t", fence: 1n });
  const stored = context.with(trace.setSpan(ROOT_CONTEXT, span), async () => {
    const lent = await pool.connect();
    await lent.query("BEGIN");
    await lent.query("INSERT INTO checkpoints VALUES ($1)", ["c"]);
    await lent.query("COMMIT");
    lent.release();
  });
  await vi.advanceTimersByTimeAsync(waitMs);
  await stored;
  return { traced, said };
}

it("shows a pipelined transaction as one statement, its COMMIT, and neither the look into the pool nor the others", async () => {
  expect((await put(0)).traced).toEqual(["COMMIT"]);
});

it("says on the active span how long the saver's call waited for a connection, when it did", async () => {
  expect((await put(0)).said).toEqual({});
  expect((await put(30)).said).toEqual({ "checkpoint.pool_wait_ms": 30 });
});
