// tracing.gate_1kb_us: the gate over what it sees most, a kilobyte of arguments without a secret in it.

import { createGate } from "@reprise/tracing";
import { type Benchmark, type BenchmarkOptions, singleFigure } from "./benchmark.ts";
import { cpuUs } from "./cpu-time.ts";
import { requireWork } from "./errors.ts";
import { typicalArguments } from "./gate-inputs.ts";
import { type Single, singleRounds } from "./statistics.ts";

export const tracingGate1kb: Benchmark = {
  name: "tracing.gate_1kb_us",
  unit: "us",
  what: "gate.value of a typical 1 KB argument object, all patterns on; CPU time",
  async run(options) {
    const gated = createGate().value(typicalArguments());
    requireWork(gated.redacted === 0 && gated.bytes === 1_024, `${gated.redacted} redacted in ${gated.bytes} bytes`);
    return singleFigure(this, await gateRounds(typicalArguments(), options), options);
  },
};

/** Rounds of 500 calls, microseconds a call; also those of the dirty kilobyte. */
export function gateRounds(input: unknown, { once }: BenchmarkOptions): Promise<Single> {
  const gate = createGate();
  const calls = once ? 50 : 500;
  const arm = async (): Promise<number> => {
    const startedUs = cpuUs();
    for (let call = 0; call < calls; call += 1) gate.value(input);
    return (cpuUs() - startedUs) / calls;
  };
  return singleRounds(arm, { rounds: once ? 2 : 100, warmupRounds: once ? 1 : 20, noiseMax: 0.1 });
}
