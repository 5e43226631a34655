// A span with two ends in different functions: for generators and callbacks, which cannot be one call of withSpan.

import { INVALID_SPAN_CONTEXT, type Span, trace } from "@opentelemetry/api";
import { type SpanOptions, withSpan } from "../span.ts";

/** A span that somebody else will end. Ending it twice does nothing. */
export interface OpenSpan {
  readonly span: Span;
  /** Ends the span; with a failure, the error is recorded first. Resolves when the span has ended. Never rejects. */
  readonly end: (failure?: { readonly error: unknown }) => Promise<void>;
}

/**
 * Starts a span through withSpan, so that cleaning of errors, control flow and the guard against processors that throw are
 * the same as everywhere. The span is NOT active for the caller: put it into a context where that is wanted.
 */
export function openSpan(name: string, options: SpanOptions): OpenSpan {
  let finish: (failure?: { readonly error: unknown }) => void = () => {};
  const finished = new Promise<void>((resolve, reject) => {
    finish = (failure) => (failure === undefined ? resolve() : reject(failure.error));
  });
  let span: Span = trace.wrapSpanContext(INVALID_SPAN_CONTEXT);
  // withSpan calls us before its first await, so the span is there when it returns.
  const ended = withSpan(name, options, (started) => {
    span = started;
    return finished;
  }).catch(() => {
    // The failure is already recorded on the span; it is thrown to its own caller by whoever saw it first.
  });
  return {
    span,
    end: (failure) => {
      finish(failure);
      return ended;
    },
  };
}
