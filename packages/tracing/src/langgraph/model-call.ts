// A span around a model call whose caller we are, and the mark by which callbacks know that such a span is open.

import { context, createContextKey, type Span } from "@opentelemetry/api";
import { ATTR, EVENT, SPAN } from "../names.ts";
import { definedAttributes, withSpan } from "../span.ts";
import { responseAttributes } from "./model-response.ts";
import type { ModelStream } from "./model-stream.ts";

/** An open model span, whoever opened it. */
export interface ModelSpan {
  readonly span: Span;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  ended: boolean;
}

const MODEL_SPAN = createContextKey("model span");

export interface ModelCallOptions {
  /** Epoch milliseconds. Default: the monotonic clock; use the same clock as the handler's. */
  readonly now?: () => number;
}

/**
 * Runs a model call under an active span `model:<name>`, so that its HTTP spans are children. Usage, response model, id and finish
 * reason are read from the AIMessage that `run` returns. Add `modelSpanHandler()` to the call's callbacks for the events of a
 * streamed answer; it then opens no second span.
 */
export async function traceModelCall<T>(
  model: string,
  run: () => Promise<T>,
  options: ModelCallOptions = {},
): Promise<T> {
  return withSpan(SPAN.model(model), { attributes: requestAttributes(model) }, async (span) => {
    const mark: ModelSpan = { span, startedAt: (options.now ?? steadyNow)(), ended: false };
    try {
      const answer = await context.with(context.active().setValue(MODEL_SPAN, mark), run);
      span.setAttributes(definedAttributes(responseAttributes(answer)));
      return answer;
    } finally {
      mark.ended = true;
    }
  });
}

export function requestAttributes(model: string): Record<string, string> {
  return { [ATTR.genAiOperation]: "chat", [ATTR.requestModel]: model };
}

/** The span of traceModelCall that is open around us, if one is. */
export function activeModelSpan(): ModelSpan | undefined {
  // Only traceModelCall writes this key.
  const mark = context.active().getValue(MODEL_SPAN) as ModelSpan | undefined;
  return mark?.ended ? undefined : mark;
}

/** Event and attribute for the first chunk. An attribute too, because a span keeps the newest 128 events and not the first. */
export function recordFirstChunk(model: ModelSpan, at: number): void {
  model.span.addEvent(EVENT.firstToken, {}, dateOf(at));
  model.span.setAttribute(ATTR.timeToFirstChunk, (at - model.startedAt) / 1000);
}

/** One event for each tool call whose arguments have arrived, at the time they had. Names and ids, never arguments. */
export function recordToolCalls(model: ModelSpan, stream: ModelStream, answer: "ended" | "broken"): void {
  for (const { id, name, completedAt } of stream.completed(answer)) {
    const attributes = definedAttributes({ [ATTR.toolCallId]: id, [ATTR.toolName]: name });
    model.span.addEvent(EVENT.toolCallComplete, attributes, dateOf(completedAt));
  }
}

/** Epoch milliseconds from the monotonic clock: a step of the wall clock must not make a time to the first chunk negative. */
export function steadyNow(): number {
  return performance.timeOrigin + performance.now();
}

// OpenTelemetry takes a plain number for either an epoch or an offset, by its size; a Date is always an epoch.
function dateOf(epochMs: number): Date {
  return new Date(epochMs);
}
