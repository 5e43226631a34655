// An agent of one node that stands still until the test lets it go: it holds a thread for as long as a test needs.
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { type Agent, type AgentGraph, defineAgent } from "../src/agent.ts";

export interface Gate {
  /** Called `gate`. */
  readonly agent: Agent;
  open(): void;
}

export function gate(): Gate {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("stand", async () => {
      await opened;
      return {};
    })
    .addEdge(START, "stand")
    .addEdge("stand", END)
    .compile();
  // LangGraph types `invoke` by the state; the worker drives graphs of any state.
  return { agent: defineAgent({ name: "gate", graph: graph as unknown as AgentGraph }), open };
}
