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
/** A block of 200 traces a round, in tenths by turns: what the machine does to one side for some milliseconds it does to all. */
const TENTHS = 10;
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
    const plain = (exporter: CountingExporter): SpanProcessor => new BatchSpanProcessor(exporter, BATCH);
    const tail = (exporter: CountingExporter): SpanProcessor =>
      new TailSamplingProcessor(exporter, openGate, { share: 1 });
    const [baseline, candidate, control] = [sideOf(plain), sideOf(tail), sideOf(plain)];
    const { rounds, warmupRounds } = options.once ? { rounds: 1, warmupRounds: 0 } : { rounds: 200, warmupRounds: 10 };
    const how = { rounds, warmupRounds, operationsPerRound: TENTHS, roundValue: "mean", noiseMax: 0.1 } as const;
    const arms = { baseline: baseline.arm, candidate: candidate.arm, control: control.arm };
    const paired = await pairedRounds(arms, "difference", how);
    const made = (rounds + warmupRounds) * TENTHS * IN_FLIGHT * SPANS_PER_TRACE;
    for (const { exporter, processor } of [baseline, candidate, control]) {
      requireWork(exporter.exported() === made, `${exporter.exported()} of ${made} spans were exported`);
      await processor.shutdown();
    }
    return extraFigure(this, paired, options);
  },
};

/**
 * A turn ends when its spans have left and the event loop has turned, on every side: V8 collects garbage between two turns
 * of it, and one side alone that waits for the loop would pay for all. CPU time: waiting costs nothing.
 */
function sideOf(processorOf: (exporter: CountingExporter) => SpanProcessor): Side {
  const exporter = countingExporter();
  const processor = processorOf(exporter);
  const tracer = providerOf([processor]).getTracer("bench");
  const arm = async (): Promise<number> => {
    const startedUs = cpuUs();
    playTraces(tracer, { traces: IN_FLIGHT, inFlight: IN_FLIGHT });
    await processor.forceFlush();
    await new Promise((resolve) => setImmediate(resolve));
    return (cpuUs() - startedUs) / (IN_FLIGHT * SPANS_PER_TRACE);
  };
  return { arm, exporter, processor };
}
