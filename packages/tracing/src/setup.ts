// One call that sets tracing up: SDK, sampler, gate, exporters and the instrumentations whose spans nest under ours.

import { syncBuiltinESMExports } from "node:module";
import { diag } from "@opentelemetry/api";
import { ExportResultCode, getBooleanFromEnv, getStringListFromEnv } from "@opentelemetry/core";
import { type Instrumentation, registerInstrumentations } from "@opentelemetry/instrumentation";
import { defaultResource, type Resource, resourceFromAttributes } from "@opentelemetry/resources";
import type { NodeSDK, NodeSDKConfiguration } from "@opentelemetry/sdk-node";
import type { SpanExporter } from "@opentelemetry/sdk-trace-base";
import { createGate, type GateOptions } from "./gate.ts";
import { observeTail } from "./metrics.ts";
import { type LostDelivery, obituarySpans } from "./obituary.ts";
import { KeepRecordingSampler } from "./sampler.ts";
import { standardExporter, standardSampling } from "./setup-exporter.ts";
import { loadNow } from "./setup-load.ts";
import { isTraceUpload } from "./setup-uploads.ts";
import { TailSamplingProcessor } from "./tail-sampler.ts";
import type { TailOptions } from "./tail-sampler-options.ts";

export interface TracingOptions {
  /** Default: what `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` say. */
  readonly serviceName?: string;
  /** Added to the detected resource. */
  readonly resourceAttributes?: Readonly<Record<string, string>>;
  readonly gate?: GateOptions;
  /** What it leaves out of queue and batches, `OTEL_BSP_*` may say. */
  readonly sampling?: TailOptions;
  /** Default: OTLP over HTTP as JSON, configured by `OTEL_EXPORTER_OTLP_*`, the protocol too. */
  readonly exporter?: SpanExporter;
  /**
   * Where metrics go. Default: what `OTEL_METRICS_EXPORTER` says (`otlp` when it says nothing, `console`, `prometheus`, `none`),
   * every `OTEL_METRIC_EXPORT_INTERVAL`. An empty array exports none.
   */
  readonly metricReaders?: NonNullable<NodeSDKConfiguration["metricReaders"]>;
  /** Beside fetch, http, pg and the AWS SDK; these may also record metrics of their own. */
  readonly instrumentations?: readonly Instrumentation[];
}

export interface Tracing {
  readonly tail: TailSamplingProcessor;
  /** Sends the trace of a lost delivery past the sampler. Rejects with a `TracingError` when it did not arrive; repeating is safe. */
  exportObituary(lost: LostDelivery): Promise<void>;
  /** Sends what is kept so far; forces no verdict. */
  forceFlush(): Promise<void>;
  /**
   * Flushes and closes within `budgetMs`; what did not arrive by then is lost. Never rejects and never takes longer. `flushed`
   * says that nothing is pending; what a collector refused is in `tail.stats().spansDropped.export_failed`.
   */
  shutdown(budgetMs: number): Promise<"flushed" | "timed_out">;
}

/**
 * Starts tracing for this process. The SDK reads the standard `OTEL_*` variables itself (also `OTEL_SDK_DISABLED`). It installs
 * no signal handler: whoever drains the process calls `shutdown`, and exits by `process.exit` when that timed out: an export
 * that still waits keeps Node alive for up to ten seconds. Import the module that calls `startTracing` before `pg` and
 * `@aws-sdk/*`: what is loaded earlier is not instrumented.
 * With an OpenTelemetry SDK of your own leave this alone and register `KeepRecordingSampler` and `TailSamplingProcessor` there.
 */
export function startTracing(options: TracingOptions = {}): Tracing {
  if (getBooleanFromEnv("OTEL_SDK_DISABLED") === true) return tracingOff(options);
  const exporter = options.exporter ?? standardExporter();
  if (exporter === undefined) return metricsAlone(options);
  const tail = new TailSamplingProcessor(exporter, createGate(options.gate), {
    ...standardSampling(),
    ...options.sampling,
  });
  // Registered here and not through the SDK, which would make each HTTP request and query a measurement as well.
  registerInstrumentations({ instrumentations: standardInstrumentations() });
  const sdk = newSdk(options, { spanProcessors: [tail], instrumentations: [...(options.instrumentations ?? [])] });
  sdk.start();
  reachBuiltins();
  observeTail(tail);
  return {
    tail,
    exportObituary: (lost) => tail.exportNow(obituarySpans(lost, tail.resource())),
    forceFlush: () => tail.forceFlush(),
    shutdown: (budgetMs) => withinBudget(sdk.shutdown(), budgetMs),
  };
}

function newSdk(
  options: TracingOptions,
  traces: Pick<Partial<NodeSDKConfiguration>, "spanProcessors" | "instrumentations">,
): NodeSDK {
  return new (loadNow("@opentelemetry/sdk-node").NodeSDK)({
    ...(options.serviceName === undefined ? {} : { serviceName: options.serviceName }),
    ...resourceOption(options.resourceAttributes),
    sampler: new KeepRecordingSampler(),
    ...metricsOption(options),
    // Left out, the SDK would start an exporter for logs that nobody asked for.
    logRecordProcessors: [],
    // The SDK's own cut splits surrogates and runs before any redaction (facts/tracing section 0.11).
    spanLimits: { attributeValueLengthLimit: Number.POSITIVE_INFINITY },
    ...traces,
  });
}

/**
 * Without readers of ours the SDK makes them from the environment, with OTLP where that is silent. A program that sends its
 * spans elsewhere by code may have no collector at all, so there the environment has to ask for metrics.
 */
function metricsOption(options: TracingOptions): Pick<Partial<NodeSDKConfiguration>, "metricReaders"> {
  if (options.metricReaders !== undefined) return { metricReaders: options.metricReaders };
  const asked = (getStringListFromEnv("OTEL_METRICS_EXPORTER") ?? []).length > 0;
  return asked || options.exporter === undefined ? {} : { metricReaders: [] };
}

/** `OTEL_TRACES_EXPORTER=none`: no span is made, obituaries are not sent, and metrics go where the environment says. */
function metricsAlone(options: TracingOptions): Tracing {
  const sdk = newSdk(options, { spanProcessors: [] });
  sdk.start();
  return { ...tracingOff(options), shutdown: (budgetMs) => withinBudget(sdk.shutdown(), budgetMs) };
}

/** Nothing is registered and nothing is sent, obituaries neither; the callers need no conditionals. */
function tracingOff(options: TracingOptions): Tracing {
  const silent: SpanExporter = {
    export: (_spans, done) => done({ code: ExportResultCode.SUCCESS }),
    shutdown: () => Promise.resolve(),
  };
  const tail = new TailSamplingProcessor(silent, createGate(options.gate), options.sampling);
  return {
    tail,
    exportObituary: () => Promise.resolve(),
    forceFlush: () => Promise.resolve(),
    shutdown: async () => {
      await tail.shutdown();
      return "flushed";
    },
  };
}

function resourceOption(attributes: Readonly<Record<string, string>> | undefined): { readonly resource?: Resource } {
  return attributes === undefined ? {} : { resource: defaultResource().merge(resourceFromAttributes(attributes)) };
}

/**
 * The require hook patches `node:http` when CommonJS asks for it; ESM importers, earlier ones too, then see the patched
 * functions through their live bindings. So neither fetch, http, pg nor the AWS SDK needs the loader hook (setup.real.test.ts).
 */
function reachBuiltins(): void {
  loadNow("node:http");
  loadNow("node:https");
  syncBuiltinESMExports();
}

/** Spans only under a span of ours: polling and pool upkeep outside a run make none. */
function standardInstrumentations(): Instrumentation[] {
  const { UndiciInstrumentation } = loadNow("@opentelemetry/instrumentation-undici");
  const { HttpInstrumentation } = loadNow("@opentelemetry/instrumentation-http");
  const { PgInstrumentation } = loadNow("@opentelemetry/instrumentation-pg");
  const { AwsInstrumentation } = loadNow("@opentelemetry/instrumentation-aws-sdk");
  return [
    new UndiciInstrumentation({ requireParentforSpans: true, ignoreRequestHook: isTraceUpload }),
    new HttpInstrumentation({ requireParentforOutgoingSpans: true, requireParentforIncomingSpans: true }),
    // With `ignoreConnectSpans` a query that waited for a pool would run in the context of whoever gave the client back (F06).
    new PgInstrumentation({ requireParentSpan: true }),
    // Its own HTTP requests would stand as a second span under each call.
    new AwsInstrumentation({ suppressInternalInstrumentation: true }),
  ];
}

async function withinBudget(work: Promise<void>, budgetMs: number): Promise<"flushed" | "timed_out"> {
  let timer: NodeJS.Timeout | undefined;
  const budget = new Promise<"timed_out">((resolve) => {
    timer = setTimeout(() => resolve("timed_out"), budgetMs);
  });
  const flushed = work.then(
    () => "flushed" as const,
    (error: unknown) => {
      diag.warn("tracing: shutdown failed", error);
      return "timed_out" as const;
    },
  );
  try {
    return await Promise.race([flushed, budget]);
  } finally {
    clearTimeout(timer);
  }
}
