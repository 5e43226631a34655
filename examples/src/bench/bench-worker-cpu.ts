// worker.cpu_ms_per_message: what a delivery costs beyond receiving and deleting its message: schema, rows, lease, spans; no graph.

import { openWorkerScene } from "./bench-worker-scene.ts";
import { type Benchmark, extraFigure } from "./benchmark.ts";
import { pairedRounds } from "./statistics.ts";

const MESSAGES = 2_000;
const CONCURRENCY = 50;

export const workerCpu: Benchmark = {
  name: "worker.cpu_ms_per_message",
  unit: "ms",
  what: "CPU a message of a worker with an empty agent, 50 at once, beyond a bare receive and batch delete",
  async run(options) {
    const count = options.once ? 50 : MESSAGES;
    const scene = await openWorkerScene(await options.database(), !options.once);
    const round = { count, cost: ({ cpuMs }: { readonly cpuMs: number }) => cpuMs / count };
    const settings = { concurrency: CONCURRENCY, modelMs: 0, toolMs: 0 } as const;
    try {
      const arms = {
        baseline: scene.arm({ ...settings, arm: "receive" }, round),
        candidate: scene.arm({ ...settings, arm: "empty-worker" }, round),
        control: scene.arm({ ...settings, arm: "receive" }, round),
      };
      // V8 goes on optimizing for some eight thousand messages.
      const rounds = options.once ? { rounds: 1 } : { rounds: 5, warmupRounds: 4 };
      return extraFigure(this, await pairedRounds(arms, "difference", { ...rounds, noiseMax: 0.05 }), options);
    } finally {
      await scene.close();
    }
  },
};
