// tools.claim_complete_vs_bare: what the ledger adds to the two writes that nobody can do without, one client, op by op.

import { type Benchmark, ratioFigure } from "./benchmark.ts";
import { openLedger } from "./ledger-scene.ts";
import { pairedRounds } from "./statistics.ts";

export const toolsClaim: Benchmark = {
  name: "tools.claim_complete_vs_bare",
  unit: "ms",
  what: "claim and settle of a new key against a bare insert and update of a row of that size, one client",
  async run(options) {
    const scene = await openLedger(await options.database(), 1);
    try {
      const arms = {
        baseline: scene.insertAndUpdate,
        candidate: scene.claimAndComplete,
        control: scene.insertAndUpdate,
      };
      const rounds = options.once
        ? { rounds: 2, operationsPerRound: 5 }
        : { rounds: 60, warmupRounds: 6, operationsPerRound: 50 };
      return ratioFigure(this, await pairedRounds(arms, "ratio", { ...rounds, noiseMax: 0.05 }), options);
    } finally {
      await scene.close();
    }
  },
};
