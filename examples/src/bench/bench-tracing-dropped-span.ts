// tracing.dropped_span_extra_us: what a span costs that the sampler holds and then forgets, over no processor at all.

import { createGate, TailSamplingProcessor } from "@reprise/tracing";
import { type Benchmark, extraFigure } from "./benchmark.ts";
import { cpuUs } from "./cpu-time.ts";
import { requireWork } from "./errors.ts";
import { playTraces, SPANS_PER_TRACE } from "./span-load.ts";
import { type Arm, pairedRounds } from "./statistics.ts";
import { countingExporter, providerOf } from "./telemetry-scene.ts";

/** Traces of one side in a round, at the least: played as often as needed, the sides by turns. */
const BLOCK = 200;

export const tracingDroppedSpan = droppedSpan("tracing.dropped_span_extra_us", 20);

/** Rounds are longer with many traces in flight. */
function roundsOf(inFlight: number) {
  return inFlight > BLOCK ? { rounds: 60, warmupRounds: 5 } : { rounds: 200, warmupRounds: 10 };
}

/** The same with another number of traces in flight: what is held longer outlives the young generation. */
function droppedSpan(name: string, inFlight: number): Benchmark {
  const self: Benchmark = {
    name,
    unit: "us",
    what: `a span of a dropped trace over no processor, ${inFlight} traces in flight; CPU time`,
    processes: 5,
    async run(options) {
      const exporter = countingExporter();
      const sampler = new TailSamplingProcessor(exporter, createGate(), { share: 0 });
      const providers = { baseline: providerOf([]), candidate: providerOf([sampler]), control: providerOf([]) };
      const armOf = (arm: keyof typeof providers): Arm => {
        const tracer = providers[arm].getTracer("bench");
        // With a turn of the event loop, as in bench-tracing-kept-span.ts: each side pays for its own garbage.
        return async () => {
          const startedUs = cpuUs();
          playTraces(tracer, { traces: inFlight, inFlight });
          await new Promise((resolve) => setImmediate(resolve));
          return (cpuUs() - startedUs) / (inFlight * SPANS_PER_TRACE);
        };
      };
      const { rounds, warmupRounds } = options.once ? { rounds: 1, warmupRounds: 0 } : roundsOf(inFlight);
      const turns = Math.max(1, BLOCK / inFlight);
      const arms = { baseline: armOf("baseline"), candidate: armOf("candidate"), control: armOf("control") };
      const how = { rounds, warmupRounds, operationsPerRound: turns, roundValue: "mean", noiseMax: 0.1 } as const;
      const paired = await pairedRounds(arms, "difference", how);
      const made = (rounds + warmupRounds) * turns * inFlight * SPANS_PER_TRACE;
      const { spansDropped } = sampler.stats();
      requireWork(spansDropped.sampled_out === made, `${spansDropped.sampled_out} of ${made} spans were sampled out`);
      await sampler.shutdown();
      requireWork(exporter.exported() === 0, "spans were exported");
      return extraFigure(self, paired, options);
    },
  };
  return self;
}

export const tracingDroppedSpan200 = droppedSpan("tracing.dropped_span_extra_us_200", 200);
export const tracingDroppedSpan1000 = droppedSpan("tracing.dropped_span_extra_us_1000", 1_000);
