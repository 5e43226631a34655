// An agent: a name that messages use, and the compiled LangGraph graph behind it.
import { createHash } from "node:crypto";
import type { BaseMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import type { StateSnapshot } from "@langchain/langgraph";
import { traceGraph } from "@reprise/tracing/langgraph";
import { errorText, WorkerError } from "./errors.ts";

/**
 * What the worker needs of a compiled LangGraph graph, whatever its state and nodes are called. Structural, because the
 * generic parameters of LangGraph's own type are invariant. The saver is lent by the worker for each delivery, so a graph
 * may be compiled with a checkpointer of its own or without one.
 */
export interface AgentGraph {
  readonly nodes: Readonly<Record<string, { readonly triggers: readonly string[] }>>;
  invoke(input: unknown, config: Readonly<Record<string, unknown>>): Promise<unknown>;
  getState(config: RunnableConfig): Promise<StateSnapshot>;
  updateState(config: RunnableConfig, values: unknown, asNode?: string): Promise<unknown>;
}

export interface AgentDefinition {
  /** What messages call it. 1 to 200 characters. */
  readonly name: string;
  /** A compiled graph, or a `createAgent` agent (its `.graph` is taken). */
  readonly graph: AgentGraph | { readonly graph: AgentGraph };
  /** What of the final state is the run's result. Default: the last message's text, else the whole state. JSON, cut at 64 KB. */
  readonly result?: (state: unknown) => unknown;
  /** Fetches the input of a message that carries an `input_ref`. Without it such messages are given back. */
  readonly loadInput?: LoadInput;
}

/**
 * Gives the input behind a reference: an object's address, a row's id, whatever producer and agent agree on. Called when the
 * run starts, and again when a worker was lost before the first checkpoint: a reference must go on meaning the same input.
 * What it throws is a fault of the run, retried with backoff.
 */
export type LoadInput = (ref: string, run: LoadInputRun) => Promise<unknown>;

export interface LoadInputRun {
  readonly runId: string;
  readonly threadId: string;
  /** Fires when the delivery has to stop. */
  readonly signal: AbortSignal;
}

export interface Agent {
  readonly name: string;
  readonly graph: AgentGraph;
  /** Changes when nodes come, go or are renamed, not when their code does. */
  readonly fingerprint: string;
  readonly result: (state: unknown) => unknown;
  readonly loadInput?: LoadInput;
}

/** @throws WorkerError AGENT_INVALID when the name is empty or the graph is not compiled. */
export function defineAgent(definition: AgentDefinition): Agent {
  const { name } = definition;
  if (name.trim() === "" || name.length > 200) {
    throw new WorkerError(
      "AGENT_INVALID",
      "an agent's name must have 1 to 200 characters; messages name it in `agent`",
    );
  }
  // Agent modules are loaded at run time, where the type proves nothing.
  const { graph: given } = definition;
  const graph = typeof given === "object" && given !== null && "graph" in given ? given.graph : given;
  if (typeof graph?.invoke !== "function" || typeof graph.getState !== "function") {
    throw new WorkerError(
      "AGENT_INVALID",
      `the graph of agent "${name}" is not compiled; pass the result of .compile()`,
    );
  }
  return {
    name,
    graph: traceGraph(graph),
    fingerprint: fingerprintOf(graph),
    result: definition.result ?? lastText,
    ...(definition.loadInput === undefined ? {} : { loadInput: definition.loadInput }),
  };
}

/** @throws WorkerError INPUT_NOT_LOADED, the agent's own error as its cause */
export async function loadedInput(agent: Agent, ref: string, run: LoadInputRun): Promise<unknown> {
  let input: unknown;
  let cause: unknown;
  try {
    input = await agent.loadInput?.(ref, run);
  } catch (error) {
    cause = error;
  }
  if (input !== undefined && input !== null) return input;
  const why = cause === undefined ? "it gave nothing" : errorText(cause);
  throw new WorkerError("INPUT_NOT_LOADED", `agent "${agent.name}" could not load input "${ref}": ${why}`, { cause });
}

/** The agents of a worker by name. @throws WorkerError AGENT_DUPLICATE */
export function agentsByName(agents: readonly Agent[]): ReadonlyMap<string, Agent> {
  const byName = new Map<string, Agent>();
  for (const agent of agents) {
    if (byName.has(agent.name)) {
      throw new WorkerError(
        "AGENT_DUPLICATE",
        `two agents are called "${agent.name}"; messages could not choose between them`,
      );
    }
    byName.set(agent.name, agent);
  }
  return byName;
}

/** 16 hex digits over the names of the nodes and their triggers. Edges rewired between the same nodes leave it as it is: what is pending can still run. */
export function fingerprintOf(graph: AgentGraph): string {
  const shape = nodesOf(graph)
    .map(([name, triggers]) => `${name}<-${[...triggers].sort().join(",")}`)
    .sort();
  return createHash("sha256").update(shape.join("\n")).digest("hex").slice(0, 16);
}

/** Names and triggers of the graph's nodes. */
export function nodesOf(graph: AgentGraph): readonly (readonly [string, readonly string[]])[] {
  return Object.entries(graph.nodes).map(([name, node]) => [name, node.triggers]);
}

function lastText(state: unknown): unknown {
  if (typeof state !== "object" || state === null || !("messages" in state) || !Array.isArray(state.messages))
    return state;
  const last = state.messages.at(-1) as BaseMessage | undefined;
  return last?.text ?? last?.content ?? null;
}
