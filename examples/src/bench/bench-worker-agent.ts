// The agent that both sides of the graph benchmarks run: three model turns, two calls of one tool, five steps.

import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { ScriptedModel } from "../support/scripted-model.ts";

export const chargeSchema = z.object({ customer: z.string(), amount: z.number(), memo: z.string() });

export interface Charge {
  readonly id: string;
  readonly amount: number;
  readonly status: "succeeded";
}

export function pacedModel(latencyMs: number): ScriptedModel {
  const call = (amount: number) => ({
    calls: [{ name: "charge", args: { customer: "cus_0001", amount, memo: "order 1234, refund" } }],
  });
  return new ScriptedModel({
    latencyMs,
    turns: [call(1200), call(1300), { text: `Both are charged. ${"y".repeat(200)}` }],
  });
}

/** The provider: an answer after its time. */
export async function chargeSlowly({ amount }: z.output<typeof chargeSchema>, toolMs: number): Promise<Charge> {
  if (toolMs > 0) await sleep(toolMs);
  return { id: `ch_${amount}`, amount, status: "succeeded" };
}

/** What the human of each run says: about as much as people do. */
export const REQUEST = `Please settle order 1234 in two charges. ${"x".repeat(800)}`;

/** Messages in the state of a finished run: a human's, three of the model, two of the tool. */
export const MESSAGES_AT_END = 6;
