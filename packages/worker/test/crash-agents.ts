// The agents of the crash, drain and resume tests: one keyed charge each, so that the provider's log can count.
import type { BaseMessage } from "@langchain/core/messages";
import { END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { defineTool, stripeProfile } from "@reprise/tools";
import { z } from "zod";
import { ScriptedModel } from "../../../examples/src/support/scripted-model.ts";
import type { ScriptedStep } from "../../../examples/src/support/scripted-model-turn.ts";
import { type Agent, type AgentGraph, defineAgent } from "../src/agent.ts";
import { toolAgent } from "../src/tool-agent.ts";

/** What a human message of these tests holds: whom to charge, and for `pause` how long to wait after it. */
export function wish(customer: string, pauseMs = 0): string {
  return `charge ${customer} then wait ${pauseMs} ms`;
}

function wished(messages: readonly BaseMessage[]): { readonly customer: string; readonly pauseMs: number } {
  const text = messages.findLast((message) => message.type === "human")?.text ?? "";
  const [, customer = "cus_nobody", pauseMs = "0"] = /charge (\w+) then wait (\d+) ms/.exec(text) ?? [];
  return { customer, pauseMs: Number(pauseMs) };
}

const chargeTurn: ScriptedStep = (messages) => ({
  calls: [{ name: "charge", args: { customer: wished(messages).customer, amount: 4900 } }],
});
const pauseTurn: ScriptedStep = (messages) => ({ calls: [{ name: "pause", args: { ms: wished(messages).pauseMs } }] });
const askTurn: ScriptedStep = { calls: [{ name: "ask", args: { question: "charge?" } }] };
const lastTurn: ScriptedStep = { text: "Done." };

/**
 * `plain` answers without a tool. `charge` charges and ends. `pause` charges, waits and ends. `ask` asks a human, then charges. `broken` throws. `deadly`
 * kills its process at once, `mortal` at its second step there. In `charge` the checkpoints are -1 input, 0 start, 1 model, 2 tools, 3 model.
 *
 * @param paymentsUrl where the payment provider listens
 * @param kill how a process of its own is killed; a test's own process is not
 */
export function crashAgents(paymentsUrl: string, kill: () => void = notHere): readonly Agent[] {
  const tools = [chargeTool(paymentsUrl), pauseTool, askTool];
  const agent = (name: string, turns: readonly ScriptedStep[]): Agent =>
    defineAgent({ name, graph: toolAgent({ model: new ScriptedModel({ turns }), tools }) });
  return [
    agent("plain", [lastTurn]),
    agent("charge", [chargeTurn, lastTurn]),
    agent("pause", [chargeTurn, pauseTurn, lastTurn]),
    agent("ask", [askTurn, chargeTurn, lastTurn]),
    agent("broken", [
      () => {
        throw new Error("the model is down");
      },
    ]),
    defineAgent({ name: "deadly", graph: killing({ stepsHere: 0, kill }) }),
    defineAgent({ name: "mortal", graph: killing({ stepsHere: 1, kill }) }),
  ];
}

function notHere(): void {
  throw new Error("this run may only be driven in a process that it can kill");
}

/** Four steps, of which one process lives through so many. */
function killing({ stepsHere, kill }: { readonly stepsHere: number; readonly kill: () => void }): AgentGraph {
  let steps = 0;
  const step = async (): Promise<object> => {
    if (steps === stepsHere) kill();
    steps += 1;
    return {};
  };
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("one", step)
    .addNode("two", step)
    .addNode("three", step)
    .addNode("four", step)
    .addEdge(START, "one")
    .addEdge("one", "two")
    .addEdge("two", "three")
    .addEdge("three", "four")
    .addEdge("four", END)
    .compile();
  // LangGraph types `invoke` by the state; the worker drives graphs of any state.
  return graph as unknown as AgentGraph;
}

function chargeTool(paymentsUrl: string): ReturnType<typeof defineTool> {
  return defineTool({
    name: "charge",
    description: "Charges a customer",
    schema: z.object({ customer: z.string(), amount: z.number() }),
    effect: "keyed",
    // The provider of these tests keeps keys as Stripe does: examples/src/support/payments-book.ts.
    profile: stripeProfile,
    run: async ({ customer, amount }, { fetch: send, signal }) => {
      const body = JSON.stringify({ customer, amount, currency: "eur" });
      const headers = { "content-type": "application/json" };
      const response = await send(`${paymentsUrl}/v1/charges`, { method: "POST", headers, body, signal });
      if (!response.ok) throw new Error(`the provider answered ${response.status}`);
      return { charge: z.object({ id: z.string() }).parse(await response.json()).id };
    },
  });
}

const pauseTool = defineTool({
  name: "pause",
  description: "Waits",
  schema: z.object({ ms: z.number() }),
  effect: "none",
  run: async ({ ms }) => {
    await new Promise((resolve) => setTimeout(resolve, ms));
    return "waited";
  },
});

const askTool = defineTool({
  name: "ask",
  description: "Asks a human",
  schema: z.object({ question: z.string() }),
  effect: "none",
  run: async ({ question }) => interrupt<string, string>(question),
});
