// tracing.gate_1kb_dirty_us: the gate over a kilobyte with secrets of several kinds in it.

import { createGate } from "@reprise/tracing";
import { gateRounds } from "./bench-tracing-gate-1kb.ts";
import { type Benchmark, singleFigure } from "./benchmark.ts";
import { requireWork } from "./errors.ts";
import { dirtyArguments } from "./gate-inputs.ts";

export const tracingGate1kbDirty: Benchmark = {
  name: "tracing.gate_1kb_dirty_us",
  unit: "us",
  what: "gate.value of about 1 KB of arguments with secrets of six kinds; CPU time",
  async run(options) {
    const gated = createGate().value(dirtyArguments());
    requireWork(gated.redacted >= 6, `only ${gated.redacted} secrets were found`);
    requireWork(Math.abs(gated.bytes - 1_024) < 150, `${gated.bytes} bytes are not about 1 KB`);
    return singleFigure(this, await gateRounds(dirtyArguments(), options), options);
  },
};
