// Every way to wire a tool that users have, around one scripted model that asks anew, with new ids, whenever it is asked anew.
import { randomUUID } from "node:crypto";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import type { ChatResult } from "@langchain/core/outputs";
import type { RunnableConfig } from "@langchain/core/runnables";
import { type StructuredToolInterface, tool } from "@langchain/core/tools";
import { type BaseCheckpointSaver, END, MessagesAnnotation, Send, START, StateGraph } from "@langchain/langgraph";
import { createReactAgent, ToolNode } from "@langchain/langgraph/prebuilt";
import { createAgent } from "langchain";
import { z } from "zod";
import { stampCalls } from "../src/langgraph/boundary.ts";
import { withReprise } from "../src/langgraph/boundary-middleware.ts";

export const SHAPES = [
  "flat",
  "subgraph",
  "subagent_config",
  "subagent_bare",
  "subagent_unsaved",
  "tool_node",
  "create_agent",
  "create_agent_v1",
  "react_v1",
  "react_v2",
  "supervisor",
] as const;
export type Shape = (typeof SHAPES)[number];

/** A compiled graph in the part that tests use. */
export interface FitAgent {
  // The shapes differ in their states; all have messages.
  invoke(
    input: unknown,
    config: RunnableConfig & { readonly durability?: "sync" | "async" | "exit" },
  ): Promise<unknown>;
}

/** Calls one tool once in a history, then is done. The call's id is fresh each time the model is asked, as providers' are. */
export class AskingModel extends BaseChatModel {
  readonly #toolName: string;
  readonly #args: Readonly<Record<string, unknown>>;

  constructor(toolName: string, args: Readonly<Record<string, unknown>>) {
    super({});
    this.#toolName = toolName;
    this.#args = args;
  }

  _llmType(): string {
    return "asking";
  }

  override bindTools(): this {
    return this;
  }

  answer(messages: readonly BaseMessage[]): AIMessage {
    const answered = messages.some((message) => ToolMessage.isInstance(message));
    const call = { type: "tool_call" as const, id: `toolu_${randomUUID()}`, name: this.#toolName, args: this.#args };
    return new AIMessage({
      id: `run-${randomUUID()}`,
      content: answered ? "done" : "",
      tool_calls: answered ? [] : [call],
    });
  }

  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    return { generations: [{ text: "", message: this.answer(messages) }] };
  }
}

export interface ShapeParts {
  readonly pay: StructuredToolInterface;
  readonly args: Readonly<Record<string, unknown>>;
  readonly saver: BaseCheckpointSaver;
}

export function buildShape(shape: Shape, { pay, args, saver }: ShapeParts): FitAgent {
  const model = new AskingModel(pay.name, args);
  switch (shape) {
    case "flat":
      return flat(model, pay, saver);
    case "subgraph":
      return new StateGraph(MessagesAnnotation)
        .addNode("inner", flat(model, pay, undefined))
        .addEdge(START, "inner")
        .compile({ checkpointer: saver });
    case "subagent_config":
      return around(flat(model, pay, undefined), "config", saver);
    case "subagent_bare":
      return around(flat(model, pay, undefined), "bare", saver);
    case "subagent_unsaved":
      return around(flat(model, pay, false), "config", saver);
    case "tool_node":
      return withToolNode(model, pay, saver);
    case "create_agent":
      return createAgent({ model, ...withReprise({ tools: [pay] }), checkpointer: saver }) as unknown as FitAgent;
    case "create_agent_v1":
      return createAgent({
        model,
        ...withReprise({ tools: [pay] }),
        checkpointer: saver,
        version: "v1",
      }) as unknown as FitAgent;
    case "react_v1":
      return createReactAgent({ llm: model, tools: [pay], version: "v1", checkpointSaver: saver });
    case "react_v2":
      return createReactAgent({ llm: model, tools: [pay], version: "v2", checkpointSaver: saver });
    case "supervisor":
      return supervisor(model, pay, saver);
    default:
      return shape satisfies never;
  }
}

type State = typeof MessagesAnnotation.State;
type Call = NonNullable<AIMessage["tool_calls"]>[number];

function flat(model: AskingModel, pay: StructuredToolInterface, saver: BaseCheckpointSaver | false | undefined) {
  return new StateGraph(MessagesAnnotation)
    .addNode("model", async ({ messages }: State) => ({ messages: [stampCalls(model.answer(messages), messages)] }))
    .addNode("tools", async ({ call }: { readonly call: Call }, config: RunnableConfig) => ({
      messages: [(await pay.invoke({ ...call, type: "tool_call" }, config)) as ToolMessage],
    }))
    .addEdge(START, "model")
    .addConditionalEdges("model", sends, ["tools", END])
    .addEdge("tools", "model")
    .compile(saver === undefined ? {} : { checkpointer: saver });
}

function callsOf({ messages }: State): readonly Call[] {
  const last = messages.at(-1);
  return last !== undefined && AIMessage.isInstance(last) ? (last.tool_calls ?? []) : [];
}

function sends(state: State): Send[] | typeof END {
  const calls = callsOf(state);
  return calls.length === 0 ? END : calls.map((call) => new Send("tools", { call }));
}

/** A parent whose tool, without effects of its own, calls the subagent. */
function around(sub: FitAgent, how: "config" | "bare", saver: BaseCheckpointSaver): FitAgent {
  const delegate = delegateTo(sub, how);
  return flat(new AskingModel(delegate.name, {}), delegate, saver);
}

function delegateTo(sub: FitAgent, how: "config" | "bare"): StructuredToolInterface {
  return tool(
    async (_args: Record<string, never>, config: RunnableConfig) => {
      const input = { messages: [new HumanMessage("Pay.")] };
      // Without a config LangGraph finds the parent's in the async context, but not its durability (facts/users, fact 1).
      await sub.invoke(input, how === "config" ? config : (undefined as unknown as RunnableConfig));
      return "delegated";
    },
    { name: "delegate", description: "Has another agent do it.", schema: z.object({}) },
  );
}

function withToolNode(model: AskingModel, pay: StructuredToolInterface, saver: BaseCheckpointSaver): FitAgent {
  return new StateGraph(MessagesAnnotation)
    .addNode("model", async ({ messages }) => ({ messages: [stampCalls(model.answer(messages), messages)] }))
    .addNode("tools", new ToolNode([pay]))
    .addEdge(START, "model")
    .addConditionalEdges("model", (state) => (callsOf(state).length === 0 ? END : "tools"), ["tools", END])
    .addEdge("tools", "model")
    .compile({ checkpointer: saver });
}

/** As langgraph-supervisor's own migration guide has it: subagents as tools. */
function supervisor(model: AskingModel, pay: StructuredToolInterface, saver: BaseCheckpointSaver): FitAgent {
  const worker = createAgent({ model, ...withReprise({ tools: [pay] }) }) as unknown as FitAgent;
  const delegate = delegateTo(worker, "config");
  const lead = new AskingModel(delegate.name, {});
  return createAgent({
    model: lead,
    ...withReprise({ tools: [delegate] }),
    checkpointer: saver,
  }) as unknown as FitAgent;
}
