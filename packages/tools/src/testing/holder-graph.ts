// The smallest graph in which a call survives its process: a model that asks once, one task for its call, a real checkpointer.
import { randomUUID } from "node:crypto";
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { StructuredToolInterface } from "@langchain/core/tools";
import { END, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { stampCalls } from "../langgraph/boundary.ts";
import type { StopAt } from "./holder-ledger.ts";

export interface OneCallParts {
  readonly tool: StructuredToolInterface;
  readonly args: Readonly<Record<string, unknown>>;
  readonly checkpointer: BaseCheckpointSaver;
  /** For a tool that claims nothing: the points are then passed around its body. */
  readonly stopAround?: StopAt;
}

type State = typeof MessagesAnnotation.State;
type Call = NonNullable<AIMessage["tool_calls"]>[number];

export interface OneCallGraph {
  /** Starts the run, or resumes what an earlier delivery left. Resolves with the messages as they are stored. */
  drive(config: RunnableConfig & { readonly durability: "sync" }): Promise<readonly BaseMessage[]>;
}

export function oneCallGraph(parts: OneCallParts): OneCallGraph {
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("model", async (state: State) => ({ messages: [modelTurn(parts, state.messages)] }))
    .addNode("tools", async ({ call }: { readonly call: Call }, config: RunnableConfig) => ({
      messages: [await callTool(parts, call, config)],
    }))
    .addEdge(START, "model")
    .addConditionalEdges("model", tasksOf, ["tools", END])
    .addEdge("tools", "model")
    .compile({ checkpointer: parts.checkpointer });
  return {
    drive: async (config) => {
      const before = await graph.getState(config);
      const input = before.metadata === undefined ? { messages: [new HumanMessage("Make the call.")] } : null;
      return (await graph.invoke(input, config)).messages;
    },
  };
}

// A fresh id each time it is asked, as providers give: a tool whose checkpoint was not stored first would show a second key.
function modelTurn({ tool, args }: OneCallParts, history: readonly BaseMessage[]): AIMessage {
  const answered = history.some((message) => ToolMessage.isInstance(message));
  const call: Call = { type: "tool_call", id: `toolu_${randomUUID()}`, name: tool.name, args: { ...args } };
  const message = new AIMessage({
    id: `msg_${randomUUID()}`,
    content: answered ? "It was made." : "",
    tool_calls: answered ? [] : [call],
  });
  return stampCalls(message, history);
}

function tasksOf(state: State): Send[] | typeof END {
  const last = state.messages.at(-1);
  const calls = last !== undefined && AIMessage.isInstance(last) ? (last.tool_calls ?? []) : [];
  return calls.length === 0 ? END : calls.map((call) => new Send("tools", { call }));
}

async function callTool(parts: OneCallParts, call: Call, config: RunnableConfig): Promise<ToolMessage> {
  await parts.stopAround?.("before_claim");
  await parts.stopAround?.("after_claim");
  const reply: unknown = await parts.tool.invoke({ ...call, type: "tool_call" }, config);
  await parts.stopAround?.("after_reply");
  await parts.stopAround?.("after_settle");
  if (ToolMessage.isInstance(reply)) return reply;
  return new ToolMessage({ tool_call_id: call.id ?? "", name: call.name, content: JSON.stringify(reply) ?? "null" });
}
