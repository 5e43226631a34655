// The arm without us: the same five steps as one writes them by hand, on the stock saver, several runs at once.

import { randomUUID } from "node:crypto";
import { type AIMessage, HumanMessage, type ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { END, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { openPool } from "@reprise/dev-stack";
import { readConfig } from "@reprise/worker";
import type { z } from "zod";
import { chargeSchema, chargeSlowly, MESSAGES_AT_END, pacedModel, REQUEST } from "./bench-worker-agent.ts";
import type { ArmSettings, Play, Played } from "./bench-worker-process.ts";
import { stopwatch } from "./bench-worker-stopwatch.ts";
import { requireWork } from "./errors.ts";

type ToolCall = NonNullable<AIMessage["tool_calls"]>[number];

export function graphArm(settings: ArmSettings): (play: Play) => Promise<Played> {
  const config = readConfig();
  // As many as the worker has: two a run.
  const pool = openPool(config.databaseUrl, { max: config.poolMax, min: config.poolMax });
  pool.on("error", () => undefined);
  const graph = bareGraph(settings, new PostgresSaver(pool));
  return async ({ count }) => {
    const watch = stopwatch();
    watch.begin();
    let left = count;
    const lane = async (): Promise<void> => {
      for (; left > 0; ) {
        left -= 1;
        const threadId = randomUUID();
        const input = { messages: [new HumanMessage({ id: `${threadId}:in:0`, content: REQUEST })] };
        const state = await graph.invoke(input, { configurable: { thread_id: threadId }, durability: "sync" });
        requireWork(state.messages.length === MESSAGES_AT_END, `a run ended with ${state.messages.length} messages`);
      }
    };
    await Promise.all(Array.from({ length: settings.concurrency }, lane));
    return watch.end();
  };
}

function bareGraph({ modelMs, toolMs }: ArmSettings, checkpointer: PostgresSaver) {
  const charge = tool(async (args: z.output<typeof chargeSchema>) => JSON.stringify(await chargeSlowly(args, toolMs)), {
    name: "charge",
    description: "Charges a customer",
    schema: chargeSchema,
  });
  const model = pacedModel(modelMs).bindTools([charge]);
  return new StateGraph(MessagesAnnotation)
    .addNode("model", async (state, config) => ({ messages: [await model.invoke(state.messages, config)] }))
    .addNode("tools", async ({ call }: { readonly call: ToolCall }, config) => {
      const answer: unknown = await charge.invoke({ ...call, type: "tool_call" }, config);
      return { messages: [answer as ToolMessage] };
    })
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) => sendsOf(messages.at(-1) as AIMessage | undefined), ["tools", END])
    .addEdge("tools", "model")
    .compile({ checkpointer });
}

function sendsOf(last: AIMessage | undefined): Send[] | typeof END {
  const calls = last?.tool_calls ?? [];
  return calls.length === 0 ? END : calls.map((call) => new Send("tools", { call }));
}
