// The tool under langchain's createAgent: the boundary first among the middleware, retries outside, stopped runs closed, cut streams refused.

import { AIMessage, AIMessageChunk, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatGenerationChunk } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import { Command, MemorySaver } from "@langchain/langgraph";
import {
  type AnyAgentMiddleware,
  createAgent,
  createMiddleware,
  humanInTheLoopMiddleware,
  modelRetryMiddleware,
  toolRetryMiddleware,
} from "langchain";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool } from "../src/define-tool.ts";
import type { Ledger } from "../src/effect.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { deriveKey } from "../src/key.ts";
import { BarrierSaver } from "../src/langgraph/barrier-saver.ts";
import { callRecords } from "../src/langgraph/boundary-ids.ts";
import { withReprise } from "../src/langgraph/boundary-middleware.ts";
import { closeCalls } from "../src/langgraph/close-calls.ts";
import { configOf, input, replies, scopeOf, type Turn } from "./agent.ts";
import { FakeToolCallingChatModel } from "./fake-model.ts";

/** Remembers what it was sent; fails as often as it is told to. */
class ListeningModel extends FakeToolCallingChatModel {
  readonly heard: BaseMessage[][] = [];
  failures = 0;
  failsAtCall = 0;

  override async _generate(...args: readonly unknown[]): ReturnType<FakeToolCallingChatModel["_generate"]> {
    // LangChain gives the messages first.
    this.heard.push(args[0] as BaseMessage[]);
    if (this.failures-- > 0 || this.heard.length === this.failsAtCall) throw new Error("503 overloaded");
    return super._generate();
  }
}

function payTool(run: (to: string) => Promise<unknown> = async (to) => ({ paid: to })) {
  const paid: string[] = [];
  const payment = defineTool({
    name: "pay",
    description: "Pays.",
    schema: z.object({ to: z.string() }),
    effect: "once",
    run: async ({ to }) => {
      paid.push(to);
      return run(to);
    },
  });
  return { tool: payment, paid };
}

const pay = (id: string | undefined, to: string): Turn[number] => ({
  name: "pay",
  args: { to },
  ...(id === undefined ? {} : { id }),
});
const toolIds = (messages: readonly BaseMessage[]) =>
  messages.filter((message) => ToolMessage.isInstance(message)).map((message) => message.tool_call_id);
const callIds = (messages: readonly BaseMessage[]) =>
  messages.flatMap((message) => (AIMessage.isInstance(message) ? (message.tool_calls ?? []).map(({ id }) => id) : []));

/** langchain's own types of its middleware do not hold under exactOptionalPropertyTypes. */
const typed = (middleware: unknown): AnyAgentMiddleware => middleware as AnyAgentMiddleware;

const versions = ["v1", "v2"] as const;
/** Without any `afterModel` and with one: createAgent routes the calls differently (facts/users, fact 6). */
const afterModel = createMiddleware({ name: "AfterModel", afterModel: () => undefined });

describe.each(versions)("createAgent %s with withReprise", (version) => {
  it.each([
    ["no other middleware", []],
    ["a middleware with afterModel", [afterModel]],
  ])(
    "runs call_0 of each turn once, under two keys, and the model sees its own ids (A01, A08, A11): %s",
    async (_name, middleware) => {
      const ledger = new MemoryLedger();
      const { tool: payment, paid } = payTool();
      const model = new ListeningModel([[pay("call_0", "A")], [pay("call_0", "B"), pay("call_1", "C")], []]);
      const agent = createAgent({
        model,
        ...withReprise({ tools: [payment], middleware }),
        checkpointer: new BarrierSaver(new MemorySaver()),
        version,
      });
      const state = await agent.invoke(input, configOf(scopeOf(ledger)));
      expect(paid).toEqual(["A", "B", "C"]);
      expect(new Set(toolIds(state.messages)).size).toBe(3);
      expect(callIds(model.heard[2] ?? [])).toEqual(["call_0", "call_0", "call_1"]);
      expect(toolIds(model.heard[2] ?? [])).toEqual(["call_0", "call_0", "call_1"]);
      for (const id of toolIds(state.messages))
        expect(await ledger.find(deriveKey("t1", id))).toMatchObject({ state: "done" });
    },
  );

  it("tells two calls apart that share an id or have none (A03, A04, A06)", async () => {
    const { tool: payment, paid } = payTool();
    const turns = [[pay("x1", "A"), pay("x1", "B"), pay("pay", "C"), pay(undefined, "D"), pay("", "E")], []];
    const model = new ListeningModel(turns);
    const agent = createAgent({
      model,
      ...withReprise({ tools: [payment] }),
      checkpointer: new BarrierSaver(new MemorySaver()),
      version,
    });
    const state = await agent.invoke(input, configOf(scopeOf(new MemoryLedger())));
    expect(paid.sort()).toEqual(["A", "B", "C", "D", "E"]);
    expect(new Set(toolIds(state.messages)).size).toBe(5);
  });

  it("goes on after a crash without a second effect: finished calls are not run again", async () => {
    const store = new MemorySaver();
    const ledger = new MemoryLedger();
    const { tool: payment, paid } = payTool();
    const turns = [[pay("call_0", "A"), pay("call_0", "B")], []];
    const build = (model: FakeToolCallingChatModel) =>
      createAgent({ model, ...withReprise({ tools: [payment] }), checkpointer: new BarrierSaver(store), version });
    // The process is lost at the second call, before anything of it is recorded.
    const dying: Ledger = {
      claim: async (claim) => {
        if (claim.owner.position === 1) throw new Error("the process is gone");
        return ledger.claim(claim);
      },
      settle: (settlement) => ledger.settle(settlement),
      release: (claim) => ledger.release(claim),
      find: (key) => ledger.find(key),
      findEcho: (query) => ledger.findEcho(query),
      openExecutions: (deliveryId) => ledger.openExecutions(deliveryId),
    };
    const lost = build(new ListeningModel(turns)).invoke(input, configOf(scopeOf(dying)));
    await expect(lost).rejects.toThrow("the process is gone");
    expect(paid).toEqual(["A"]);
    const second = new ListeningModel([[]]);
    const state = await build(second).invoke(null, configOf(scopeOf(ledger)));
    expect(paid).toEqual(["A", "B"]);
    expect(replies(state)).toEqual([{ paid: "A" }, { paid: "B" }]);
    // The model is not asked again for calls it has made.
    expect(second.heard).toHaveLength(1);
  });
});

describe("createAgent with retries around it", () => {
  it("runs an ambiguous failure once under toolRetryMiddleware, and tells it as unknown (B11)", async () => {
    const { tool: payment, paid } = payTool(() => Promise.reject(new Error("read timeout")));
    const agent = createAgent({
      model: new ListeningModel([[pay("toolu_1", "A")], []]),
      ...withReprise({
        tools: [payment],
        middleware: [typed(toolRetryMiddleware({ maxRetries: 2, initialDelayMs: 1 }))],
      }),
      checkpointer: new BarrierSaver(new MemorySaver()),
    });
    const state = await agent.invoke(input, configOf(scopeOf(new MemoryLedger())));
    expect(paid).toEqual(["A"]);
    expect(replies(state)).toMatchObject([{ status: "unknown", call: "toolu_1" }]);
  });

  it("fixes the ids of the answer that is stored when modelRetryMiddleware asks again inside it (A13)", async () => {
    const model = new ListeningModel([[pay("call_0", "A")], []]);
    model.failures = 1;
    const { tool: payment, paid } = payTool();
    const agent = createAgent({
      model,
      ...withReprise({
        tools: [payment],
        middleware: [typed(modelRetryMiddleware({ maxRetries: 2, initialDelayMs: 1 }))],
      }),
      checkpointer: new BarrierSaver(new MemorySaver()),
    });
    const state = await agent.invoke(input, configOf(scopeOf(new MemoryLedger())));
    expect(paid).toEqual(["A"]);
    const asking = state.messages.find((message) => AIMessage.isInstance(message));
    expect(callIds(state.messages)).toEqual([`${asking?.id}#0`]);
  });

  it("is outermost: a middleware that rewrites the answer is behind it, so what it stores is stamped", async () => {
    const rewriting = createMiddleware({
      name: "Rewriting",
      wrapModelCall: async (request, handler) => {
        const answer = await handler(request);
        const calls = (answer.tool_calls ?? []).map((call) => ({ ...call, id: "call_0" }));
        return new AIMessage({ content: answer.content, tool_calls: calls });
      },
    });
    const { tool: payment, paid } = payTool();
    const agent = createAgent({
      model: new ListeningModel([[pay("toolu_1", "A"), pay("toolu_2", "B")], []]),
      ...withReprise({ tools: [payment], middleware: [rewriting] }),
      checkpointer: new BarrierSaver(new MemorySaver()),
    });
    await agent.invoke(input, configOf(scopeOf(new MemoryLedger())));
    expect(paid.sort()).toEqual(["A", "B"]);
  });

  it("brings the status tool of a tool with a lookup along", () => {
    const withLookup = defineTool({
      name: "ship",
      description: "Ships.",
      schema: z.object({}),
      effect: "lookup",
      lookup: async () => ({ status: "absent" }),
      run: async () => "shipped",
    });
    const { tools } = withReprise({ tools: [withLookup, withLookup] });
    expect(tools.map(({ name }) => name)).toEqual(["ship", "get_ship_status"]);
  });
});

describe("a run that is started again after its model failed", () => {
  it("goes on behind the tool: one charge although the next model call gave a 500 (A15)", async () => {
    const { tool: payment, paid } = payTool();
    const model = new ListeningModel([[pay("toolu_1", "A")], []]);
    model.failsAtCall = 2;
    const agent = createAgent({
      model,
      ...withReprise({ tools: [payment] }),
      checkpointer: new BarrierSaver(new MemorySaver()),
    });
    const config = configOf(scopeOf(new MemoryLedger()));
    await expect(agent.invoke(input, config)).rejects.toThrow("503");
    // `null` resumes; the types of langchain want an input.
    const state = await agent.invoke(null as never, config);
    expect(paid).toEqual(["A"]);
    expect(callIds(state.messages)).toEqual(["toolu_1"]);
  });
});

describe("two calls that go by their tool's name and both need approval", () => {
  it("get two approvals, two executions, two keys, and each its own result (A03)", async () => {
    const ledger = new MemoryLedger();
    const refunded: number[] = [];
    const refund = defineTool({
      name: "refund",
      description: "Refunds.",
      schema: z.object({ order: z.number() }),
      effect: "once",
      run: async ({ order }) => {
        refunded.push(order);
        return { refunded: order };
      },
    });
    const call = (order: number) => ({ name: "refund", id: "refund", args: { order } });
    const agent = createAgent({
      model: new ListeningModel([[call(1), call(2)], []]),
      ...withReprise({
        tools: [refund],
        middleware: [typed(humanInTheLoopMiddleware({ interruptOn: { refund: true } } as never))],
      }),
      checkpointer: new BarrierSaver(new MemorySaver()),
    });
    const config = configOf(scopeOf(ledger));
    const asked = (await agent.invoke(input, config)) as unknown as {
      readonly __interrupt__: readonly { readonly value: { readonly actionRequests: readonly unknown[] } }[];
    };
    expect(asked.__interrupt__[0]?.value.actionRequests).toHaveLength(2);
    expect(refunded).toEqual([]);
    const decisions = [{ type: "approve" }, { type: "approve" }];
    const state = await agent.invoke(new Command({ resume: { decisions } }), config);
    expect(refunded.sort()).toEqual([1, 2]);
    const results = state.messages
      .filter((message) => ToolMessage.isInstance(message))
      .map((message) => [message.tool_call_id.slice(-2), JSON.parse(String(message.content))]);
    expect(Object.fromEntries(results)).toEqual({ "#0": { refunded: 1 }, "#1": { refunded: 2 } });
  });
});

/** Streams one whole call without an id, turn after turn, as several OpenAI-compatible servers do. */
class IdlessModel extends FakeToolCallingChatModel {
  asked = 0;

  override async *_streamResponseChunks(): AsyncGenerator<ChatGenerationChunk> {
    this.asked += 1;
    const chunk = { name: "pay", args: '{"to":"a@example.org"}', index: 0, type: "tool_call_chunk" as const };
    const message =
      this.asked > 2
        ? new AIMessageChunk("sent")
        : new AIMessageChunk({ id: `run-${this.asked}`, content: "", tool_call_chunks: [chunk] });
    yield new ChatGenerationChunk({ text: "", message });
  }
}

describe("a streamed call without an id", () => {
  it("is run once each turn it comes, under a key of its own that no 'undefined' went into (A06)", async () => {
    const ledger = new MemoryLedger();
    const { tool: payment, paid } = payTool();
    const agent = createAgent({
      model: new IdlessModel([]),
      ...withReprise({ tools: [payment] }),
      checkpointer: new BarrierSaver(new MemorySaver()),
    });
    const config = configOf(scopeOf(ledger));
    for await (const _chunk of await agent.stream(input, { ...config, streamMode: "messages" }));
    const { messages } = (await agent.graph.getState(config)).values as { messages: BaseMessage[] };
    expect(paid).toEqual(["a@example.org", "a@example.org"]);
    expect(toolIds(messages)).toEqual(["run-1#0", "run-2#0"]);
    for (const id of ["undefined", "run-1#undefined"]) {
      expect(await ledger.find(deriveKey("t1", id))).toBeUndefined();
    }
  });
});

describe("errors of tools under createAgent", () => {
  const stock = tool(() => Promise.reject(new Error("no such plan")), {
    name: "plan",
    description: "Reads.",
    schema: z.object({}),
  });
  const turns = [[{ name: "plan", id: "toolu_p", args: {} }], []];
  const run = (middleware: readonly AnyAgentMiddleware[]) =>
    createAgent({
      model: new ListeningModel(turns),
      ...withReprise({ tools: [stock], middleware }),
      checkpointer: new BarrierSaver(new MemorySaver()),
    }).invoke(input, configOf(scopeOf(new MemoryLedger())));

  it("of a stock tool are told to the model, as without us", async () => {
    const state = await run([]);
    expect(replies(state)).toEqual(["Error: no such plan"]);
  });

  it("of a stock tool are thrown where another middleware wraps tools, as without us", async () => {
    const wrapping = createMiddleware({ name: "Wrapping", wrapToolCall: (request, handler) => handler(request) });
    await expect(run([wrapping])).rejects.toThrow("no such plan");
  });

  it("that must stop the run stop it: a refused call is no mistake of the model's", async () => {
    const { tool: payment, paid } = payTool();
    const agent = createAgent({
      model: new ListeningModel([[pay("toolu_1", "A")], []]),
      ...withReprise({ tools: [payment] }),
      checkpointer: new MemorySaver(),
    });
    const refused = agent.invoke(input, configOf(scopeOf(new MemoryLedger())));
    await expect(refused).rejects.toMatchObject({ code: "CHECKPOINT_NOT_DURABLE" });
    expect(paid).toEqual([]);
  });
});

describe("a subagent inside a stock tool", () => {
  it("stops the outer run too when its call is refused", async () => {
    const { tool: payment, paid } = payTool();
    const inner = createAgent({
      model: new ListeningModel([[pay("toolu_1", "A")], []]),
      ...withReprise({ tools: [payment] }),
      checkpointer: false,
    });
    const delegate = tool(async (_args, config) => JSON.stringify(await inner.invoke(input, config as never)), {
      name: "delegate",
      description: "Has another agent do it.",
      schema: z.object({}),
    });
    const agent = createAgent({
      model: new ListeningModel([[{ name: "delegate", id: "toolu_d", args: {} }], []]),
      ...withReprise({ tools: [delegate] }),
      checkpointer: new BarrierSaver(new MemorySaver()),
    });
    const refused = agent.invoke(input, configOf(scopeOf(new MemoryLedger())));
    await expect(refused).rejects.toMatchObject({ code: "CHECKPOINT_NOT_DURABLE" });
    expect(paid).toEqual([]);
  });
});

describe("a stopped run under createAgent", () => {
  it("is closed from the ledger before new input: one true answer a call, and the model is told of no cancellation", async () => {
    const store = new MemorySaver();
    const ledger = new MemoryLedger();
    const stop = new AbortController();
    const { tool: payment } = payTool(async (to) => {
      if (to === "A") return { paid: to };
      await new Promise((resolve) => setTimeout(resolve, 50));
      stop.abort();
      throw new Error("socket hang up");
    });
    const model = new ListeningModel([[pay("toolu_a", "A"), pay("toolu_b", "B")], [], []]);
    const agent = createAgent({
      model,
      ...withReprise({ tools: [payment] }),
      checkpointer: new BarrierSaver(store),
    });
    const stopped = agent.invoke(input, configOf(scopeOf(ledger, { signal: stop.signal })));
    await expect(stopped).rejects.toThrow();
    const config = configOf(scopeOf(ledger));
    const before = await agent.graph.getState(config);
    const answers = await closeCalls({ threadId: "t1", messages: before.values.messages, ledger });
    await agent.graph.updateState(config, { messages: answers }, "tools");
    const state = await agent.invoke({ messages: [new HumanMessage("And now?")] }, config);
    expect(toolIds(state.messages).sort()).toEqual(["toolu_a", "toolu_b"]);
    expect(replies(state)).toEqual(
      expect.arrayContaining([{ paid: "A" }, expect.objectContaining({ status: "unknown", call: "toolu_b" })]),
    );
    expect(toolIds(model.heard.at(-1) ?? []).sort()).toEqual(["toolu_a", "toolu_b"]);
    expect(JSON.stringify(replies(state))).not.toMatch(/cancel/i);
  });
});

/** Streams one call whose arguments end in the middle of a number, and says why. */
class CutModel extends FakeToolCallingChatModel {
  asked = 0;

  override async *_streamResponseChunks(): AsyncGenerator<ChatGenerationChunk> {
    this.asked += 1;
    if (this.asked > 1) return yield new ChatGenerationChunk({ text: "", message: new AIMessageChunk("ok") });
    const first = { name: "pay", id: "toolu_cut", args: '{"to":"acct_1",', index: 0, type: "tool_call_chunk" as const };
    const rest = { args: '"amount":12', index: 0, type: "tool_call_chunk" as const };
    for (const chunk of [first, rest]) {
      const message = new AIMessageChunk({
        id: "run-1",
        content: "",
        tool_call_chunks: [chunk],
        response_metadata: chunk === rest ? { finish_reason: "length" } : {},
      });
      yield new ChatGenerationChunk({ text: "", message });
    }
  }
}

describe("a stream that ends inside a call, under createAgent", () => {
  it("is not executed: the model is told that the call was cut, and the ledger has nothing (G07)", async () => {
    const ledger = new MemoryLedger();
    const runs: unknown[] = [];
    const payment = defineTool({
      name: "pay",
      description: "Pays.",
      schema: z.object({ to: z.string(), amount: z.number() }),
      effect: "once",
      run: async (args) => runs.push(args),
    });
    const agent = createAgent({
      model: new CutModel([]),
      ...withReprise({ tools: [payment] }),
      checkpointer: new BarrierSaver(new MemorySaver()),
    });
    const config = configOf(scopeOf(ledger));
    for await (const _chunk of await agent.stream(input, { ...config, streamMode: "messages" }));
    const { messages } = (await agent.graph.getState(config)).values as { messages: BaseMessage[] };
    expect(runs).toEqual([]);
    expect(await ledger.find(deriveKey("t1", "toolu_cut"))).toBeUndefined();
    expect(replies({ messages })).toMatchObject([
      { status: "failed", detail: expect.stringContaining("ended inside") },
    ]);
    const asking = messages.find((message) => AIMessage.isInstance(message) && (message.tool_calls ?? []).length > 0);
    expect(callRecords(asking as AIMessage)["toolu_cut"]?.cut).toBe(true);
  });
});
