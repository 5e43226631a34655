// Proves the structured log: each line of a delivery names it, its run, its thread and its trace; other lines do not.
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { BasicTracerProvider } from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, expect, test } from "vitest";
import { deliveryLog, type Logger, withTraceIds } from "../src/log.ts";

const provider = new BasicTracerProvider();
beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(provider);
});
afterAll(() => {
  trace.disable();
  context.disable();
});

interface Line {
  readonly level: string;
  readonly text: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

function recorder(): { readonly log: Logger; readonly lines: Line[] } {
  const lines: Line[] = [];
  const at =
    (level: string) =>
    (fields: Readonly<Record<string, unknown>>, text: string): void => {
      lines.push({ level, text, fields });
    };
  return { lines, log: withTraceIds({ debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") }) };
}

const later = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1));

test("every line inside a delivery carries its ids, over awaits, timers and levels, beside other deliveries", async () => {
  const { log, lines } = recorder();
  const tracer = trace.getTracer("test");
  const deliver = (number: number): Promise<void> =>
    tracer.startActiveSpan(`delivery ${number}`, async (span) => {
      const own = deliveryLog(log, `d${number}`);
      own.debug({ number, spanId: span.spanContext().spanId }, "before the message was read");
      await later();
      own.ofRun({ runId: `r${number}`, threadId: `t${number}` });
      for (const level of ["debug", "info", "warn", "error"] as const) {
        await later();
        own[level]({ number, spanId: span.spanContext().spanId }, level);
      }
      setTimeout(() => own.warn({ number, spanId: span.spanContext().spanId }, "a beat failed"), 1);
      await later();
      await later();
      span.end();
    });
  await Promise.all(Array.from({ length: 50 }, (_, number) => deliver(number)));
  expect(lines).toHaveLength(50 * 6);
  for (const { text, fields } of lines) {
    expect(fields["span_id"]).toBe(fields["spanId"]);
    expect(fields["trace_id"]).toMatch(/^[0-9a-f]{32}$/);
    expect(fields["delivery_id"]).toBe(`d${fields["number"]}`);
    const read = text !== "before the message was read";
    expect(fields["run_id"]).toBe(read ? `r${fields["number"]}` : undefined);
    expect(fields["thread_id"]).toBe(read ? `t${fields["number"]}` : undefined);
  }
});

test("a line of the worker names no delivery, and outside a trace none", () => {
  const { log, lines } = recorder();
  deliveryLog(log, "d").ofRun({ runId: "r", threadId: "t" });
  log.info({ active: 0 }, "worker started");
  expect(lines).toEqual([{ level: "info", text: "worker started", fields: { active: 0 } }]);
});

test("what a line says of another delivery wins over the one it is written in", () => {
  const { log, lines } = recorder();
  deliveryLog(log, "d2").warn({ delivery_id: "d1" }, "the obituary of a lost delivery could not be written");
  expect(lines[0]?.fields).toEqual({ delivery_id: "d1" });
});
