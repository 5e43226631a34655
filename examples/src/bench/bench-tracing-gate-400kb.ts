// tracing.gate_400kb_ms: the gate over hostile values of 400 KB; the worst of them is the figure.

import { createGate } from "@reprise/tracing";
import { type Benchmark, singleFigure } from "./benchmark.ts";
import { cpuUs } from "./cpu-time.ts";
import { requireWork } from "./errors.ts";
import { hostileInputs } from "./gate-inputs.ts";
import { type Single, singleRounds } from "./statistics.ts";

export const tracingGate400kb: Benchmark = {
  name: "tracing.gate_400kb_ms",
  unit: "ms",
  what: "gate.value of 400 KB, the slowest of 16 hostile inputs by its median; CPU time",
  async run(options) {
    const gate = createGate();
    const rounds = options.once ? { rounds: 2 } : { rounds: 30, warmupRounds: 5 };
    let worst: Single | undefined;
    for (const input of hostileInputs().values()) {
      requireWork(Buffer.byteLength(gate.value(input).text) <= 2_048, "the gate let more than 2,048 bytes out");
      const arm = async (): Promise<number> => {
        const startedUs = cpuUs();
        gate.value(input);
        return (cpuUs() - startedUs) / 1_000;
      };
      const single = await singleRounds(arm, { ...rounds, noiseMax: 0.25 });
      if (worst === undefined || single.value > worst.value) worst = single;
    }
    requireWork(worst !== undefined, "there was no input");
    return singleFigure(this, worst, options);
  },
};
