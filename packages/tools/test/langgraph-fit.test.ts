// The same self-dispatching tool under LangGraph's own tool nodes and agents.

import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { createReactAgent, ToolNode } from "@langchain/langgraph/prebuilt";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool } from "../src/define-tool.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { deriveKey } from "../src/key.ts";
import { BarrierSaver } from "../src/langgraph/barrier-saver.ts";
import { stampCalls } from "../src/langgraph/boundary.ts";
import { configOf, input, replies, scopeOf } from "./agent.ts";
import { FakeToolCallingChatModel } from "./fake-model.ts";

function payTool(run: () => Promise<unknown> = async () => ({ paid: true })) {
  return defineTool({
    name: "pay",
    description: "Pays.",
    schema: z.object({ amount: z.number() }),
    effect: "once",
    run,
  });
}
const calls = (...ids: readonly string[]) => ids.map((id, amount) => ({ name: "pay", id, args: { amount } }));

describe.each(["v1", "v2"] as const)("createReactAgent %s", (version) => {
  it("runs each call once, records it under the seed's key and keeps the reply as it is", async () => {
    const ledger = new MemoryLedger();
    const llm = new FakeToolCallingChatModel([calls("toolu_a1", "toolu_b2"), []]);
    const agent = createReactAgent({
      llm,
      tools: [payTool()],
      version,
      checkpointSaver: new BarrierSaver(new MemorySaver()),
    });
    const state = await agent.invoke(input, configOf(scopeOf(ledger)));
    expect(replies(state)).toEqual([{ paid: true }, { paid: true }]);
    expect(await ledger.find(deriveKey("t1", "toolu_b2"))).toMatchObject({ state: "done", owner: { position: 1 } });
  });

  it("tells an unknown outcome as unknown: the node's own error text never appears", async () => {
    const llm = new FakeToolCallingChatModel([calls("toolu_a1"), []]);
    const tool = payTool(() => Promise.reject(new Error("read timeout")));
    const agent = createReactAgent({
      llm,
      tools: [tool],
      version,
      checkpointSaver: new BarrierSaver(new MemorySaver()),
    });
    const state = await agent.invoke(input, configOf(scopeOf(new MemoryLedger())));
    expect(replies(state)).toMatchObject([{ status: "unknown", call: "toolu_a1" }]);
    expect(JSON.stringify(replies(state))).not.toContain("fix your mistakes");
  });

  it("answers arguments that do not fit in our words", async () => {
    const llm = new FakeToolCallingChatModel([[{ name: "pay", id: "toolu_a1", args: { amount: "x" } }], []]);
    const agent = createReactAgent({
      llm,
      tools: [payTool()],
      version,
      checkpointSaver: new BarrierSaver(new MemorySaver()),
    });
    expect(replies(await agent.invoke(input, configOf(scopeOf(new MemoryLedger()))))).toMatchObject([
      { status: "failed" },
    ]);
  });
});

describe("ToolNode in a graph by hand", () => {
  it("runs the second turn's call_0, which it would drop without the boundary (A01)", async () => {
    const ledger = new MemoryLedger();
    const llm = new FakeToolCallingChatModel([calls("call_0"), calls("call_0"), []]);
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("model", async ({ messages }) => ({ messages: [stampCalls(await llm.invoke(messages), messages)] }))
      .addNode("tools", new ToolNode([payTool()]))
      .addEdge(START, "model")
      .addConditionalEdges("model", ({ messages }) =>
        llm.turn < 3 && !ToolMessage.isInstance(messages.at(-1)) ? "tools" : "__end__",
      )
      .addEdge("tools", "model")
      .compile({ checkpointer: new BarrierSaver(new MemorySaver()) });
    const state = await graph.invoke({ messages: [new HumanMessage("go")] }, configOf(scopeOf(ledger)));
    expect(replies(state)).toEqual([{ paid: true }, { paid: true }]);
    const ids = state.messages
      .filter((message) => ToolMessage.isInstance(message))
      .map((message) => message.tool_call_id);
    expect(new Set(ids).size).toBe(2);
  });
});
