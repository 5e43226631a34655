// Ids as providers give them, through whole runs: over turns, runs, crashes and lost rows, each call keeps one key of its own.

import { AIMessage, HumanMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import { END, MemorySaver, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool } from "../src/define-tool.ts";
import type { EffectClaim, Ledger } from "../src/effect.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { BarrierSaver } from "../src/langgraph/barrier-saver.ts";
import { stampCalls } from "../src/langgraph/boundary.ts";
import { buildAgent, configOf, input, replies, scopeOf, type Turn } from "./agent.ts";

/** Remembers every claim; loses the process at those that `dies` names. */
function watched(inner: Ledger, dies: (claim: EffectClaim) => boolean = () => false) {
  const claims: EffectClaim[] = [];
  const ledger: Ledger = {
    claim: async (claim) => {
      claims.push(claim);
      if (dies(claim)) throw new Error("the process is gone");
      return inner.claim(claim);
    },
    settle: (settlement) => inner.settle(settlement),
    release: (claim) => inner.release(claim),
    find: (key) => inner.find(key),
    findEcho: (query) => inner.findEcho(query),
    openExecutions: (deliveryId) => inner.openExecutions(deliveryId),
  };
  return { ledger, keys: () => claims.map(({ key }) => key) };
}

function payTool(name = "pay") {
  const paid: unknown[] = [];
  const tool = defineTool({
    name,
    description: "Pays.",
    schema: z.object({ to: z.string() }),
    effect: "once",
    run: async ({ to }) => {
      paid.push(to);
      return { paid: to };
    },
  });
  return { tool, paid };
}

const call = (id: string, to: string, name = "pay"): Turn[number] => ({ name, id, args: { to } });

describe("a crash and the delivery after it", () => {
  it("re-runs only the fourth of six turns that all say get_rate:0, under the key it had (A02)", async () => {
    const { tool, paid } = payTool("get_rate");
    const turns = ["A", "B", "C", "D", "E", "F"].map((to) => [call("get_rate:0", to, "get_rate")]);
    const saver = new BarrierSaver(new MemorySaver());
    const agent = buildAgent({ tools: [tool], turns, saver });
    const store = new MemoryLedger();
    const first = watched(store, (claim) => claim.owner.assistantMessageId === "m3");
    await expect(agent.invoke(input, configOf(scopeOf(first.ledger)))).rejects.toThrow("the process is gone");
    expect(paid).toEqual(["A", "B", "C"]);
    const second = watched(store);
    await agent.invoke(null, configOf(scopeOf(second.ledger)));
    expect(paid).toEqual(["A", "B", "C", "D", "E", "F"]);
    expect(second.keys()[0]).toBe(first.keys().at(-1));
    expect(second.keys()).toHaveLength(3);
    expect(new Set([...first.keys(), ...second.keys()]).size).toBe(6);
  });

  it.each([false, true])(
    "answers the first of two calls that share id x1 from what is recorded and runs the second (A04), one task for both: %s",
    async (wholeState) => {
      const { tool, paid } = payTool();
      const turns = [[call("x1", "A"), call("x1", "B")]];
      const agent = buildAgent({ tools: [tool], turns, saver: new BarrierSaver(new MemorySaver()), wholeState });
      const store = new MemoryLedger();
      const first = watched(store, (claim) => claim.owner.position === 1);
      await expect(agent.invoke(input, configOf(scopeOf(first.ledger)))).rejects.toThrow("the process is gone");
      const second = watched(store);
      const state = await agent.invoke(null, configOf(scopeOf(second.ledger)));
      expect(paid).toEqual(["A", "B"]);
      expect(replies(state)).toEqual([{ paid: "A" }, { paid: "B" }]);
      // Two keys, and both deliveries derived the same ones.
      expect(new Set(first.keys()).size).toBe(2);
      for (const key of second.keys()) expect(first.keys()).toContain(key);
    },
  );

  it("gives two runs of one thread that both say call_0_0 two keys, and a redelivery the key it had (A08)", async () => {
    const { tool, paid } = payTool();
    const turns = [[call("call_0_0", "A")], [], [call("call_0_0", "B")], []];
    const agent = buildAgent({ tools: [tool], turns });
    const store = new MemoryLedger();
    const one = watched(store);
    await agent.invoke(input, configOf(scopeOf(one.ledger)));
    const two = watched(store, () => true);
    const next = { messages: [new HumanMessage({ id: "in2", content: "again" })] };
    await expect(agent.invoke(next, configOf(scopeOf(two.ledger)))).rejects.toThrow("the process is gone");
    const again = watched(store);
    await agent.invoke(null, configOf(scopeOf(again.ledger)));
    expect(paid).toEqual(["A", "B"]);
    expect(again.keys()).toEqual(two.keys());
    expect(again.keys()).not.toEqual(one.keys());
  });

  it("runs both payments of two turns that say call_0, under two keys (A01)", async () => {
    const { tool, paid } = payTool();
    const { ledger, keys } = watched(new MemoryLedger());
    const agent = buildAgent({ tools: [tool], turns: [[call("call_0", "A")], [call("call_0", "B")]] });
    await agent.invoke(input, configOf(scopeOf(ledger)));
    expect(paid).toEqual(["A", "B"]);
    expect(new Set(keys()).size).toBe(2);
  });
});

/** Says that it stored the checkpoint of a step, and has lost it; the pending writes before it are there. */
class LosingSaver extends MemorySaver {
  losesFrom = Number.POSITIVE_INFINITY;

  override async put(...args: Parameters<MemorySaver["put"]>): ReturnType<MemorySaver["put"]> {
    if (args[2].step < this.losesFrom) return super.put(...args);
    return { configurable: { ...args[0].configurable, checkpoint_id: args[1].id } };
  }
}

describe("a message without an id whose checkpoint row is lost", () => {
  it.each(["plain", "conditional"] as const)(
    "is read from its pending writes with the key it had, behind a %s edge (A13)",
    async (edge) => {
      const { tool } = payTool();
      const model = ({ messages }: typeof MessagesAnnotation.State) => {
        const asked = messages.some((message) => AIMessage.isInstance(message));
        const calls = asked ? [] : [{ ...call("call_0", "A"), type: "tool_call" as const }];
        return { messages: [stampCalls(new AIMessage({ content: "", tool_calls: calls }), messages)] };
      };
      const tools = async ({ messages }: typeof MessagesAnnotation.State, config: RunnableConfig) => {
        const last = messages.findLast((message) => AIMessage.isInstance(message));
        const calls = last?.tool_calls ?? [];
        return {
          messages: await Promise.all(calls.map((one) => tool.invoke({ ...one, type: "tool_call" }, config))),
        };
      };
      const graph = new StateGraph(MessagesAnnotation)
        .addNode("model", model)
        .addNode("tools", tools)
        .addEdge(START, "model")
        .addEdge("tools", END);
      if (edge === "plain") graph.addEdge("model", "tools");
      else graph.addConditionalEdges("model", () => "tools", ["tools"]);
      const saver = new LosingSaver();
      saver.losesFrom = 1;
      const agent = graph.compile({ checkpointer: new BarrierSaver(saver) });
      const store = new MemoryLedger();
      const first = watched(store, () => true);
      await expect(agent.invoke(input, configOf(scopeOf(first.ledger)))).rejects.toThrow("the process is gone");
      saver.losesFrom = Number.POSITIVE_INFINITY;
      const second = watched(store);
      await agent.invoke(null, configOf(scopeOf(second.ledger)));
      expect(first.keys()).toHaveLength(1);
      expect(second.keys()).toEqual(first.keys());
    },
  );
});
