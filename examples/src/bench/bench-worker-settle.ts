// worker.batch_settle_vs_single: deletes a second through the settler, which confirms each entry, against single deletes.

import type { Played, SettleArm } from "./bench-worker-process.ts";
import { openWorkerScene } from "./bench-worker-scene.ts";
import { type Benchmark, ratioFigure } from "./benchmark.ts";
import { type Arm, pairedRounds } from "./statistics.ts";

const HANDLES = 1_000;

export const workerSettle: Benchmark = {
  name: "worker.batch_settle_vs_single",
  unit: "msg/s",
  what: "deletes a second of 1,000 handles, 50 in flight, each confirmed: batched by the settler against one call each",
  async run(options) {
    const count = options.once ? 100 : HANDLES;
    const scene = await openWorkerScene(await options.database(), !options.once);
    const cost = ({ wallMs }: Played): number => (count * 1_000) / wallMs;
    const armOf = (arm: SettleArm): Arm => scene.arm({ arm, concurrency: 1, modelMs: 0, toolMs: 0 }, { count, cost });
    try {
      const arms = {
        baseline: armOf("settle-single"),
        candidate: armOf("settle-batch"),
        control: armOf("settle-single"),
      };
      const rounds = options.once ? { rounds: 1 } : { rounds: 9, warmupRounds: 2 };
      return ratioFigure(this, await pairedRounds(arms, "ratio", { ...rounds, noiseMax: 0.15 }), options);
    } finally {
      await scene.close();
    }
  },
};
