// Loads the SDK and the instrumentations when tracing starts, not when this package is imported.

import { createRequire } from "node:module";
import type { SpanExporter } from "@opentelemetry/sdk-trace-base";

interface Loadable {
  readonly "@opentelemetry/sdk-node": typeof import("@opentelemetry/sdk-node");
  readonly "@opentelemetry/exporter-trace-otlp-http": typeof import("@opentelemetry/exporter-trace-otlp-http");
  readonly "@opentelemetry/instrumentation-undici": typeof import("@opentelemetry/instrumentation-undici");
  readonly "@opentelemetry/instrumentation-http": typeof import("@opentelemetry/instrumentation-http");
  readonly "@opentelemetry/instrumentation-pg": typeof import("@opentelemetry/instrumentation-pg");
  readonly "@opentelemetry/instrumentation-aws-sdk": typeof import("@opentelemetry/instrumentation-aws-sdk");
  readonly "node:http": typeof import("node:http");
  readonly "node:https": typeof import("node:https");
}

/** What the SDK brings with it: its own versions, so that nothing is there twice. */
interface LoadableOfSdk {
  readonly "@opentelemetry/exporter-trace-otlp-proto": { readonly OTLPTraceExporter: new () => SpanExporter };
  readonly "@opentelemetry/exporter-trace-otlp-grpc": { readonly OTLPTraceExporter: new () => SpanExporter };
}

const require = createRequire(import.meta.url);

/**
 * The SDK brings every exporter with it and takes a few hundred milliseconds to load; a service with an SDK of its own, or a
 * test, imports this package without paying that. All of these are CommonJS, so loading them is synchronous.
 */
export function loadNow<K extends keyof Loadable>(name: K): Loadable[K] {
  // require is untyped; the table above says what each name is.
  return require(name) as Loadable[K];
}

export function loadOfSdk<K extends keyof LoadableOfSdk>(name: K): LoadableOfSdk[K] {
  // Untyped as above.
  return createRequire(require.resolve("@opentelemetry/sdk-node"))(name) as LoadableOfSdk[K];
}
