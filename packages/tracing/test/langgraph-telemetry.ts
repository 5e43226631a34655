// An in-memory OpenTelemetry for the LangGraph tests: every ended span in a list, and a check that none stayed open.

import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  type Span,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, afterEach, expect } from "vitest";

export interface Telemetry {
  /** Ended spans in the order they ended, of one name or all. */
  readonly spans: (name?: string) => ReadableSpan[];
  /** The one span of that name; fails when there is none or more. */
  readonly only: (name: string) => ReadableSpan;
  /** Spans that have begun and not ended. */
  readonly open: () => readonly string[];
}

/** Registers provider and context manager for one test file; after each test no span may be open and the list is emptied. */
export function recordTelemetry(): Telemetry {
  const exporter = new InMemorySpanExporter();
  const open = new Map<string, string>();
  const watch = {
    onStart: (span: Span) => void open.set(span.spanContext().spanId, span.name),
    onEnd: (span: ReadableSpan) => void open.delete(span.spanContext().spanId),
    forceFlush: async () => {},
    shutdown: async () => {},
  };
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter), watch] });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(provider);
  afterEach(() => {
    const left = [...open.values()];
    open.clear();
    exporter.reset();
    expect(left, "spans left open").toEqual([]);
  });
  afterAll(async () => {
    await provider.shutdown();
    trace.disable();
    context.disable();
  });
  const spans = (name?: string) =>
    exporter.getFinishedSpans().filter((span) => name === undefined || span.name === name);
  return {
    spans,
    only(name) {
      const found = spans(name);
      expect(found.map((span) => span.name)).toEqual([name]);
      // The line above has failed already when there is not exactly one.
      return found[0] as ReadableSpan;
    },
    open: () => [...open.values()],
  };
}

/** The id of a span's parent, whatever the SDK line calls it. */
export function parentId(span: ReadableSpan): string | undefined {
  return span.parentSpanContext?.spanId;
}
