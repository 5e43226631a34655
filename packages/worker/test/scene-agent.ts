// The smallest graph a test can drive: two nodes that write their names.
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import type { AgentGraph } from "../src/agent.ts";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });

export function twoSteps(): AgentGraph {
  return new StateGraph(State)
    .addNode("one", async () => ({ log: ["one"] }))
    .addNode("two", async () => ({ log: ["two"] }))
    .addEdge(START, "one")
    .addEdge("one", "two")
    .addEdge("two", END)
    .compile() as unknown as AgentGraph;
}
