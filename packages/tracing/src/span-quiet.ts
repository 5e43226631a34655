// Work that leaves no spans, whoever instruments it: polls that bring nothing are no part of any trace.

import { context, ROOT_CONTEXT } from "@opentelemetry/api";
import { suppressTracing } from "@opentelemetry/core";

const QUIET = suppressTracing(ROOT_CONTEXT);

/** Runs `run` outside any trace, with every span of its context suppressed. What it resolves to goes on in the caller's context. */
export function withoutSpans<T>(run: () => T): T {
  return context.with(QUIET, run);
}
