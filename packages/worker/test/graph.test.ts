// Proves one invocation: what the graph is called with for each decision, how its end is read, and which input gets ids.
import { GraphDrained, INTERRUPT, RunControl } from "@langchain/langgraph";
import { MemorySaver } from "@langchain/langgraph-checkpoint";
import { MemoryLedger } from "@reprise/tools";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import type { Agent } from "../src/agent.ts";
import { type DriveParts, drive, type Invocation, withMessageIds } from "../src/graph.ts";

const controller = new AbortController();
const saver = new MemorySaver();
const control = new RunControl();
const PARTS: DriveParts = {
  runId: "r1",
  threadId: "t1",
  saver,
  effects: {
    ledger: new MemoryLedger(),
    runId: "r1",
    deliveryId: "d1",
    holder: "host:1",
    threadFence: "7",
    signal: controller.signal,
    isLeaseLive: () => true,
  },
  signal: controller.signal,
  control,
  onBody: () => {},
  recursionLimit: 50,
  toolsPerRun: 5,
};

type Config = Readonly<Record<string, unknown>> & { readonly configurable: Readonly<Record<string, unknown>> };
let calls: { readonly input: unknown; readonly config: Config }[];
let answer: () => Promise<unknown>;
beforeEach(() => {
  calls = [];
  answer = async () => ({ messages: [] });
});

const agent: Agent = {
  name: "support",
  fingerprint: "0123456789abcdef",
  result: (state) => state,
  graph: {
    nodes: {},
    invoke: (input, config) => {
      // The worker's own call always carries `configurable`.
      calls.push({ input, config: config as Config });
      return answer();
    },
    getState: () => Promise.reject(new Error("not read here")),
    updateState: () => Promise.reject(new Error("not written here")),
  },
};

async function driven(invocation: Invocation): Promise<{ readonly input: unknown; readonly config: Config }> {
  await drive(agent, invocation, PARTS);
  const call = calls[0];
  if (call === undefined) throw new Error("the graph was not invoked");
  return call;
}

describe("the invocation", () => {
  test("of a fresh run has its input, with message ids", async () => {
    const input = { messages: [{ role: "user", content: "hello" }], plan: "gold" };
    expect((await driven({ kind: "fresh", input })).input).toEqual({
      messages: [{ role: "user", content: "hello", id: "r1:in:0" }],
      plan: "gold",
    });
  });

  test("of a resumed run has null, never the input, which would throw finished siblings away", async () => {
    expect((await driven({ kind: "resume" })).input).toBeNull();
  });

  test("of an answer names its question, and refuses to answer another", async () => {
    const { input, config } = await driven({ kind: "answer", interruptId: "i1", value: { approve: true } });
    expect(input).toMatchObject({ resume: { i1: { approve: true } } });
    expect(config.configurable["__pregel_strict_resume"]).toBe(true);
  });

  test.each<Invocation>([
    { kind: "fresh", input: {} },
    { kind: "resume" },
    { kind: "answer", interruptId: "i1", value: 1 },
  ])("is never pinned to a checkpoint (B03), and durable step by step (E04): %j", async (invocation) => {
    const { config } = await driven(invocation);
    expect(config.configurable).not.toHaveProperty("checkpoint_id");
    expect(config.configurable).toMatchObject({ thread_id: "t1", __pregel_durability: "sync" });
    expect(config).toMatchObject({ durability: "sync", recursionLimit: 50, maxConcurrency: 5, control });
  });

  test("borrows the delivery's saver and carries its abort signal", async () => {
    const { config } = await driven({ kind: "resume" });
    expect(config.configurable["__pregel_checkpointer"]).toBe(saver);
    expect(config["signal"]).toBe(controller.signal);
  });
});

describe("the end of a graph", () => {
  test("is its values", async () => {
    answer = async () => ({ total: 3 });
    expect(await drive(agent, { kind: "resume" }, PARTS)).toEqual({ state: "finished", values: { total: 3 } });
  });

  test("is the questions it asks, by their ids", async () => {
    answer = async () => ({
      messages: [],
      [INTERRUPT]: [{ id: "i1", value: "may I?" }, { id: "i2", value: 2 }, { value: "without an id" }],
    });
    expect(await drive(agent, { kind: "resume" }, PARTS)).toEqual({
      state: "interrupted",
      interrupts: [
        { id: "i1", value: "may I?" },
        { id: "i2", value: 2 },
      ],
    });
  });

  test("is a drain when it was asked to stop between two steps, and no failure", async () => {
    answer = () => Promise.reject(new GraphDrained("sigterm"));
    expect(await drive(agent, { kind: "resume" }, PARTS)).toEqual({ state: "drained" });
  });

  test("is whatever a node threw", async () => {
    const error = new Error("the node broke");
    answer = () => Promise.reject(error);
    await expect(drive(agent, { kind: "resume" }, PARTS)).rejects.toBe(error);
  });
});

describe("input messages", () => {
  test("get ids from the run and their place, so that the same input applied twice replaces them", () => {
    const input = {
      messages: [
        { role: "system", content: "a" },
        { role: "user", content: "b" },
      ],
    };
    const once = withMessageIds(input, "r1");
    expect(once).toEqual({
      messages: [
        { role: "system", content: "a", id: "r1:in:0" },
        { role: "user", content: "b", id: "r1:in:1" },
      ],
    });
    expect(withMessageIds(input, "r1")).toEqual(once);
    expect(withMessageIds(once, "r1")).toEqual(once);
  });

  test("keep an id of their own", () => {
    const input = {
      messages: [
        { role: "user", content: "a", id: "mine" },
        { role: "user", content: "b" },
      ],
    };
    expect(withMessageIds(input, "r1")).toMatchObject({ messages: [{ id: "mine" }, { id: "r1:in:1" }] });
  });

  test("of two runs have different ids", () => {
    const input = { messages: [{ role: "user", content: "a" }] };
    expect(withMessageIds(input, "r1")).not.toEqual(withMessageIds(input, "r2"));
  });

  test.each([undefined, null, "hello", 3, [], {}, { messages: "hello" }, { messages: null }, { plan: "gold" }])(
    "are not looked for in %j",
    (input) => {
      expect(withMessageIds(input, "r1")).toEqual(input);
    },
  );

  test("that are strings or null pass through", () => {
    const input = { messages: ["hello", null, { role: "user", content: "b" }] };
    expect(withMessageIds(input, "r1")).toEqual({
      messages: ["hello", null, { role: "user", content: "b", id: "r1:in:2" }],
    });
  });

  test("are never changed in place, and any input survives", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (input) => {
        const before = JSON.stringify(input);
        withMessageIds(input, "r1");
        withMessageIds({ messages: [input] }, "r1");
        expect(JSON.stringify(input)).toBe(before);
      }),
    );
  });
});
