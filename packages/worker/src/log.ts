// Structured logs on stdout, each line with the ids of the delivery and of the trace it belongs to.
import { AsyncLocalStorage } from "node:async_hooks";
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

/** What every line of a delivery says; `runId` and `threadId` as soon as its message was read. */
export interface DeliveryIds {
  readonly deliveryId: string;
  readonly runId?: string;
  readonly threadId?: string;
}

// The process's own storage, like OpenTelemetry's context: it holds nothing but what is inside `run`.
const current = new AsyncLocalStorage<{ ids: DeliveryIds }>();

/** Runs `work`, and whatever it starts, as part of a delivery. */
export function logAsDelivery<T>(deliveryId: string, work: () => T): T {
  return current.run({ ids: { deliveryId } }, work);
}

/** The message has said whose run it is: the lines from here on say so, too. */
export function logAsRun(run: { readonly runId: string; readonly threadId: string }): void {
  const delivery = current.getStore();
  if (delivery !== undefined) delivery.ids = { ...delivery.ids, runId: run.runId, threadId: run.threadId };
}

/**
 * Adds the ids to each line of `log`, a user's own logger too. Fields that the line itself gives win: a line about another
 * delivery (an obituary) names that one. Without a tracing SDK there are no trace ids.
 */
export function withIds(log: Logger): Logger {
  return {
    debug: (fields, text) => log.debug({ ...idFields(), ...fields }, text),
    info: (fields, text) => log.info({ ...idFields(), ...fields }, text),
    warn: (fields, text) => log.warn({ ...idFields(), ...fields }, text),
    error: (fields, text) => log.error({ ...idFields(), ...fields }, text),
  };
}

function idFields(): Readonly<Record<string, string>> {
  const span = trace.getActiveSpan()?.spanContext();
  const ids = current.getStore()?.ids;
  return {
    ...(span !== undefined && isSpanContextValid(span) ? { trace_id: span.traceId, span_id: span.spanId } : {}),
    ...(ids === undefined ? {} : { delivery_id: ids.deliveryId }),
    ...(ids?.runId === undefined ? {} : { run_id: ids.runId }),
    ...(ids?.threadId === undefined ? {} : { thread_id: ids.threadId }),
  };
}
