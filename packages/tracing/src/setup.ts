// One call that sets tracing up: SDK, sampler, gate, exporter and the instrumentations whose spans nest under ours.

import { syncBuiltinESMExports } from "node:module";
import { diag } from "@opentelemetry/api";
import { ExportResultCode, getBooleanFromEnv, getStringListFromEnv } from "@opentelemetry/core";
import type { Instrumentation } from "@opentelemetry/instrumentation";
import { defaultResource, type Resource, resourceFromAttributes } from "@opentelemetry/resources";
import { ConsoleSpanExporter, type SpanExporter } from "@opentelemetry/sdk-trace-base";
import { createGate, type GateOptions } from "./gate.ts";
import { type LostDelivery, obituarySpans } from "./obituary.ts";
import { KeepRecordingSampler } from "./sampler.ts";
import { loadNow } from "./setup-load.ts";
import { TailSamplingProcessor } from "./tail-sampler.ts";
import type { TailOptions } from "./tail-sampler-options.ts";

export interface TracingOptions {
  /** Default: what `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` say. */
  readonly serviceName?: string;
  /** Added to the detected resource. */
  readonly resourceAttributes?: Readonly<Record<string, string>>;
  readonly gate?: GateOptions;
  readonly sampling?: TailOptions;
  /** Default: OTLP over HTTP as JSON, configured by `OTEL_EXPORTER_OTLP_*`. */
  readonly exporter?: SpanExporter;
  /** Beside fetch, http, pg and the AWS SDK. */
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
  const exporter = options.exporter ?? standardExporter();
  const off = exporter === undefined || getBooleanFromEnv("OTEL_SDK_DISABLED") === true;
  if (off) return tracingOff(options);
  const tail = new TailSamplingProcessor(exporter, createGate(options.gate), options.sampling);
  const sdk = new (loadNow("@opentelemetry/sdk-node").NodeSDK)({
    ...(options.serviceName === undefined ? {} : { serviceName: options.serviceName }),
    ...resourceOption(options.resourceAttributes),
    sampler: new KeepRecordingSampler(),
    spanProcessors: [tail],
    // Left out, the SDK would start exporters for metrics and logs that nobody asked for.
    metricReaders: [],
    logRecordProcessors: [],
    // The SDK's own cut splits surrogates and runs before any redaction (facts/tracing section 0.11).
    spanLimits: { attributeValueLengthLimit: Number.POSITIVE_INFINITY },
    instrumentations: [...standardInstrumentations(), ...(options.instrumentations ?? [])],
  });
  sdk.start();
  reachBuiltins();
  return {
    tail,
    exportObituary: (lost) => tail.exportNow(obituarySpans(lost, tail.resource())),
    forceFlush: () => tail.forceFlush(),
    shutdown: (budgetMs) => withinBudget(sdk.shutdown(), budgetMs),
  };
}

/** `OTEL_TRACES_EXPORTER` is read by the SDK only when it builds the processors, so it is honoured here. Undefined: none wanted. */
function standardExporter(): SpanExporter | undefined {
  const wanted = getStringListFromEnv("OTEL_TRACES_EXPORTER") ?? [];
  if (wanted.includes("none")) return undefined;
  if (wanted.length === 1 && wanted[0] === "console") return new ConsoleSpanExporter();
  if (wanted.some((name) => name !== "otlp")) {
    diag.warn(
      `tracing: OTEL_TRACES_EXPORTER is "${wanted.join(",")}", known are otlp, console and none; taken as otlp`,
    );
  }
  return new (loadNow("@opentelemetry/exporter-trace-otlp-http").OTLPTraceExporter)();
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
    new UndiciInstrumentation({ requireParentforSpans: true }),
    new HttpInstrumentation({ requireParentforOutgoingSpans: true, requireParentforIncomingSpans: true }),
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
