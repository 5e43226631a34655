// tracing.saver_call_extra_us: what one call of the traced saver takes more than the same call of the saver inside it.

import { type BaseCheckpointSaver, emptyCheckpoint, MemorySaver } from "@langchain/langgraph";
import { withSpan } from "@reprise/tracing";
import { countingSerde, TracedSaver } from "@reprise/tracing/langgraph";
import { type Benchmark, extraFigure } from "./benchmark.ts";
import { cpuUs } from "./cpu-time.ts";
import { requireWork } from "./errors.ts";
import { type Arm, pairedRounds } from "./statistics.ts";
import { withTelemetry } from "./telemetry-scene.ts";

/** A put, its writes and a read, as one step makes them. */
const CALLS_PER_STEP = 3;
/** A delivery's worth under one root. */
const STEPS_PER_TRACE = 8;

export const tracingSaverCall: Benchmark = {
  name: "tracing.saver_call_extra_us",
  unit: "us",
  what: "put, put_writes and get_tuple of a TracedSaver over a memory saver against the memory saver; CPU time a call",
  processes: 5,
  run: (options) =>
    withTelemetry(async () => {
      const arms = {
        baseline: armOf(new MemorySaver(), options.once),
        candidate: armOf(new TracedSaver(new MemorySaver(countingSerde())), options.once),
        control: armOf(new MemorySaver(), options.once),
      };
      const rounds = options.once ? { rounds: 1 } : { rounds: 60, warmupRounds: 10 };
      const paired = await pairedRounds(arms, "difference", { ...rounds, noiseMax: 3 });
      return extraFigure(tracingSaverCall, paired, options);
    }),
};

function armOf(saver: BaseCheckpointSaver, once: boolean): Arm {
  const traces = once ? 2 : 40;
  const checkpoint = { ...emptyCheckpoint(), channel_values: { messages: ["a short state"] } };
  // One checkpoint written again and again: the memory saver keeps what it is given.
  const config = { configurable: { thread_id: "thread_1", checkpoint_ns: "" } };
  const step = async (): Promise<void> => {
    const stored = await saver.put(config, checkpoint, { source: "loop", step: 1, parents: {} }, {});
    await saver.putWrites(stored, [["messages", "more"]], "task_1");
    requireWork((await saver.getTuple(stored)) !== undefined, "the checkpoint that was put is not there");
  };
  return async () => {
    const startedUs = cpuUs();
    for (let trace = 0; trace < traces; trace += 1) {
      await withSpan("bench", { root: true }, async () => {
        for (let made = 0; made < STEPS_PER_TRACE; made += 1) await step();
      });
    }
    return (cpuUs() - startedUs) / (traces * STEPS_PER_TRACE * CALLS_PER_STEP);
  };
}
