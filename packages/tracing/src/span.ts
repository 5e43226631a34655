// A span that always ends: around one async function, with errors recorded cleaned and human pauses not recorded as errors.

import {
  type Attributes,
  type AttributeValue,
  type Context,
  context,
  diag,
  type Link,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import type { Gate, GatedError } from "./gate.ts";
import { ATTR } from "./names.ts";
import { PRODUCT } from "./product.ts";
import { contextWithGate, gateOf } from "./span-gate.ts";

export interface SpanOptions {
  /** Default INTERNAL. */
  readonly kind?: SpanKind;
  /** Undefined values are skipped, so that callers need no conditionals. */
  readonly attributes?: Readonly<Record<string, AttributeValue | undefined>>;
  readonly links?: readonly Link[];
  /** Default: the active context. Capture it early where work is queued behind a pool (case F06). */
  readonly parent?: Context;
  /** Starts a new trace whatever is active. */
  readonly root?: true;
  /**
   * What errors pass here and in every span inside, before anyone sees them: with `createGate({ content: "none" })` a span says an
   * error's type and its frames, and no message. Default: the gate of the span around it, else one that redacts.
   */
  readonly gate?: Gate;
}

/** Our instrumentation scope. Exceptions in this scope were recorded by `withSpan`, which already left control flow out. */
export const SCOPE = `${PRODUCT.scope}/tracing`;

/** The tracer of whatever provider is registered now; a no-op tracer when none is. */
export function tracer(): Tracer {
  return trace.getTracer(SCOPE);
}

/**
 * Runs `run` under a new active span and ends the span whatever happens. An error is recorded cleaned (name, message, stack
 * through the gate; never its enumerable properties) with status ERROR, then thrown again as it was. Control flow is no error.
 */
export async function withSpan<T>(name: string, options: SpanOptions, run: (span: Span) => Promise<T> | T): Promise<T> {
  const parent = options.root ? ROOT_CONTEXT : (options.parent ?? context.active());
  const span = start(name, options, parent);
  const inside = contextWithGate(trace.setSpan(parent, span), options.gate);
  try {
    return await context.with(inside, run, undefined, span);
  } catch (error) {
    if (!isControlFlow(error)) recordGated(span, gateOf(inside).error(error));
    throw error;
  } finally {
    end(span);
  }
}

/**
 * Is this a pause or a drain rather than a failure? LangGraph throws GraphInterrupt, Command and the like through every frame;
 * its own predicate is structural (`is_bubble_up`, langgraphjs libs/langgraph-core/src/errors.ts), and so is ours: a plain
 * Error that happens to be named GraphInterrupt is an error (report T17).
 */
export function isControlFlow(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  if ("is_bubble_up" in error && error.is_bubble_up === true) return true;
  return "name" in error && error.name === "GraphDrained";
}

/**
 * Marks a span as failed with a cleaned exception, for errors that are handled where a later throw would not show them. Cleaned
 * by the gate that is active here.
 */
export function recordError(span: Span, error: unknown): void {
  recordGated(span, gateOf().error(error));
}

function recordGated(span: Span, cleaned: GatedError): void {
  span.setAttribute(ATTR.errorType, cleaned.name);
  span.recordException(cleaned);
  span.setStatus({ code: SpanStatusCode.ERROR, message: cleaned.message });
}

/** Attributes without the undefined ones, as OpenTelemetry wants them. */
export function definedAttributes(attributes: Readonly<Record<string, AttributeValue | undefined>>): Attributes {
  const defined: Attributes = {};
  for (const key of Object.keys(attributes)) {
    const value = attributes[key];
    if (value !== undefined) defined[key] = value;
  }
  return defined;
}

// The SDK guards no processor: a foreign one that throws in onStart or onEnd would replace the caller's result or error.
function start(name: string, options: SpanOptions, parent: Context): Span {
  try {
    return tracer().startSpan(
      name,
      {
        kind: options.kind ?? SpanKind.INTERNAL,
        attributes: definedAttributes(options.attributes ?? {}),
        links: [...(options.links ?? [])],
        root: options.root ?? false,
      },
      parent,
    );
  } catch (error) {
    diag.error("a span processor threw while a span started; the work runs without this span", error);
    return trace.wrapSpanContext({ traceId: "0".repeat(32), spanId: "0".repeat(16), traceFlags: 0 });
  }
}

function end(span: Span): void {
  try {
    span.end();
  } catch (error) {
    diag.error("a span processor threw while a span ended; the result of the work stands", error);
  }
}
