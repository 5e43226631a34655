// The kill harness's agents: the billing agent with a little latency, and the mutants that must make the harness fail.
import type { BaseMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { deriveKey } from "@reprise/tools";
import { type Agent, type AgentGraph, defineAgent, toolAgent } from "@reprise/worker";
import { chargeNaively, chargeSchema, chargeSubscription, chargeUnderKey, getPlan } from "../support/payments-tools.ts";
import { ScriptedModel } from "../support/scripted-model.ts";

/** `none`: the product as it is. The others each take one protection away. */
export const MUTATIONS = ["none", "key_generated", "sync_removed", "fence_removed"] as const;
export type Mutation = (typeof MUTATIONS)[number];

const MODEL_LATENCY_MS = 15;

function customerOf(messages: readonly BaseMessage[]): string {
  return /cus_\w+/.exec(messages.findLast((message) => message.type === "human")?.text ?? "")?.[0] ?? "cus_unknown";
}

function model(): ScriptedModel {
  return new ScriptedModel({
    latencyMs: MODEL_LATENCY_MS,
    turns: [
      (messages) => ({ calls: [{ name: "get_plan", args: { customer: customerOf(messages) } }] }),
      (messages) => ({
        calls: [{ name: "charge_subscription", args: { customer: customerOf(messages), amount_cents: 4900 } }],
      }),
      { text: "Charged." },
    ],
  });
}

/** A key derived as the seed does it, with nothing that waits until the call it comes from is stored. */
const chargeWithoutBarrier = tool(
  async (args, config) => {
    const threadId = String(config.configurable?.["thread_id"]);
    const charge = await chargeUnderKey(args, deriveKey(threadId, String(config.toolCall?.id)));
    return JSON.stringify(charge);
  },
  { name: "charge_subscription", description: "Charge a customer", schema: chargeSchema },
);

/** LangGraph's `exit` durability: the run's checkpoints are written when it ends, so a killed one asks its model again. */
function withoutSync(graph: AgentGraph): AgentGraph {
  const invoke: AgentGraph["invoke"] = (input, config) => {
    const configurable = { ...(config["configurable"] as Record<string, unknown>), __pregel_durability: undefined };
    return graph.invoke(input, { ...config, configurable, durability: "exit" });
  };
  return new Proxy(graph, { get: (target, key) => (key === "invoke" ? invoke : Reflect.get(target, key, target)) });
}

/** One agent called `billing`, in the mutation asked for. The fence's mutation is made in the database, by the harness. */
export function agentsFor(mutation: Mutation): readonly Agent[] {
  const build = (charge: Parameters<typeof toolAgent>[0]["tools"][number]): AgentGraph =>
    toolAgent({ model: model(), tools: [getPlan, charge] });
  switch (mutation) {
    case "none":
    case "fence_removed":
      return [defineAgent({ name: "billing", graph: build(chargeSubscription) })];
    case "key_generated":
      return [defineAgent({ name: "billing", graph: build(chargeNaively) })];
    case "sync_removed":
      return [defineAgent({ name: "billing", graph: withoutSync(build(chargeWithoutBarrier)) })];
    default:
      return mutation satisfies never;
  }
}
