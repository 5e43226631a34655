// tracing.kept_span_extra_us: what a span costs that the sampler keeps, over the plain batch processor, the gate aside.

import { BatchSpanProcessor, type SpanProcessor } from "@opentelemetry/sdk-trace-base";
import { type Gate, TailSamplingProcessor } from "@reprise/tracing";
import { type Benchmark, extraFigure } from "./benchmark.ts";
import { cpuUs } from "./cpu-time.ts";
import { requireWork } from "./errors.ts";
import { playTraces, SPANS_PER_TRACE } from "./span-load.ts";
import { type Arm, pairedRounds } from "./statistics.ts";
import { type CountingExporter, countingExporter, providerOf } from "./telemetry-scene.ts";

const IN_FLIGHT = 20;
/** 200 traces of 25 spans fit into either queue at once. */
const TRACES = 200;
/** What the sampler gives its own batch processor. */
const BATCH = { maxQueueSize: 15_360, maxExportBatchSize: 512, scheduledDelayMillis: 1_000 };

/** The gate has figures of its own. */
const openGate: Gate = {
  value: () => ({ text: "", bytes: 0, truncated: false, redacted: 0, sha256: "" }),
  text: (input) => input,
  error: () => ({ name: "", message: "", stack: "" }),
  attributes: (attributes) => attributes,
  masked: () => 0,
};

interface Side {
  readonly arm: Arm;
  readonly exporter: CountingExporter;
  readonly processor: SpanProcessor;
}

export const tracingKeptSpan: Benchmark = {
  name: "tracing.kept_span_extra_us",
  unit: "us",
  what: "a span of a kept trace, exported, over a plain BatchSpanProcessor; CPU time, without the gate",
  processes: 5,
  async run(options) {
    const traces = options.once ? IN_FLIGHT : TRACES;
    const plain = (exporter: CountingExporter): SpanProcessor => new BatchSpanProcessor(exporter, BATCH);
    const tail = (exporter: CountingExporter): SpanProcessor =>
      new TailSamplingProcessor(exporter, openGate, { share: 1 });
    const [baseline, candidate, control] = [sideOf(plain, traces), sideOf(tail, traces), sideOf(plain, traces)];
    const rounds = options.once ? { rounds: 2, warmupRounds: 1 } : { rounds: 60, warmupRounds: 10 };
    const arms = { baseline: baseline.arm, candidate: candidate.arm, control: control.arm };
    const paired = await pairedRounds(arms, "difference", { ...rounds, noiseMax: 0.1 });
    const made = (rounds.rounds + rounds.warmupRounds) * traces * SPANS_PER_TRACE;
    for (const { exporter, processor } of [baseline, candidate, control]) {
      requireWork(exporter.exported() === made, `${exporter.exported()} of ${made} spans were exported`);
      await processor.shutdown();
    }
    return extraFigure(this, paired, options);
  },
};

/** A round ends when its spans have left. CPU time: a side that waits for the event loop is not cheaper for it. */
function sideOf(processorOf: (exporter: CountingExporter) => SpanProcessor, traces: number): Side {
  const exporter = countingExporter();
  const processor = processorOf(exporter);
  const tracer = providerOf([processor]).getTracer("bench");
  const arm = async (): Promise<number> => {
    const startedUs = cpuUs();
    playTraces(tracer, { traces, inFlight: IN_FLIGHT });
    await processor.forceFlush();
    return (cpuUs() - startedUs) / (traces * SPANS_PER_TRACE);
  };
  return { arm, exporter, processor };
}
