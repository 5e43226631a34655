// Proves logs and metrics of a real worker: what a finished run, a bad message, a redelivery and a failed receive leave behind.
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { context, metrics, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider } from "@opentelemetry/sdk-trace-base";
import { METRIC } from "@reprise/tracing";
import { afterAll, beforeAll, expect, it } from "vitest";
import { defineAgent } from "../src/agent.ts";
import type { Logger } from "../src/log.ts";
import { scene } from "./scene.ts";

class Reader extends MetricReader {
  protected override async onShutdown(): Promise<void> {}
  protected override async onForceFlush(): Promise<void> {}
}

const reader = new Reader();
beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(new BasicTracerProvider());
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
});
afterAll(() => {
  metrics.disable();
  trace.disable();
  context.disable();
});

type Fields = Readonly<Record<string, unknown>>;

function recorder(): { readonly log: Logger; readonly lines: { text: string; fields: Fields }[] } {
  const lines: { text: string; fields: Fields }[] = [];
  const add = (fields: Fields, text: string): void => {
    lines.push({ text, fields });
  };
  return { lines, log: { debug: add, info: add, warn: add, error: add } };
}

/** The sum over all attributes: of a counter its value, of a histogram how many were measured. */
async function total(name: string): Promise<number> {
  const { scopeMetrics } = (await reader.collect()).resourceMetrics;
  const values = scopeMetrics
    .flatMap((scope) => scope.metrics)
    .filter((metric) => metric.descriptor.name === name)
    .flatMap((metric) => metric.dataPoints.map(({ value }) => (typeof value === "number" ? value : value.count)));
  return values.reduce((sum, value) => sum + value, 0);
}

it("every line of a delivery has its ids, and each delivery is in the metrics", async () => {
  const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });
  let failures = 1;
  const graph = new StateGraph(State)
    .addNode("one", async () => {
      failures -= 1;
      if (failures >= 0) throw new Error("not yet");
      return { log: ["one"] };
    })
    .addEdge(START, "one")
    .addEdge("one", END)
    .compile();
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "20" });
  s.sqs.faults.add({ kind: "error", operation: "ReceiveMessage", code: "ThrottlingException", remaining: 3 });
  const { log, lines } = recorder();
  const worker = await s.start([defineAgent({ name: "steps", graph, result: (state) => state })], { log });
  await s.send({ agent: "steps", threadId: "t", runId: "r", input: { log: [] } });
  await s.sendBody("no json");
  await s.until("both messages to be done", async () => {
    const ended = lines.filter(({ text }) => text === "delivery ended").map(({ fields }) => fields["outcome"]);
    return ["parked", "failed_retry", "finished"].every((outcome) => ended.includes(outcome));
  });
  await worker.stop();

  const inside = lines.filter(({ fields }) => fields["delivery_id"] !== undefined);
  expect(new Set(inside.map(({ fields }) => fields["delivery_id"])).size).toBe(3);
  for (const { fields } of inside) {
    expect(fields["trace_id"]).toMatch(/^[0-9a-f]{32}$/);
    expect(fields["span_id"]).toMatch(/^[0-9a-f]{16}$/);
    if (fields["outcome"] !== "parked") expect(fields).toMatchObject({ run_id: "r", thread_id: "t" });
  }
  const outside = lines.filter(({ fields }) => fields["delivery_id"] === undefined).map(({ text }) => text);
  expect(outside.filter((text) => /deliver(y|ed)|resum|thread|beat/.test(text))).toEqual([]);

  expect(await total(METRIC.processDuration)).toBe(3);
  expect(await total(METRIC.consumedMessages)).toBe(3);
  expect(await total(METRIC.receiveCount)).toBe(3);
  expect(await total(METRIC.messagesParked)).toBe(1);
  expect(await total(METRIC.deliveriesRedelivered)).toBe(1);
  expect(await total(METRIC.pollsFailed)).toBeGreaterThanOrEqual(1);
  expect(await total(METRIC.receivesUnseen)).toBe(0);
});
