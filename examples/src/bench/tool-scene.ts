// A graph whose tool node measures: calls stand in its task's input, checkpoints are durable, as in a worker's run.

import { AIMessage, HumanMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import { type BaseCheckpointSaver, END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { type Ledger, MemoryLedger } from "@reprise/tools";
import { BarrierSaver, stampCalls, withEffects } from "@reprise/tools/langgraph";

export interface ModelCall {
  readonly id: string;
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly type: "tool_call";
}

export interface ToolScene {
  /** One run on a new thread: the model asks for `calls`, and `measure` gets them in a task of their own, under its config. */
  play<T>(
    calls: readonly ModelCall[],
    measure: (calls: readonly ModelCall[], config: RunnableConfig) => Promise<T>,
  ): Promise<T>;
}

// Thousands of calls pass; the ledger in memory forgets settled ones.
export function openToolScene(
  saver: BaseCheckpointSaver,
  ledger: Ledger = new MemoryLedger({ rowsMax: 1_000 }),
): ToolScene {
  const checkpointer = new BarrierSaver(saver);
  let runs = 0;
  return {
    async play(calls, measure) {
      runs += 1;
      const measured: Awaited<ReturnType<typeof measure>>[] = [];
      const model = (state: typeof MessagesAnnotation.State) => {
        const answer = new AIMessage({
          id: `msg_${runs}`,
          content: "",
          tool_calls: calls.map((call) => ({ ...call })),
        });
        return { messages: [stampCalls(answer, state.messages)] };
      };
      const tools = async (_state: typeof MessagesAnnotation.State, config: RunnableConfig) => {
        measured.push(await measure(calls, config));
        return {};
      };
      const graph = new StateGraph(MessagesAnnotation)
        .addNode("model", model)
        .addNode("tools", tools)
        .addEdge(START, "model")
        .addEdge("model", "tools")
        .addEdge("tools", END)
        .compile({ checkpointer });
      const scope = { ledger, runId: `run_${runs}`, deliveryId: `delivery_${runs}`, holder: "bench:1" };
      const config = { configurable: { thread_id: `thread_${runs}` }, durability: "sync" as const };
      await graph.invoke({ messages: [new HumanMessage("Charge them.")] }, withEffects(scope, config));
      const [first] = measured;
      if (first === undefined) throw new TypeError("the tool node of the scene did not run");
      return first;
    },
  };
}

/** Calls with ids as providers mint them, each new. */
export function modelCalls(count: number, name: string, start: number): readonly ModelCall[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `toolu_01${(start + index).toString(36).padStart(10, "0")}Kx9Qw7Rt`,
    name,
    args: { customer: `cus_${start + index}`, amount: 1212, currency: "eur", memo: "invoice 2026-11, three seats" },
    type: "tool_call" as const,
  }));
}
