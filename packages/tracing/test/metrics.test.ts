// The sampler's metrics in a real metrics SDK: every verdict, every dropped span and every gauge, and nothing that names a run.

import { context } from "@opentelemetry/api";
import { MeterProvider, type MetricData, MetricReader } from "@opentelemetry/sdk-metrics";
import { afterEach, describe, expect, it } from "vitest";
import { ATTR, METRIC, observeTail } from "../src/index.ts";
import type { TailOptions } from "../src/tail-sampler-options.ts";
import { harness } from "./telemetry.ts";

class Reader extends MetricReader {
  protected override async onShutdown(): Promise<void> {}
  protected override async onForceFlush(): Promise<void> {}
}

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
  context.disable();
});

function observed(options: TailOptions = {}) {
  const h = harness(options);
  const reader = new Reader();
  const provider = new MeterProvider({ readers: [reader] });
  closers.push(() => provider.shutdown());
  const stop = observeTail(h.tail, provider.getMeter("test"));
  const metrics = async (): Promise<readonly MetricData[]> =>
    (await reader.collect()).resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
  /** Values that are not zero, by their attributes. */
  const values = async (name: string): Promise<Readonly<Record<string, unknown>>> => {
    const points = (await metrics()).find((metric) => metric.descriptor.name === name)?.dataPoints ?? [];
    return Object.fromEntries(
      points
        .filter(({ value }) => value !== 0)
        .map(({ attributes, value }) => [Object.values(attributes).join(" "), value]),
    );
  };
  return { ...h, stop, metrics, values };
}

describe("the sampler's metrics", () => {
  it("count verdicts by reason, and spans on each way out", async () => {
    const h = observed({ share: 0 });
    const failing = h.start("failing");
    h.fail(h.start("child", failing));
    h.end(failing);
    for (let quiet = 0; quiet < 3; quiet += 1) h.end(h.start("quiet"));
    await h.exported();
    expect(await h.values(METRIC.tracesDecided)).toEqual({ "keep error": 1, "drop share": 3 });
    expect(await h.values(METRIC.spansReleased)).toEqual({ "": 2 });
    expect(await h.values(METRIC.spansExported)).toEqual({ "": 2 });
    expect(await h.values(METRIC.spansDropped)).toEqual({ sampled_out: 3 });
  });

  it("show what is held now, and which bound forced a verdict", async () => {
    const h = observed({ share: 0, maxTraces: 2 });
    const open = [h.start("one"), h.start("two"), h.start("three")];
    expect(await h.values(METRIC.tracesUndecided)).toEqual({ "": 2 });
    expect(await h.values(METRIC.spansBuffered)).toEqual({ "": 2 });
    expect(Number((await h.values(METRIC.bufferBytes))[""])).toBeGreaterThan(500);
    expect(await h.values(METRIC.capsForced)).toEqual({ traces: 1 });
    expect(await h.values(METRIC.tracesDecided)).toEqual({ "drop cap": 1 });
    for (const span of open) h.end(span);
    expect(await h.values(METRIC.tracesUndecided)).toEqual({});
  });

  it("say how old a trace was at its verdict, in seconds, once a trace and not once a span", async () => {
    const h = observed({ share: 0, slowMs: 30_000 });
    const slow = h.start("slow");
    for (let child = 0; child < 20; child += 1) h.end(h.start("child", slow));
    h.clock.advance(30_000);
    h.end(slow);
    h.end(h.start("quick"));
    expect(await h.values(METRIC.decisionAge)).toMatchObject({
      keep: { count: 1, sum: 30 },
      drop: { count: 1, sum: 0 },
    });
  });

  it("count policies that threw and late spans on both sides", async () => {
    const h = observed({
      share: 0,
      policies: [
        (span) => {
          if (span.name === "odd") throw new Error("no");
          return undefined;
        },
      ],
    });
    const odd = h.start("odd");
    const lateKept = h.start("late", odd);
    h.end(odd);
    const quiet = h.start("quiet");
    const lateDropped = h.start("late", quiet);
    h.end(quiet);
    h.clock.advance(60_000);
    h.end(lateKept);
    h.end(lateDropped);
    expect(await h.values(METRIC.policiesFailed)).toEqual({ "": 1 });
    expect(await h.values(METRIC.spansLate)).toEqual({ keep: 1, drop: 1 });
  });

  it("count the secrets that were masked on the way out, under a secret name or in a value, and none in what was dropped", async () => {
    const h = observed({ share: 1 });
    const root = h.start("root");
    root.setAttributes({
      "db.password": "hunter2",
      "tool.args": JSON.stringify({ note: "key sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAA", api_key: "abc" }),
      "tool.result": "nothing",
    });
    h.end(root);
    await h.exported();
    expect(await h.values(METRIC.valuesRedacted)).toEqual({ "": 3 });
    const dropped = observed({ share: 0 });
    const quiet = dropped.start("quiet");
    quiet.setAttribute("db.password", "hunter2");
    dropped.end(quiet);
    await dropped.exported();
    expect(await dropped.values(METRIC.valuesRedacted)).toEqual({});
  });

  it("carry attributes of a known few, whatever the traces are called", async () => {
    const h = observed({ share: 1 });
    for (let run = 0; run < 300; run += 1) {
      const root = h.start(`process queue-${run}`);
      root.setAttributes({ [ATTR.runId]: `run_${run}`, [ATTR.agentName]: `agent_${run}` });
      h.end(root);
    }
    await h.exported();
    const metrics = await h.metrics();
    const attributes = metrics.flatMap((metric) => metric.dataPoints.map((point) => point.attributes));
    expect(attributes.length).toBeLessThan(60);
    expect(JSON.stringify(attributes)).not.toMatch(/run_|agent_|queue-/);
  });

  it("stop with the observation: a listener that is gone hears no verdict", async () => {
    const h = observed({ share: 1 });
    h.stop();
    h.end(h.start("root"));
    expect(await h.values(METRIC.tracesDecided)).toEqual({});
    expect(await h.values(METRIC.decisionAge)).toEqual({});
  });

  it("a listener that throws reaches nobody", async () => {
    const h = harness({ share: 1 });
    h.tail.onDecision(() => {
      throw new Error("no");
    });
    h.end(h.start("root"));
    expect(await h.exported()).toEqual(["root"]);
  });
});
