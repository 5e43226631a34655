// Every wiring on Postgres, killed inside the tool's body and resumed by another process: the same key, or a refusal with its fix.

import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { bundleForNode } from "../../../infra/dev/test/bundle.ts";
import { type CountingProvider, startCountingProvider } from "../src/testing/counting-provider.ts";
import { openDatabase, type TestDatabase } from "./database.ts";
import type { Shape } from "./fit-agents.ts";
import type { FitAnswer, FitOrder } from "./fit-child.ts";

let bundle: string;
let database: TestDatabase;
let provider: CountingProvider;
const children = new Set<ChildProcess>();
const idle: ChildProcess[] = [];

beforeAll(async () => {
  bundle = await bundleForNode(`${import.meta.dirname}/fit-child.ts`);
  database = await openDatabase();
  await new PostgresSaver(database.pool).setup();
  provider = await startCountingProvider();
}, 300_000);

afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await provider?.close();
  await database?.close();
});

async function take(): Promise<ChildProcess> {
  const waiting = idle.pop();
  if (waiting !== undefined) return waiting;
  const child = fork(bundle, [database.url, provider.url], {
    execArgv: [],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  children.add(child);
  await once(child, "message");
  return child;
}

/** The child's answer, or "killed". */
async function deliver(order: FitOrder): Promise<FitAnswer | "killed"> {
  const child = await take();
  const over = new AbortController();
  const { signal } = over;
  const answered = once(child, "message", { signal }).then(([answer]) => answer as FitAnswer);
  const gone = once(child, "exit", { signal }).then(() => "killed" as const);
  child.send(order);
  const answer = await Promise.race([answered, gone]);
  over.abort();
  await Promise.allSettled([answered, gone]);
  if (answer !== "killed") idle.push(child);
  return answer;
}

async function killAndResume(shape: Shape, durability: FitOrder["durability"], putMs = 40) {
  const order = { shape, durability, putMs, threadId: `t${randomUUID().replaceAll("-", "")}` };
  const first = await deliver({ ...order, dies: true });
  const second = await deliver({ ...order, dies: false });
  const requests = await provider.requests(order.threadId);
  const keys = requests.map((text) => /"idempotency-key":"([0-9a-f]{32})"/.exec(text)?.[1]);
  return { first, second, keys, executions: await provider.executions(order.threadId) };
}

const TIMEOUT_MS = 300_000;

describe.each(["sync", "async"] as const)("under %s", (durability) => {
  it.each(["flat", "subgraph", "subagent_config", "subagent_bare"] as const)(
    "a %s keeps its call's key over a kill: one effect, the same key twice (A13)",
    async (shape) => {
      const { first, second, keys, executions } = await killAndResume(shape, durability);
      expect(first).toBe("killed");
      expect(second).toEqual({ ended: true });
      expect(keys).toHaveLength(2);
      expect(new Set(keys).size).toBe(1);
      expect(executions).toBe(1);
    },
    TIMEOUT_MS,
  );
});

describe("what cannot be stable is refused, in both deliveries, before anything is sent", () => {
  it.each([
    ["subagent_unsaved", "sync"],
    ["subagent_unsaved", "async"],
    ["subagent_unsaved", "exit"],
  ] as const)(
    "%s under %s",
    async (shape, durability) => {
      const { first, second, keys } = await killAndResume(shape, durability, 0);
      for (const refused of [first, second]) {
        expect(refused).toMatchObject({
          code: "CHECKPOINT_NOT_DURABLE",
          message: expect.stringMatching(/durability "sync".*checkpointer that is not false/),
        });
      }
      expect(keys).toEqual([]);
    },
    TIMEOUT_MS,
  );
});

// LangGraph stores at the end of an `exit` run, and a refusal ends it: what the next delivery stands on is then durable.
describe("under exit nothing is sent while nothing is stored", () => {
  it.each(["flat", "subgraph", "subagent_config", "subagent_bare"] as const)(
    "%s is refused; the next delivery sends, once",
    async (shape) => {
      const { first, second, keys, executions } = await killAndResume(shape, "exit", 0);
      expect(first).toMatchObject({
        code: "CHECKPOINT_NOT_DURABLE",
        message: expect.stringMatching(/durability "sync".*checkpointer that is not false/),
      });
      expect(second).toEqual({ ended: true });
      expect(keys).toHaveLength(1);
      expect(executions).toBe(1);
    },
    TIMEOUT_MS,
  );
});

describe("agents that others build", () => {
  it.each(["create_agent", "create_agent_v1", "react_v1", "react_v2", "tool_node", "supervisor"] as const)(
    "%s, killed inside the tool and resumed, makes one effect under one key",
    async (shape) => {
      const { first, second, keys, executions } = await killAndResume(shape, "sync", 0);
      expect(first).toBe("killed");
      expect(second).toEqual({ ended: true });
      expect(keys).toHaveLength(2);
      expect(new Set(keys).size).toBe(1);
      expect(executions).toBe(1);
    },
    TIMEOUT_MS,
  );
});
