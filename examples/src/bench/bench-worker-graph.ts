// worker.graph_overhead and its zero-latency sibling: a five-step run through the worker against the same graph and saver bare.

import { openWorkerScene } from "./bench-worker-scene.ts";
import { type Benchmark, ratioFigure } from "./benchmark.ts";
import { type Comparison, pairedRounds } from "./statistics.ts";

const AT_ONCE = 8;
const COMPARISON: Comparison = "ratio";

export const workerGraph = graphBenchmark({
  name: "worker.graph_overhead",
  what: "a five-step run, model 50 ms, tool 20 ms, 8 at once: through the worker against the graph and saver bare",
  modelMs: 50,
  toolMs: 20,
});

export const workerGraphZero = graphBenchmark({
  name: "worker.graph_overhead_zero_latency",
  what: "the same run with a model and a tool that answer at once",
  modelMs: 0,
  toolMs: 0,
});

function graphBenchmark(paced: {
  readonly name: string;
  readonly what: string;
  readonly modelMs: number;
  readonly toolMs: number;
}): Benchmark {
  const { name, what, modelMs, toolMs } = paced;
  return {
    name,
    unit: "ms",
    what,
    async run(options) {
      const count = options.once ? AT_ONCE : AT_ONCE * 10;
      const scene = await openWorkerScene(await options.database(), !options.once);
      // Of each lane, so that it reads as the length of a run.
      const round = { count, cost: ({ wallMs }: { readonly wallMs: number }) => (wallMs * AT_ONCE) / count };
      const settings = { concurrency: AT_ONCE, modelMs, toolMs } as const;
      try {
        const arms = {
          baseline: scene.arm({ ...settings, arm: "bare-graph" }, round),
          candidate: scene.arm({ ...settings, arm: "graph-worker" }, round),
          control: scene.arm({ ...settings, arm: "bare-graph" }, round),
        };
        // V8 goes on optimizing for some four hundred runs, of the bare graph as of ours.
        const rounds = options.once ? { rounds: 1 } : { rounds: 9, warmupRounds: 5 };
        return ratioFigure(this, await pairedRounds(arms, COMPARISON, { ...rounds, noiseMax: 0.08 }), options);
      } finally {
        await scene.close();
      }
    },
  };
}
