// Which exporter the standard variables ask for, and what they say about batches: the SDK reads these only for processors of its own.

import { diag } from "@opentelemetry/api";
import { getNumberFromEnv, getStringFromEnv, getStringListFromEnv } from "@opentelemetry/core";
import { ConsoleSpanExporter, type SpanExporter } from "@opentelemetry/sdk-trace-base";
import { loadNow, loadOfSdk } from "./setup-load.ts";
import type { TailOptions } from "./tail-sampler-options.ts";

/** `OTEL_TRACES_EXPORTER`: otlp when it says nothing, console, or none. Undefined: none wanted. */
export function standardExporter(): SpanExporter | undefined {
  const wanted = getStringListFromEnv("OTEL_TRACES_EXPORTER") ?? [];
  if (wanted.includes("none")) return undefined;
  if (wanted.length === 1 && wanted[0] === "console") return new ConsoleSpanExporter();
  if (wanted.some((name) => name !== "otlp")) {
    diag.warn(
      `tracing: OTEL_TRACES_EXPORTER is "${wanted.join(",")}", known are otlp, console and none; taken as otlp`,
    );
  }
  return otlpExporter();
}

/** `OTEL_EXPORTER_OTLP_PROTOCOL`, the one for traces first. JSON when it says nothing: every collector takes it, and people can read it. */
function otlpExporter(): SpanExporter {
  const protocol =
    getStringFromEnv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") ?? getStringFromEnv("OTEL_EXPORTER_OTLP_PROTOCOL");
  switch (protocol) {
    case "http/protobuf":
      return new (loadOfSdk("@opentelemetry/exporter-trace-otlp-proto").OTLPTraceExporter)();
    case "grpc":
      return new (loadOfSdk("@opentelemetry/exporter-trace-otlp-grpc").OTLPTraceExporter)();
    default:
      if (protocol !== undefined && protocol !== "http/json") {
        diag.warn(
          `tracing: the OTLP protocol is "${protocol}", known are http/json, http/protobuf and grpc; taken as http/json`,
        );
      }
      return new (loadNow("@opentelemetry/exporter-trace-otlp-http").OTLPTraceExporter)();
  }
}

/** `OTEL_BSP_*`, where they are positive numbers. The batch size is the sampler's own: its queue hands over in chunks of it. */
export function standardSampling(): TailOptions {
  const scheduledDelayMs = positive("OTEL_BSP_SCHEDULE_DELAY");
  const exportTimeoutMs = positive("OTEL_BSP_EXPORT_TIMEOUT");
  const maxQueuedSpans = positive("OTEL_BSP_MAX_QUEUE_SIZE");
  return {
    ...(scheduledDelayMs === undefined ? {} : { scheduledDelayMs }),
    ...(exportTimeoutMs === undefined ? {} : { exportTimeoutMs }),
    ...(maxQueuedSpans === undefined ? {} : { maxQueuedSpans }),
  };
}

function positive(name: string): number | undefined {
  const value = getNumberFromEnv(name);
  return value === undefined || !(value >= 1 && value <= 2_147_483_647) ? undefined : value;
}
