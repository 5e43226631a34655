// Structured logs on stdout, each line with the ids of the delivery and of the trace it belongs to.
import { isSpanContextValid, trace } from "@opentelemetry/api";
import { PRODUCT } from "@reprise/tracing";
import pino from "pino";

export interface Logger {
  debug(fields: Readonly<Record<string, unknown>>, text: string): void;
  info(fields: Readonly<Record<string, unknown>>, text: string): void;
  warn(fields: Readonly<Record<string, unknown>>, text: string): void;
  error(fields: Readonly<Record<string, unknown>>, text: string): void;
}

export function createLogger(level: string): Logger {
  return pino({ level, base: { service: PRODUCT.name } });
}

/** The log of one delivery: each line says whose it is. */
export interface DeliveryLogger extends Logger {
  /** The message was read: the lines from here on name its run, too. */
  ofRun(run: { readonly runId: string; readonly threadId: string }): void;
}

/** Handed along with the delivery and not in an AsyncLocalStorage, which costs every await of the process. */
export function deliveryLog(log: Logger, deliveryId: string): DeliveryLogger {
  let ids: Readonly<Record<string, string>> = { delivery_id: deliveryId };
  return {
    ...withFields(log, () => ids),
    ofRun: ({ runId, threadId }) => {
      ids = { delivery_id: deliveryId, run_id: runId, thread_id: threadId };
    },
  };
}

/** Adds the ids of the active trace to each line of `log`, a user's own logger too. Without a tracing SDK there are none. */
export function withTraceIds(log: Logger): Logger {
  return withFields(log, traceIds);
}

/** Fields that a line itself gives win: one about another delivery (an obituary) names that one. */
function withFields(log: Logger, more: () => Readonly<Record<string, string>>): Logger {
  return {
    debug: (fields, text) => log.debug({ ...more(), ...fields }, text),
    info: (fields, text) => log.info({ ...more(), ...fields }, text),
    warn: (fields, text) => log.warn({ ...more(), ...fields }, text),
    error: (fields, text) => log.error({ ...more(), ...fields }, text),
  };
}

function traceIds(): Readonly<Record<string, string>> {
  const span = trace.getActiveSpan()?.spanContext();
  return span !== undefined && isSpanContextValid(span) ? { trace_id: span.traceId, span_id: span.spanId } : {};
}
