// tracing.saver_overhead: a run of five steps of 20 ms on Postgres, with the traced saver against the bare one.

import { Annotation, type BaseCheckpointSaver, END, START, StateGraph } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { openPool } from "@reprise/dev-stack";
import { withSpan } from "@reprise/tracing";
import { countingSerde, TracedSaver } from "@reprise/tracing/langgraph";
import { type Benchmark, ratioFigure } from "./benchmark.ts";
import { requireWork } from "./errors.ts";
import { type Arm, pairedRounds } from "./statistics.ts";
import { withTelemetry } from "./telemetry-scene.ts";

const STEPS = 5;
const STEP_MS = 20;

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (before, more) => [...before, ...more], default: () => [] }),
});

export const tracingSaver: Benchmark = {
  name: "tracing.saver_overhead",
  unit: "ms",
  what: "a run of five steps of 20 ms: TracedSaver over PostgresSaver against PostgresSaver alone",
  run: (options) =>
    withTelemetry(async () => {
      const pool = openPool(await options.database(), { max: 6 });
      pool.on("error", () => undefined);
      await new PostgresSaver(pool).setup();
      const traced = new TracedSaver(new PostgresSaver(pool, countingSerde()));
      try {
        const arms = {
          baseline: armOf("bare", new PostgresSaver(pool)),
          candidate: armOf("traced", traced),
          control: armOf("control", new PostgresSaver(pool)),
        };
        const rounds = options.once ? { rounds: 1 } : { rounds: 80, warmupRounds: 5 };
        return ratioFigure(tracingSaver, await pairedRounds(arms, "ratio", { ...rounds, noiseMax: 0.02 }), options);
      } finally {
        await traced.settle();
        await pool.end();
      }
    }),
};

function armOf(label: string, checkpointer: BaseCheckpointSaver): Arm {
  const graph = chain(checkpointer);
  let runs = 0;
  return () =>
    // Both sides run in a trace of their own, as a delivery does.
    withSpan("bench", { root: true }, async () => {
      runs += 1;
      const startedAt = performance.now();
      const state = await graph.invoke(
        { log: [] },
        { configurable: { thread_id: `${label}-${runs}` }, durability: "sync" },
      );
      const elapsedMs = performance.now() - startedAt;
      requireWork(state.log.length === STEPS, `${state.log.length} of ${STEPS} steps ran`);
      return elapsedMs;
    });
}

function chain(checkpointer: BaseCheckpointSaver) {
  const step = (name: string) => async () => {
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
    return { log: [name] };
  };
  return new StateGraph(State)
    .addNode("n0", step("n0"))
    .addNode("n1", step("n1"))
    .addNode("n2", step("n2"))
    .addNode("n3", step("n3"))
    .addNode("n4", step("n4"))
    .addEdge(START, "n0")
    .addEdge("n0", "n1")
    .addEdge("n1", "n2")
    .addEdge("n2", "n3")
    .addEdge("n3", "n4")
    .addEdge("n4", END)
    .compile({ checkpointer });
}
