// OpenTelemetry for a benchmark: real spans, the tail sampler, an exporter that only counts.

import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider, type SpanExporter, type SpanProcessor } from "@opentelemetry/sdk-trace-base";
import { createGate, KeepRecordingSampler, TailSamplingProcessor } from "@reprise/tracing";

export interface CountingExporter extends SpanExporter {
  readonly exported: () => number;
}

/** Takes every batch at once and keeps nothing of it. */
export function countingExporter(): CountingExporter {
  let exported = 0;
  return {
    exported: () => exported,
    export: (spans, done) => {
      exported += spans.length;
      // SUCCESS of ExportResultCode, which @opentelemetry/core would have to be a dependency for.
      done({ code: 0 });
    },
    shutdown: async () => undefined,
    forceFlush: async () => undefined,
  };
}

export function providerOf(spanProcessors: readonly SpanProcessor[]): BasicTracerProvider {
  return new BasicTracerProvider({ sampler: new KeepRecordingSampler(), spanProcessors: [...spanProcessors] });
}

/** Runs `work` with a registered provider as a worker has it, share 5 %, and takes it away again. */
export async function withTelemetry<T>(work: () => Promise<T>): Promise<T> {
  const provider = providerOf([new TailSamplingProcessor(countingExporter(), createGate())]);
  const manager = new AsyncLocalStorageContextManager().enable();
  context.setGlobalContextManager(manager);
  trace.setGlobalTracerProvider(provider);
  try {
    return await work();
  } finally {
    trace.disable();
    context.disable();
    await provider.shutdown();
  }
}
