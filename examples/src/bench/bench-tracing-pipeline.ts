// tracing.pipeline_cpu_vs_export_all: what keeping a share of the traces costs, beside keeping all of them, gate and OTLP included.

import { createGate, TailSamplingProcessor } from "@reprise/tracing";
import { type Benchmark, type BenchmarkOptions, ratioFigure } from "./benchmark.ts";
import { cpuUs } from "./cpu-time.ts";
import { requireWork } from "./errors.ts";
import { otlpProtobufExporter, startSink } from "./otlp-sink.ts";
import { playTraces, SPANS_PER_TRACE } from "./span-load.ts";
import { type Arm, pairedRounds } from "./statistics.ts";
import { providerOf } from "./telemetry-scene.ts";

const SHARE = 0.05;
const IN_FLIGHT = 20;
/** 25 spans each: they fit into the queue at once. */
const TRACES = 400;

interface Pipeline {
  readonly arm: Arm;
  /** Part of the spans that left. */
  readonly exported: () => number;
  readonly close: () => Promise<void>;
}

export const tracingPipeline: Benchmark = {
  name: "tracing.pipeline_cpu_vs_export_all",
  unit: "us",
  what: "a span at a share of 5 % against one of all, each over no processor; gate, OTLP protobuf, sink in another process; CPU time",
  processes: 3,
  async run(options) {
    const sink = await startSink();
    try {
      return await measure(sink.url, options);
    } finally {
      await sink.stop();
    }
  },
};

async function measure(url: string, options: BenchmarkOptions) {
  const traces = options.once ? IN_FLIGHT : TRACES;
  const [all, some, control] = [1, SHARE, 1].map((share) => pipelineOf(share, url, traces));
  requireWork(all !== undefined && some !== undefined && control !== undefined, "a pipeline is missing");
  const rounds = options.once ? { rounds: 1 } : { rounds: 24, warmupRounds: 4 };
  const arms = { baseline: all.arm, candidate: some.arm, control: control.arm };
  const paired = await pairedRounds(arms, "ratio", { ...rounds, noiseMax: 0.1 });
  requireWork(all.exported() === 1, `${all.exported()} of all spans were exported`);
  const share = some.exported();
  if (!options.once)
    requireWork(share > 0.03 && share < 0.07, `${share} of the spans were exported, not about ${SHARE}`);
  for (const { close } of [all, some, control]) await close();
  return ratioFigure(tracingPipeline, paired, options);
}

/** A round's cost is what it takes more than the same spans without any processor, made just before. */
function pipelineOf(share: number, url: string, traces: number): Pipeline {
  const processor = new TailSamplingProcessor(otlpProtobufExporter(url), createGate(), { share });
  const tracer = providerOf([processor]).getTracer("bench");
  const bare = providerOf([]).getTracer("bench");
  let rounds = 0;
  const arm = async (): Promise<number> => {
    rounds += 1;
    const startedUs = cpuUs();
    playTraces(bare, { traces, inFlight: IN_FLIGHT });
    const bareUs = cpuUs() - startedUs;
    const beganUs = cpuUs();
    playTraces(tracer, { traces, inFlight: IN_FLIGHT });
    await processor.forceFlush();
    return (cpuUs() - beganUs - bareUs) / (traces * SPANS_PER_TRACE);
  };
  const exported = (): number => processor.stats().spansExported / (rounds * traces * SPANS_PER_TRACE);
  return { arm, exported, close: () => processor.shutdown() };
}
