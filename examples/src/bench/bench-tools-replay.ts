// tools.replay_vs_select: a call that was done before, against the select that any replay needs at least.

import { type Benchmark, ratioFigure } from "./benchmark.ts";
import { requireWork } from "./errors.ts";
import { openLedger } from "./ledger-scene.ts";
import { pairedRounds } from "./statistics.ts";

export const toolsReplay: Benchmark = {
  name: "tools.replay_vs_select",
  unit: "ms",
  what: "claim of a settled key, answered with its result and counted (in memory, written together), against a select of that row, one client",
  async run(options) {
    const scene = await openLedger(await options.database(), 1);
    try {
      const call = await scene.settledKey();
      const rounds = options.once
        ? { rounds: 2, operationsPerRound: 5 }
        : { rounds: 60, warmupRounds: 6, operationsPerRound: 50 };
      const arms = { baseline: call.select, candidate: call.replay, control: call.select };
      const paired = await pairedRounds(arms, "ratio", { ...rounds, noiseMax: 0.05 });
      const replays =
        (rounds.rounds + ("warmupRounds" in rounds ? rounds.warmupRounds : 0)) * rounds.operationsPerRound;
      requireWork((await call.seen()) === replays + 1, "the ledger did not count every replay");
      return ratioFigure(this, paired, options);
    } finally {
      await scene.close();
    }
  },
};
