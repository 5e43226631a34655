// tools.claim_complete_vs_bare_32: the same two writes with 32 clients at once, in slices, where commits are shared.

import { type Benchmark, ratioFigure } from "./benchmark.ts";
import { openLedger } from "./ledger-scene.ts";
import { type Arm, pairedRounds } from "./statistics.ts";

const CLIENTS = 32;

export const toolsClaim32: Benchmark = {
  name: "tools.claim_complete_vs_bare_32",
  unit: "ms",
  what: "claim and settle against a bare insert and update, 32 clients: wall time an operation",
  async run(options) {
    const scene = await openLedger(await options.database(), CLIENTS);
    const slice =
      (work: () => Promise<unknown>): Arm =>
      () =>
        playSlice(work, options.once ? 2 : 60);
    try {
      const arms = {
        baseline: slice(scene.insertAndUpdate),
        candidate: slice(scene.claimAndComplete),
        control: slice(scene.insertAndUpdate),
      };
      const rounds = options.once ? { rounds: 2 } : { rounds: 24, warmupRounds: 2 };
      return ratioFigure(this, await pairedRounds(arms, "ratio", { ...rounds, noiseMax: 0.1 }), options);
    } finally {
      await scene.close();
    }
  },
};

/** All clients busy until the slice is done; milliseconds of the slice by its operations. */
async function playSlice(work: () => Promise<unknown>, operationsPerClient: number): Promise<number> {
  const startedAt = performance.now();
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      for (let operation = 0; operation < operationsPerClient; operation += 1) await work();
    }),
  );
  return (performance.now() - startedAt) / (CLIENTS * operationsPerClient);
}
