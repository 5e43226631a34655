// The billing agents of the demo and the kill harness: a model that reads a plan, charges it, and says so. Five graph steps.
import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { type Agent, defineAgent, toolAgent } from "@reprise/worker";
import { modelFromEnv } from "../support/model-from-env.ts";
import { chargeNaively, chargeSubscription, getPlan } from "../support/payments-tools.ts";
import { ScriptedModel } from "../support/scripted-model.ts";

const PROMPT = "You bill customers. Look the plan up, charge its price once, then say what was charged.";

/** Reads the customer from what the human wrote, so that one script serves many runs. */
function customerOf(messages: readonly BaseMessage[]): string {
  const human = messages.findLast((message) => message.type === "human");
  return /cus_\w+/.exec(human?.text ?? "")?.[0] ?? "cus_8123";
}

function lastResult(messages: readonly BaseMessage[]): string {
  const result = messages.at(-1);
  return result instanceof ToolMessage ? result.text : "nothing";
}

function scripted(): BaseChatModel {
  return new ScriptedModel({
    turns: [
      (messages) => ({
        text: "I look the plan up.",
        calls: [{ name: "get_plan", args: { customer: customerOf(messages) } }],
      }),
      (messages) => ({
        calls: [
          {
            name: "charge_subscription",
            args: { customer: customerOf(messages), amount_cents: 4900, memo: "pro plan, June" },
          },
        ],
      }),
      (messages) => ({ text: `Charged: ${lastResult(messages)}` }),
    ],
  });
}

const { model } = await modelFromEnv({ scripted });

export const agents: readonly Agent[] = [
  defineAgent({ name: "billing", graph: toolAgent({ model, tools: [getPlan, chargeSubscription], prompt: PROMPT }) }),
  // The same agent, charging under a key generated at call time: `npm run demo -- --naive` shows what becomes of it.
  defineAgent({ name: "billing-naive", graph: toolAgent({ model, tools: [getPlan, chargeNaively], prompt: PROMPT }) }),
];
