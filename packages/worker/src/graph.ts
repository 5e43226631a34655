// Step 3 of 5 - graph: one decided invocation in, how it ended out. Durability is sync, on the root and for whatever it calls.
import { Command, GraphDrained, isInterrupted, type RunControl } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { type EffectScope, withEffects } from "@reprise/tools/langgraph";
import { SPAN, withSpan } from "@reprise/tracing";
import { MODEL_SPANS, modelSpanHandler, NODE_BODIES, type OnNodeBody } from "@reprise/tracing/langgraph";
import type { Agent } from "./agent.ts";
import { LENT_SAVER } from "./graph-state.ts";

/** What to invoke the graph with; made from a ResumeDecision. */
export type Invocation =
  | { readonly kind: "fresh"; readonly input: unknown }
  | { readonly kind: "resume" }
  | { readonly kind: "answer"; readonly interruptId: string; readonly value: unknown };

export interface DriveParts {
  readonly runId: string;
  readonly threadId: string;
  readonly saver: BaseCheckpointSaver;
  readonly effects: EffectScope;
  /** Aborts nodes and tools: lease lost, deadline, second signal. */
  readonly signal: AbortSignal;
  /** Asked to drain on SIGTERM: the graph stops at its next superstep, with everything stored. */
  readonly control: RunControl;
  /** Told of every node body that begins, those of subgraphs too: it may outlive the drive (graph-bodies.ts). */
  readonly onBody: OnNodeBody;
  readonly recursionLimit: number;
  readonly toolsPerRun: number;
}

export interface PendingInterrupt {
  readonly id: string;
  readonly value: unknown;
}

export type DriveResult =
  | { readonly state: "finished"; readonly values: unknown }
  | { readonly state: "interrupted"; readonly interrupts: readonly PendingInterrupt[] }
  | { readonly state: "drained" };

/** Runs the graph under a `graph.invoke` span. Rejects with whatever a node threw; never for an interrupt or a drain. */
export async function drive(agent: Agent, invocation: Invocation, parts: DriveParts): Promise<DriveResult> {
  try {
    return await withSpan(SPAN.graphInvoke, {}, async () => endOf(await invoke(agent, invocation, parts)));
  } catch (error) {
    if (error instanceof GraphDrained) return { state: "drained" };
    throw error;
  }
}

function invoke(agent: Agent, invocation: Invocation, parts: DriveParts): Promise<unknown> {
  const config = {
    configurable: {
      thread_id: parts.threadId,
      [LENT_SAVER]: parts.saver,
      // `durability` does not reach a graph that a tool invokes without its config; this key does (facts/users, fact 1).
      __pregel_durability: "sync",
      [NODE_BODIES]: parts.onBody,
      [MODEL_SPANS]: modelSpanHandler,
      // An answer to an interrupt that is no longer pending must be refused, never given to the next question.
      ...(invocation.kind === "answer" ? { __pregel_strict_resume: true } : {}),
    },
    durability: "sync",
    signal: parts.signal,
    control: parts.control,
    recursionLimit: parts.recursionLimit,
    maxConcurrency: parts.toolsPerRun,
    runName: agent.name,
  };
  return agent.graph.invoke(inputOf(invocation, parts.runId), withEffects(parts.effects, config));
}

function inputOf(invocation: Invocation, runId: string): unknown {
  switch (invocation.kind) {
    case "fresh":
      return withMessageIds(invocation.input, runId);
    case "resume":
      // null, never the input: re-applying it throws away finished siblings (facts/langgraph, fact 4).
      return null;
    case "answer":
      return new Command({ resume: { [invocation.interruptId]: invocation.value } });
    default:
      return invocation satisfies never;
  }
}

/** Input messages get ids from the run, so that the same input applied twice would replace, not repeat, them. */
export function withMessageIds(input: unknown, runId: string): unknown {
  if (typeof input !== "object" || input === null || !("messages" in input) || !Array.isArray(input.messages))
    return input;
  const messages = input.messages.map((message: unknown, index) =>
    typeof message === "object" && message !== null && !hasId(message)
      ? { ...message, id: `${runId}:in:${index}` }
      : message,
  );
  return { ...input, messages };
}

function hasId(message: object): boolean {
  return "id" in message && typeof message.id === "string" && message.id !== "";
}

function endOf(values: unknown): DriveResult {
  if (!isInterrupted(values)) return { state: "finished", values };
  const interrupts = values["__interrupt__"].flatMap(({ id, value }) => (id === undefined ? [] : [{ id, value }]));
  return { state: "interrupted", interrupts };
}
