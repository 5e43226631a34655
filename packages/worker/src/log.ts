// Structured logs on stdout, each line with the ids of the trace it belongs to.
import { trace } from "@opentelemetry/api";
import { PRODUCT } from "@reprise/tracing";
import pino from "pino";

export interface Logger {
  debug(fields: Readonly<Record<string, unknown>>, text: string): void;
  info(fields: Readonly<Record<string, unknown>>, text: string): void;
  warn(fields: Readonly<Record<string, unknown>>, text: string): void;
  error(fields: Readonly<Record<string, unknown>>, text: string): void;
}

export function createLogger(level: string): Logger {
  return pino({
    level,
    base: { service: PRODUCT.name },
    mixin: () => {
      const span = trace.getActiveSpan()?.spanContext();
      return span === undefined ? {} : { trace_id: span.traceId, span_id: span.spanId };
    },
  });
}
