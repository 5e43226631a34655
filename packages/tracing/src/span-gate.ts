// The gate that errors pass on their way into a span: carried in the context, so that a run's own reaches whatever it calls.

import { type Context, context, createContextKey } from "@opentelemetry/api";
import { createGate, type Gate } from "./gate.ts";
import { PRODUCT } from "./product.ts";

// In the OpenTelemetry context and not in an AsyncLocalStorage of our own, which costs every await of the process.
const KEY = createContextKey(`${PRODUCT.scope}/tracing gate`);

// Errors are cleaned at source and not only at export: a user's own SDK may export these spans without our processor.
const DEFAULT: Gate = createGate();

export function contextWithGate(parent: Context, gate: Gate | undefined): Context {
  return gate === undefined ? parent : parent.setValue(KEY, gate);
}

/** The nearest one around; without any, one that redacts. */
export function gateOf(around: Context = context.active()): Gate {
  // Nobody else has this key.
  return (around.getValue(KEY) as Gate | undefined) ?? DEFAULT;
}
