// A provider with the tail sampler in front of memory, under a clock that only moves when told: shared by the tail sampler's tests.

import {
  context,
  ROOT_CONTEXT,
  type Span,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { ExportResultCode } from "@opentelemetry/core";
import { BasicTracerProvider, type ReadableSpan, type SpanExporter } from "@opentelemetry/sdk-trace-base";
import { createGate } from "../src/gate.ts";
import { KeepRecordingSampler } from "../src/sampler.ts";
import { TailSamplingProcessor } from "../src/tail-sampler.ts";
import type { TailClock, TailOptions } from "../src/tail-sampler-options.ts";

export class FakeClock implements TailClock {
  #now = 0;
  #timers: { readonly at: number; readonly callback: () => void }[] = [];
  readonly contexts: unknown[] = [];

  now(): number {
    return this.#now;
  }
  after(delayMs: number, callback: () => void): () => void {
    const timer = { at: this.#now + delayMs, callback };
    this.contexts.push(context.active());
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }
  get armed(): number {
    return this.#timers.length;
  }
  advance(ms: number): void {
    const until = this.#now + ms;
    for (;;) {
      const due = this.#timers.filter((timer) => timer.at <= until).sort((left, right) => left.at - right.at)[0];
      if (due === undefined) break;
      this.#timers = this.#timers.filter((timer) => timer !== due);
      this.#now = Math.max(this.#now, due.at);
      due.callback();
    }
    this.#now = until;
  }
}

export class MemoryExporter implements SpanExporter {
  readonly spans: ReadableSpan[] = [];
  readonly batches: number[] = [];
  export(spans: ReadableSpan[], done: (result: { code: ExportResultCode }) => void): void {
    this.spans.push(...spans);
    this.batches.push(spans.length);
    done({ code: ExportResultCode.SUCCESS });
  }
  async shutdown(): Promise<void> {}
}

export interface Harness {
  readonly tail: TailSamplingProcessor;
  readonly clock: FakeClock;
  readonly tracer: Tracer;
  readonly exporter: MemoryExporter;
  /** A span under `parent` (none: a new root), at the fake clock's time. */
  start(name: string, parent?: Span, options?: SpanOptions): Span;
  end(span: Span): void;
  fail(span: Span): void;
  /** Names exported so far, after a flush. */
  exported(): Promise<readonly string[]>;
}

export function harness(options: TailOptions = {}, exporter: SpanExporter = new MemoryExporter()): Harness {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const clock = new FakeClock();
  const tail = new TailSamplingProcessor(exporter, createGate(), { share: 0, clock, ...options });
  const provider = new BasicTracerProvider({ sampler: new KeepRecordingSampler(), spanProcessors: [tail] });
  const tracer = provider.getTracer("test");
  const epoch = 1_764_547_200_000;
  const end = (span: Span): void => span.end(epoch + clock.now());
  // Tests that bring their own exporter look at it themselves.
  const memory = exporter instanceof MemoryExporter ? exporter : new MemoryExporter();
  return {
    tail,
    clock,
    tracer,
    exporter: memory,
    start: (name, parent, more = {}) =>
      tracer.startSpan(
        name,
        { startTime: epoch + clock.now(), ...more },
        parent === undefined ? ROOT_CONTEXT : trace.setSpan(ROOT_CONTEXT, parent),
      ),
    end,
    fail: (span) => {
      span.setStatus({ code: SpanStatusCode.ERROR });
      end(span);
    },
    exported: async () => {
      await tail.forceFlush();
      return memory.spans.map((span) => span.name);
    },
  };
}

export function reasonsOf(exporter: MemoryExporter): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    exporter.spans
      .filter((span) => "sampling.reason" in span.attributes)
      .map((span) => [span.name, span.attributes["sampling.reason"]]),
  );
}
