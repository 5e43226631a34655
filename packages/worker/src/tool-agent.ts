// toolAgent: our own graph of a model and its tools, one Send per call, so that a crash repeats only the unfinished call.
import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { type AIMessage, type BaseMessage, isAIMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { StructuredToolInterface } from "@langchain/core/tools";
import { END, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import { EffectTool, toolsOf } from "@reprise/tools";
import { callRecords, restoreProviderIds, type SendPayload, stampCalls } from "@reprise/tools/langgraph";
import { hearingModels, selfHearing, traceModelCall } from "@reprise/tracing/langgraph";
import type { AgentGraph } from "./agent.ts";
import { WorkerError } from "./errors.ts";

export interface ToolAgentOptions {
  readonly model: BaseChatModel;
  /** Tools of `defineTool`, or any LangChain tool without an effect. */
  readonly tools: readonly StructuredToolInterface[];
  /** System prompt, put before the history of each model call and never stored. */
  readonly prompt?: string;
}

type ToolCall = NonNullable<AIMessage["tool_calls"]>[number];
/** What a tool task is sent: the call and the message it stands in, never the state (a copy of it per call, stored twice). */
type ToolTask = SendPayload & { readonly call: ToolCall };

/**
 * Compiles the graph `model -> tools (one task a call) -> model`, without a checkpointer: the worker lends one.
 *
 * @throws WorkerError AGENT_INVALID when the model cannot be given tools
 */
export function toolAgent(options: ToolAgentOptions): AgentGraph {
  const tools = withCompanions(options.tools);
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("model", selfHearing(modelNode({ ...options, tools })))
    .addNode("tools", (task: ToolTask, config: RunnableConfig) => callTool(byName, task, config))
    .addEdge(START, "model")
    .addConditionalEdges(
      "model",
      selfHearing((state: typeof MessagesAnnotation.State) => tasksOf(state.messages)),
      ["tools", END],
    )
    .addEdge("tools", "model");
  // LangGraph types `invoke` by the state; the worker drives graphs of any state.
  return graph.compile() as unknown as AgentGraph;
}

/** A tool with a lookup brings `get_<name>_status`, which the reply for an unknown outcome names: the model must have it. */
function withCompanions(tools: readonly StructuredToolInterface[]): readonly StructuredToolInterface[] {
  const all = tools.flatMap((tool): readonly StructuredToolInterface[] =>
    tool instanceof EffectTool ? toolsOf(tool) : [tool],
  );
  return [...new Map(all.map((tool) => [tool.name, tool])).values()];
}

/** The model boundary: it sees its own call ids, and what it answers gets ids that are unique on the thread, before they are stored. */
function modelNode(
  options: ToolAgentOptions,
): (state: typeof MessagesAnnotation.State, config: RunnableConfig) => Promise<{ messages: AIMessage[] }> {
  const model = withTools(options);
  const name = modelName(options.model);
  return async (state, config) => {
    const system = options.prompt === undefined ? [] : [new SystemMessage(options.prompt)];
    const input = [...system, ...restoreProviderIds(state.messages)];
    const answer = await traceModelCall(name, () =>
      hearingModels(config, (heard) => model.invoke(input, heard ?? config) as Promise<AIMessage>),
    );
    return { messages: [stampCalls(answer, state.messages)] };
  };
}

function withTools({ model, tools }: ToolAgentOptions): {
  invoke(input: BaseMessage[], config: RunnableConfig): Promise<unknown>;
} {
  if (tools.length === 0) return model;
  if (model.bindTools === undefined) {
    throw new WorkerError(
      "AGENT_INVALID",
      `the model ${modelName(model)} has no bindTools; use a chat model that calls tools`,
    );
  }
  return model.bindTools([...tools]);
}

function modelName(model: BaseChatModel): string {
  const named = model as { readonly model?: unknown; readonly modelName?: unknown };
  const name = named.model ?? named.modelName;
  return typeof name === "string" ? name : model._llmType();
}

/** One task for each call that has no answer yet; answered ones were closed from the ledger. */
function tasksOf(messages: readonly BaseMessage[]): Send[] | typeof END {
  const last = messages.at(-1);
  if (last === undefined || !isAIMessage(last) || (last.tool_calls?.length ?? 0) === 0) return END;
  const records = callRecords(last);
  return (last.tool_calls ?? []).map((call, position) => {
    const record = records[call.id ?? ""];
    const task: ToolTask = {
      call,
      position,
      ...(last.id === undefined ? {} : { assistantMessageId: last.id }),
      source: record?.source ?? "provider",
      ...(record?.cut === true ? { cut: true } : {}),
    };
    return new Send("tools", task);
  });
}

async function callTool(
  tools: ReadonlyMap<string, StructuredToolInterface>,
  task: ToolTask,
  config: RunnableConfig,
): Promise<{ messages: ToolMessage[] }> {
  const { call } = task;
  const tool = tools.get(call.name);
  const answer: unknown = tool === undefined ? undefined : await tool.invoke({ ...call, type: "tool_call" }, config);
  if (answer instanceof ToolMessage) return { messages: [answer] };
  const content = tool === undefined ? unknownTool(call.name, [...tools.keys()]) : answer;
  const text = typeof content === "string" ? content : JSON.stringify(content);
  return { messages: [new ToolMessage({ tool_call_id: call.id ?? "", name: call.name, content: text })] };
}

function unknownTool(name: string, known: readonly string[]): unknown {
  return { status: "failed", detail: `there is no tool "${name}"; the tools are ${known.join(", ")}` };
}
