// tools.barrier_us: what the check costs that a call is stored before it may have an effect, under sync, on Postgres.

import type { RunnableConfig } from "@langchain/core/runnables";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { openPool } from "@reprise/dev-stack";
import { passBarrier } from "@reprise/tools/langgraph";
import { type Benchmark, singleFigure } from "./benchmark.ts";
import { cpuUs } from "./cpu-time.ts";
import { requireWork } from "./errors.ts";
import { type Arm, median, singleRounds } from "./statistics.ts";
import { type ModelCall, modelCalls, openToolScene } from "./tool-scene.ts";

const CALLS_PER_RUN = 10;

export const toolsBarrier: Benchmark = {
  name: "tools.barrier_us",
  unit: "us",
  what: "passBarrier for a call whose checkpoint is durable, durability sync, PostgresSaver; CPU time",
  async run(options) {
    const pool = openPool(await options.database(), { max: 4 });
    pool.on("error", () => undefined);
    const saver = new PostgresSaver(pool);
    await saver.setup();
    const scene = openToolScene(saver);
    const runsPerRound = options.once ? 1 : 25;
    let calls = 0;
    const arm: Arm = async () => {
      const costs: number[] = [];
      for (let run = 0; run < runsPerRound; run += 1) {
        const asked = modelCalls(CALLS_PER_RUN, "create_charge", calls);
        calls += CALLS_PER_RUN;
        costs.push(await scene.play(asked, passAll));
      }
      return median(costs);
    };
    try {
      const rounds = options.once ? { rounds: 2, warmupRounds: 1 } : { rounds: 30, warmupRounds: 4 };
      return singleFigure(this, await singleRounds(arm, { ...rounds, noiseMax: 0.1 }), options);
    } finally {
      await pool.end();
    }
  },
};

async function passAll(calls: readonly ModelCall[], config: RunnableConfig): Promise<number> {
  const startedUs = cpuUs();
  for (const { id, name } of calls) {
    const evidence = await passBarrier(config, { id, tool: name });
    requireWork(evidence.id === id && evidence.source === "provider", "the barrier found another call");
  }
  return (cpuUs() - startedUs) / calls.length;
}
