// The barrier by evidence: what may run under which durability, and each refusal with its code.

import { AIMessage, HumanMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import { emptyCheckpoint, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool } from "../src/define-tool.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { deriveKey } from "../src/key.ts";
import { BarrierSaver } from "../src/langgraph/barrier-saver.ts";
import { buildAgent, configOf, input, replies, scopeOf, type Turn } from "./agent.ts";

/** Puts take a while, or fail from a step on. */
class SlowSaver extends MemorySaver {
  readonly #putMs: number;
  readonly #failFrom: number;
  puts = 0;

  constructor(putMs: number, failFrom = Number.POSITIVE_INFINITY) {
    super();
    this.#putMs = putMs;
    this.#failFrom = failFrom;
  }

  override async put(...args: Parameters<MemorySaver["put"]>): ReturnType<MemorySaver["put"]> {
    await new Promise((resolve) => setTimeout(resolve, this.#putMs));
    this.puts += 1;
    if (args[2].step >= this.#failFrom) throw new Error("disk full");
    return super.put(...args);
  }
}

const turns: readonly Turn[] = [[{ name: "pay", id: "toolu_abc1", args: {} }]];

function payTool() {
  const state = { runs: 0, putsAtRun: -1, saver: undefined as SlowSaver | undefined };
  const tool = defineTool({
    name: "pay",
    description: "Pays.",
    schema: z.object({}),
    effect: "once",
    run: async () => {
      state.runs += 1;
      state.putsAtRun = state.saver?.puts ?? -1;
      return "paid";
    },
  });
  return { tool, state };
}

async function play(durability: "sync" | "async" | "exit", slow: SlowSaver, barrierWaitMs: number, wholeState = false) {
  const { tool, state } = payTool();
  state.saver = slow;
  const ledger = new MemoryLedger();
  const agent = buildAgent({ tools: [tool], turns, saver: new BarrierSaver(slow), wholeState });
  const result = agent.invoke(input, configOf(scopeOf(ledger, { barrierWaitMs }), { durability }));
  const settled = await result.then(
    (value) => replies(value),
    (error: unknown) => error,
  );
  return { settled, state, ledger };
}

describe.each([false, true])("a flat graph (whole state to the tool node: %s)", (wholeState) => {
  it("runs under sync, after the checkpoint with its call was put", async () => {
    const { settled, state } = await play("sync", new SlowSaver(1), 500, wholeState);
    expect(settled).toEqual(["paid"]);
    expect(state).toMatchObject({ runs: 1, putsAtRun: 3 });
  });

  it("waits under async until that checkpoint is durable, then runs", async () => {
    const { settled, state } = await play("async", new SlowSaver(15), 2_000, wholeState);
    expect(settled).toEqual(["paid"]);
    expect(state).toMatchObject({ runs: 1, putsAtRun: 3 });
  });

  it("is refused under exit, where nothing is stored before the end", async () => {
    const { settled, state, ledger } = await play("exit", new SlowSaver(0), 20, wholeState);
    expect(settled).toMatchObject({ code: "CHECKPOINT_NOT_DURABLE" });
    expect(state.runs).toBe(0);
    expect(await ledger.find(deriveKey("t1", "toolu_abc1"))).toBeUndefined();
  });

  it("does not run when the put fails (E04)", async () => {
    const { state } = await play("async", new SlowSaver(1, 1), 20, wholeState);
    expect(state.runs).toBe(0);
  });
});

describe("refusals", () => {
  const refusal = async (
    agent: ReturnType<typeof buildAgent>,
    config: RunnableConfig = configOf(scopeOf(new MemoryLedger())),
  ) =>
    agent.invoke(input, config).then(
      () => undefined,
      (error: unknown) => error,
    );

  it("names a saver that tells nothing, and no saver at all", async () => {
    const { tool, state } = payTool();
    for (const saver of [new MemorySaver(), null]) {
      const error = await refusal(buildAgent({ tools: [tool], turns, saver }));
      expect(error).toMatchObject({ code: "CHECKPOINT_NOT_DURABLE", message: expect.stringContaining("BarrierSaver") });
    }
    expect(state.runs).toBe(0);
  });

  it.each(["call_0", "pay", "functions.pay:2", "7"])("refuses the weak id %s that no boundary replaced", async (id) => {
    const { tool, state } = payTool();
    const agent = buildAgent({ tools: [tool], turns: [[{ name: "pay", id, args: {} }]], stamps: false });
    expect(await refusal(agent)).toMatchObject({
      code: "WEAK_CALL_ID",
      message: expect.stringContaining("stampCalls"),
    });
    expect(state.runs).toBe(0);
  });

  it("refuses an id that names two calls of the state", async () => {
    const { tool, state } = payTool();
    const twice = [
      { name: "pay", id: "toolu_same", args: {} },
      { name: "pay", id: "toolu_same", args: {} },
    ];
    const agent = buildAgent({ tools: [tool], turns: [twice], stamps: false, wholeState: true });
    expect(await refusal(agent)).toMatchObject({ code: "WEAK_CALL_ID" });
    expect(state.runs).toBe(0);
  });

  it("refuses a graph whose model and tool share a node: its call is in no checkpoint (A15)", async () => {
    const { tool, state } = payTool();
    const node = async (_: unknown, config: RunnableConfig) => {
      const call = { name: "pay", id: "toolu_abc1", args: {}, type: "tool_call" as const };
      const reply: unknown = await tool.invoke(call, config);
      return { messages: [new AIMessage({ content: "", tool_calls: [call] }), reply as AIMessage] };
    };
    const agent = new StateGraph(MessagesAnnotation)
      .addNode("both", node)
      .addEdge(START, "both")
      .compile({ checkpointer: new BarrierSaver(new MemorySaver()) });
    const error = await agent.invoke(input, configOf(scopeOf(new MemoryLedger()))).catch((failure: unknown) => failure);
    expect(error).toMatchObject({ code: "CALL_NOT_CHECKPOINTED", message: expect.stringContaining("separate nodes") });
    expect(state.runs).toBe(0);
  });

  it("refuses a call outside any graph", async () => {
    const { tool } = payTool();
    const call = { name: "pay", id: "toolu_abc1", args: {}, type: "tool_call" as const };
    await expect(tool.invoke(call, configOf(scopeOf(new MemoryLedger())))).rejects.toMatchObject({
      code: "CALL_NOT_CHECKPOINTED",
    });
  });

  it.each([
    ["inherits its parent's saver: it runs", null, "paid"],
    ["keeps no checkpoints (checkpointer false): it is refused, even under sync", false, "CHECKPOINT_NOT_DURABLE"],
  ] as const)("a subagent that %s", async (_name, saver, expected) => {
    const { tool, state } = payTool();
    const sub = buildAgent({ tools: [tool], turns, saver });
    const parent = new StateGraph(MessagesAnnotation)
      .addNode("outer", async (_, config) => sub.invoke({ messages: [new HumanMessage("sub")] }, config))
      .addEdge(START, "outer")
      .compile({ checkpointer: new BarrierSaver(new MemorySaver()) });
    const outcome = await parent.invoke(input, configOf(scopeOf(new MemoryLedger(), { barrierWaitMs: 200 }))).then(
      (value) => replies(value)[0],
      (error: { readonly code: string }) => error.code,
    );
    expect(outcome).toBe(expected);
    expect(state.runs).toBe(expected === "paid" ? 1 : 0);
  });
});

describe("BarrierSaver", () => {
  it("knows what was read as well as what was put, so that a resumed run goes on", async () => {
    const store = new MemorySaver();
    const { tool, state } = payTool();
    const first = buildAgent({ tools: [tool], turns, saver: new BarrierSaver(store) });
    const stopped = configOf(scopeOf(new MemoryLedger(), { isLeaseLive: () => false }));
    await expect(first.invoke(input, stopped)).rejects.toMatchObject({ code: "FENCE_LOST" });
    const second = buildAgent({ tools: [tool], turns, saver: new BarrierSaver(store) });
    expect(replies(await second.invoke(null, configOf(scopeOf(new MemoryLedger()))))).toEqual(["paid"]);
    expect(state.runs).toBe(1);
  });

  it("asks the store for a checkpoint that its bound made it forget, and counts those", async () => {
    const saver = new BarrierSaver(new MemorySaver(), { checkpointsMax: 1 });
    const { tool } = payTool();
    const agent = buildAgent({ tools: [tool], turns, saver });
    await agent.invoke(input, configOf(scopeOf(new MemoryLedger())));
    expect(saver.forgotten).toBeGreaterThan(0);
    const history = [];
    for await (const tuple of saver.list({ configurable: { thread_id: "t1" } })) history.push(tuple.checkpoint.id);
    const oldest = history.at(-1) ?? "";
    expect(await saver.whenDurable({ threadId: "t1", ns: "", id: oldest }, 1)).toBe(true);
    expect(await saver.whenDurable({ threadId: "t1", ns: "", id: "1f000000-0000-6000-8000-000000000000" }, 1)).toBe(
      false,
    );
  });

  it("wakes who waits as soon as the put is done, long before the wait is over", async () => {
    const saver = new BarrierSaver(new SlowSaver(5));
    const checkpoint = { ...emptyCheckpoint(), id: "1f000000-0000-6000-8000-000000000001" };
    const config = { configurable: { thread_id: "t1", checkpoint_ns: "sub" } };
    const waiting = [1, 2].map(() => saver.whenDurable({ threadId: "t1", ns: "sub", id: checkpoint.id }, 60_000));
    await saver.put(config, checkpoint, { source: "loop", step: 0, parents: {} }, {});
    expect(await Promise.all(waiting)).toEqual([true, true]);
  });

  it("forgets a deleted thread", async () => {
    const saver = new BarrierSaver(new MemorySaver());
    const agent = buildAgent({ tools: [payTool().tool], turns: [], saver });
    await agent.invoke(input, configOf(scopeOf(new MemoryLedger())));
    const id = (await saver.getTuple({ configurable: { thread_id: "t1" } }))?.checkpoint.id ?? "";
    await saver.deleteThread("t1");
    expect(await saver.whenDurable({ threadId: "t1", ns: "", id }, 1)).toBe(false);
  });
});
