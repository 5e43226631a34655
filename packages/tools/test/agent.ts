// A flat agent by hand for tests: a scripted model node, one Send per call, a saver that can be slow, a scope.

import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  type BaseCheckpointSaver,
  END,
  MemorySaver,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
} from "@langchain/langgraph";
import type { EffectTool } from "../src/define-tool.ts";
import type { Ledger } from "../src/effect.ts";
import { BarrierSaver } from "../src/langgraph/barrier-saver.ts";
import { stampCalls } from "../src/langgraph/boundary.ts";
import { type EffectScope, withEffects } from "../src/langgraph/scope.ts";

export type Turn = readonly { readonly name: string; readonly id?: string; readonly args: Record<string, unknown> }[];

export interface AgentOptions {
  readonly tools: readonly EffectTool[];
  /** The calls of each model turn, after which it stops. */
  readonly turns: readonly Turn[];
  /** Default true: the model node stamps its message. */
  readonly stamps?: boolean;
  /** Hands the node the whole messages instead of a Send with the call. */
  readonly wholeState?: boolean;
  /** How often the tool node is run at most, by LangGraph's own retry. Default 1. */
  readonly nodeAttempts?: number;
  /** null inherits the parent's, false keeps no checkpoints at all. */
  readonly saver?: BaseCheckpointSaver | null | false;
}

export function buildAgent(options: AgentOptions) {
  const tools = new Map(options.tools.map((tool) => [tool.name, tool]));
  const model = (state: typeof MessagesAnnotation.State): Partial<typeof MessagesAnnotation.State> => {
    const turn = state.messages.filter((message) => AIMessage.isInstance(message)).length;
    const calls = (options.turns[turn] ?? []).map((call) => ({ ...call, type: "tool_call" as const }));
    const message = new AIMessage({
      id: `m${turn}`,
      content: calls.length === 0 ? "done" : "",
      tool_calls: [...calls],
    });
    return { messages: [options.stamps === false ? message : stampCalls(message, state.messages)] };
  };
  const run = async (call: Turn[number], config: RunnableConfig): Promise<ToolMessage> => {
    const reply: unknown = await tools.get(call.name)?.invoke({ ...call, type: "tool_call" }, config);
    if (!ToolMessage.isInstance(reply)) throw new Error("no reply");
    return reply;
  };
  const node = async (
    input: { readonly call: Turn[number] } | typeof MessagesAnnotation.State,
    config: RunnableConfig,
  ) => {
    if ("call" in input) return { messages: [await run(input.call, config)] };
    const calls = lastCalls(input.messages);
    return { messages: await Promise.all(calls.map((call) => run(call, config))) };
  };
  const route = (state: typeof MessagesAnnotation.State) => {
    const calls = lastCalls(state.messages);
    if (calls.length === 0) return END;
    return options.wholeState === true ? "tools" : calls.map((call) => new Send("tools", { call }));
  };
  const saver = options.saver === undefined ? new BarrierSaver(new MemorySaver()) : options.saver;
  return new StateGraph(MessagesAnnotation)
    .addNode("model", model)
    .addNode("tools", node, {
      retryPolicy: {
        maxAttempts: options.nodeAttempts ?? 1,
        initialInterval: 1,
        jitter: false,
        logWarning: false,
        retryOn: () => true,
      },
    })
    .addEdge(START, "model")
    .addConditionalEdges("model", route, ["tools", END])
    .addEdge("tools", "model")
    .compile(saver === null ? {} : { checkpointer: saver });
}

function lastCalls(messages: readonly BaseMessage[]): Turn {
  const last = messages.findLast((message) => AIMessage.isInstance(message));
  // The stamped calls have ids; the cast drops the optional `type`.
  return (last?.tool_calls ?? []) as unknown as Turn;
}

export const input = { messages: [new HumanMessage({ id: "in", content: "go" })] };

export function scopeOf(ledger: Ledger, changes: Partial<EffectScope> = {}): EffectScope {
  return { ledger, runId: "run-1", deliveryId: "delivery-1", holder: "host:1", barrierWaitMs: 20, ...changes };
}

export function configOf(
  scope: EffectScope,
  changes: { readonly durability?: "sync" | "async" | "exit"; readonly signal?: AbortSignal } = {},
) {
  return withEffects(scope, { configurable: { thread_id: "t1" }, durability: "sync" as const, ...changes });
}

export function replies(state: { readonly messages: readonly BaseMessage[] }): readonly unknown[] {
  return state.messages
    .filter((message) => ToolMessage.isInstance(message))
    .map((message) => parse(String(message.content)));
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
