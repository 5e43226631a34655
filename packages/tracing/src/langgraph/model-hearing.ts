// Lends a part of a graph the model handler for one call of it, instead of the whole graph.

import type { Callbacks } from "@langchain/core/callbacks/manager";
import type { RunnableConfig } from "@langchain/core/runnables";
import { PRODUCT } from "../product.ts";
import { MODEL_SPAN_HANDLER, ModelSpanHandler } from "./model-handler.ts";

/**
 * Key in a config's `configurable`, which reaches subgraphs too: a function that makes a handler, such as `modelSpanHandler`. Each
 * try of a node and each edge's function of a graph that `traceGraph` has seen then hears its own models. A handler among the
 * callbacks of the whole graph hears as much, but gives each Runnable of LangGraph a callback manager: a tenth of a short run's CPU.
 */
export const MODEL_SPANS = `__${PRODUCT.name}_model_spans`;

const SELF_HEARING = new WeakSet<object>();

/**
 * Says of a node's or edge's function that it calls no model, or lends the handler to its models itself (`hearingModels`): then
 * LangGraph runs it without a callback manager (langgraph-model.test.ts).
 */
export function selfHearing<F extends object>(body: F): F {
  SELF_HEARING.add(body);
  return body;
}

/** LangGraph keeps the function of a node or an edge in its Runnable as `func` (langgraph dist/utils.js, RunnableCallable). */
export function isSelfHearing(runnable: object): boolean {
  return "func" in runnable && typeof runnable.func === "function" && SELF_HEARING.has(runnable.func);
}

/** Calls with a handler in the config where one is asked for and none is there; calls it left open end with it. */
export async function hearingModels<T>(
  config: Partial<RunnableConfig> | undefined,
  call: (config: Partial<RunnableConfig> | undefined) => Promise<T>,
): Promise<T> {
  const make: unknown = config?.configurable?.[MODEL_SPANS];
  if (typeof make !== "function" || isHeard(config?.callbacks)) return call(config);
  const handler: unknown = make();
  if (!(handler instanceof ModelSpanHandler)) return call(config);
  try {
    return await call({ ...config, callbacks: besides(config?.callbacks, handler) });
  } finally {
    await handler.abandonOpen();
  }
}

function isHeard(callbacks: Callbacks | undefined): boolean {
  if (callbacks === undefined) return false;
  const handlers = Array.isArray(callbacks) ? callbacks : callbacks.handlers;
  return handlers.some((handler) => "name" in handler && handler.name === MODEL_SPAN_HANDLER);
}

function besides(callbacks: Callbacks | undefined, handler: ModelSpanHandler): Callbacks {
  if (callbacks === undefined) return [handler];
  return Array.isArray(callbacks) ? [...callbacks, handler] : callbacks.copy([handler]);
}
