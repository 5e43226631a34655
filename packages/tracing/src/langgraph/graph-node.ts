// One node of a compiled graph under a span of its own for every try: the delegating Runnable that traceGraph puts in its place.

import { Runnable, type RunnableConfig } from "@langchain/core/runnables";
import type { AttributeValue } from "@opentelemetry/api";
import { ATTR, SPAN } from "../names.ts";
import { PRODUCT } from "../product.ts";
import { withSpan } from "../span.ts";
import { hearingModels, isSelfHearing } from "./model-hearing.ts";

/** Marks our Runnable, also across two copies of this package in one process. */
const TRACED = Symbol.for(`${PRODUCT.scope}/tracing/langgraph node`);

/**
 * Key in a config's `configurable`, which reaches subgraphs too: a function that is given the promise of every node body. LangGraph
 * gives an aborted body up without waiting for it; whoever must not start it again meanwhile learns here when it has really ended.
 */
export const NODE_BODIES = `__${PRODUCT.name}_node_bodies`;
export type OnNodeBody = (body: Promise<unknown>) => void;

/**
 * Stands where a node's own Runnable stood (PregelNode.bound) and calls it with the arguments it was called with, so that retries,
 * timeouts, interrupts, Command, Send and streaming do what they did: LangGraph runs all of them around this call
 * (langgraph dist/pregel/retry.js) or through its config. Since a retry calls again, every try gets its span.
 */
export class TracedNode extends Runnable {
  override lc_namespace: string[] = [PRODUCT.name, "tracing"];
  readonly [TRACED] = true;
  readonly #inner: Runnable;
  readonly #selfHearing: boolean;

  constructor(inner: Runnable, name: string) {
    super();
    this.#inner = inner;
    this.#selfHearing = isSelfHearing(inner);
    this.name = name;
  }

  override async invoke(input: unknown, config?: Partial<RunnableConfig>): Promise<unknown> {
    let outcome: Promise<unknown> | undefined;
    const spanned = withSpan(SPAN.node(this.name ?? ""), { attributes: taskAttributes(this.name, config) }, () => {
      outcome = this.#selfHearing
        ? this.#inner.invoke(input, config)
        : hearingModels(config, (heard) => this.#inner.invoke(input, heard));
      const onBody: unknown = config?.configurable?.[NODE_BODIES];
      if (typeof onBody === "function") onBody(outcome);
      return untilAborted(outcome, config?.signal);
    });
    // The span may end before the body: a node that ignores its abort goes on as a zombie (facts: both tries ran at once), and
    // the span says when LangGraph gave it up. What LangGraph gets is still the body's own outcome.
    await spanned.catch(() => {});
    return outcome ?? spanned;
  }
}

/** Is this a Runnable that traceGraph has put in place? */
export function isTracedNode(value: unknown): boolean {
  return typeof value === "object" && value !== null && TRACED in value;
}

/** Rejects with the signal's reason when it aborts first. */
async function untilAborted(outcome: Promise<unknown>, signal: AbortSignal | undefined): Promise<unknown> {
  if (signal === undefined) return outcome;
  // A signal of our own: all tasks of a step share LangGraph's, and Node warns of a leak at its eleventh listener.
  const ours = AbortSignal.any([signal]);
  let onAbort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(ours.reason);
    if (ours.aborted) onAbort();
    else ours.addEventListener("abort", onAbort, { once: true });
  });
  try {
    return await Promise.race([outcome, aborted]);
  } finally {
    ours.removeEventListener("abort", onAbort);
  }
}

/** What LangGraph says of a task in its config. The task id is the same for every try, process and host: it joins traces. */
function taskAttributes(
  node: string | undefined,
  config: Partial<RunnableConfig> | undefined,
): Record<string, AttributeValue | undefined> {
  // executionInfo is on LangGraph's own config type (1.2 and later) and not on core's; its fields are checked below.
  const { executionInfo } = (config ?? {}) as { executionInfo?: { taskId?: unknown; nodeAttempt?: unknown } };
  return {
    [ATTR.threadId]: textOf(config?.configurable?.["thread_id"]),
    [ATTR.step]: numberOf(config?.metadata?.["langgraph_step"]),
    [ATTR.node]: node,
    [ATTR.taskId]: textOf(executionInfo?.taskId),
    [ATTR.nodeAttempt]: numberOf(executionInfo?.nodeAttempt),
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}
