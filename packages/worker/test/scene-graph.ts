// Graphs for real tests, from a list of nodes that write their names: what a node does before is the test's.
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import type { AgentGraph } from "../src/agent.ts";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });

/** What a node sees of its run; the input's log tells runs apart. */
export interface NodeSees {
  readonly log: readonly string[];
  readonly signal: AbortSignal | undefined;
}
export type NodeWork = (sees: NodeSees) => Promise<void>;

type Node = (state: typeof State.State, config: { readonly signal?: AbortSignal }) => Promise<{ log: string[] }>;

interface LooseBuilder {
  addNode(name: string, node: Node): unknown;
  addEdge(from: string, to: string): unknown;
  compile(): AgentGraph;
}

/** One node after the other, in the order of the names. */
export function chainOf(nodes: Readonly<Record<string, NodeWork>>): AgentGraph {
  // The builder's type changes with each node it is given; here they come from a list.
  const builder = new StateGraph(State) as unknown as LooseBuilder;
  const names = Object.keys(nodes);
  for (const [name, work] of Object.entries(nodes)) {
    builder.addNode(name, async (state, config) => {
      await work({ log: state.log, signal: config.signal });
      return { log: [name] };
    });
  }
  for (const [index, name] of [START, ...names].entries()) builder.addEdge(name, names[index] ?? END);
  return builder.compile();
}
