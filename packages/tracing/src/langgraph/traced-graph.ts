// Puts a span around every node of a compiled graph and of the graphs inside it, in place and once.

import { Runnable, RunnablePassthrough } from "@langchain/core/runnables";
import { HearingEdge } from "./graph-edge.ts";
import { isTracedNode, TracedNode } from "./graph-node.ts";
import { isSelfHearing } from "./model-hearing.ts";

/** LangGraph marks what is plumbing and not a node of the user's (`__start__`, channel writers) with this tag. */
const HIDDEN_TAG = "langsmith:hidden";

/** What we touch of a PregelNode (langgraph dist/pregel/read.js). */
interface GraphNode {
  bound: Runnable;
  subgraphs?: Runnable[] | undefined;
  readonly tags?: readonly string[] | undefined;
}

/**
 * Instruments a compiled graph: each try of each node runs under an active span `node:<name>`, a child of the span that is active
 * where the graph is invoked. Changes the graph in place and returns it; a second call changes nothing. Takes a StateGraph's
 * compile() result, any Pregel, an entrypoint, or an agent of createAgent (its `graph`). Subgraphs that are nodes are instrumented
 * as well; a graph that a node's code calls by itself is not seen and needs its own call. Tasks of the functional API get no span.
 */
export function traceGraph<G>(graph: G): G {
  const pregel = pregelOf(graph);
  if (pregel === undefined) {
    throw new TypeError(
      "traceGraph was given something that is no compiled graph (no `nodes`): pass what compile(), entrypoint() or createAgent() returned.",
    );
  }
  traceInside(pregel);
  return graph;
}

function traceNodes(nodes: Readonly<Record<string, unknown>>): void {
  for (const [name, node] of Object.entries(nodes)) {
    // A traced node's subgraphs were traced with it; stopping here also ends the walk over graphs that are shared by several nodes.
    if (!isGraphNode(node) || isPlumbing(node) || isTracedNode(node.bound)) continue;
    const inner = node.bound;
    // LangGraph finds subgraphs by looking into `bound` unless they are named (getSubgraphs, debug.js): name what it would find.
    if (!node.subgraphs?.length) node.subgraphs = [inner];
    for (const candidate of node.subgraphs) traceInside(candidate);
    node.bound = new TracedNode(inner, name);
  }
}

/** Graphs that are this Runnable or a step of this sequence, as LangGraph's findSubgraphPregel looks for them. */
function traceInside(runnable: unknown): void {
  const pregel = pregelOf(runnable);
  if (pregel !== undefined) {
    traceNodes(pregel.nodes);
    hearEdges(pregel);
  } else if (hasSteps(runnable)) for (const step of runnable.steps) traceInside(step);
}

/** A StateGraph keeps its conditional edges in its builder, by node and name (langgraph dist/graph/state.js, attachBranch). */
function hearEdges(pregel: object): void {
  const builder = "builder" in pregel ? pregel.builder : undefined;
  const branches = valuesOf(objectIn(builder, "branches")).flatMap(valuesOf);
  for (const branch of branches) {
    if (!isBranch(branch) || branch.path instanceof HearingEdge || isSelfHearing(branch.path)) continue;
    branch.path = new HearingEdge(branch.path);
  }
}

function objectIn(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}

function valuesOf(value: unknown): readonly unknown[] {
  return typeof value === "object" && value !== null ? Object.values(value) : [];
}

function isBranch(value: unknown): value is { path: Runnable } {
  return typeof value === "object" && value !== null && "path" in value && Runnable.isRunnable(value.path);
}

function pregelOf(value: unknown): { readonly nodes: Readonly<Record<string, unknown>> } | undefined {
  if (isPregel(value)) return value;
  if (typeof value === "object" && value !== null && "graph" in value && isPregel(value.graph)) return value.graph;
  return undefined;
}

// A RemoteGraph is Pregel-like and has no nodes here: its spans are made where it runs.
function isPregel(value: unknown): value is { readonly nodes: Readonly<Record<string, unknown>> } {
  if (typeof value !== "object" || value === null) return false;
  return "lg_is_pregel" in value && "nodes" in value && typeof value.nodes === "object" && value.nodes !== null;
}

function hasSteps(value: unknown): value is { readonly steps: readonly unknown[] } {
  return typeof value === "object" && value !== null && "steps" in value && Array.isArray(value.steps);
}

function isGraphNode(value: unknown): value is GraphNode {
  return typeof value === "object" && value !== null && "bound" in value && Runnable.isRunnable(value.bound);
}

function isPlumbing(node: GraphNode): boolean {
  return node.bound instanceof RunnablePassthrough || (node.tags?.includes(HIDDEN_TAG) ?? false);
}
