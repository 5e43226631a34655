// worker.throughput_*: messages a second at concurrency 50 where one handler in ten is slow, against plain sqs-consumers.
//
// In the worker's arm: intake, slots, parsing, every row that a run writes, its lease, its root span through the sampler, the
// batched delete. Not in it: LangGraph and checkpoints (their costs have benchmarks of their own), and an OTLP exporter. The
// plain consumers have no rows and no spans. The queue is the embedded one, in another process, with no network in between.

import type { LoadArm, Played } from "./bench-worker-process.ts";
import { openWorkerScene, type WorkerScene } from "./bench-worker-scene.ts";
import { type Benchmark, type BenchmarkOptions, type Figure, ratioFigure } from "./benchmark.ts";
import { requireWork } from "./errors.ts";
import { type Arm, pairedRounds } from "./statistics.ts";

const CONCURRENCY = 50;
const QUICK_MS = 30;
const SLOW_MS = 300;
/** More than any arm gets through in a round. */
const MESSAGES = 4_500;
const MESSAGES_PLAIN = 2_200;

type Pattern = "every-tenth" | "random";

function workMs(pattern: Pattern): (index: number) => number {
  if (pattern === "every-tenth") return (index) => (index % 10 === 0 ? SLOW_MS : QUICK_MS);
  // The same draw for every arm and round, whatever it is run beside.
  return (index) => (hash(index) < 0.1 ? SLOW_MS : QUICK_MS);
}

/** 0 to 1, evenly, without a pattern that a batch of ten could meet (Murmur3's finaliser). */
function hash(index: number): number {
  let mixed = index + 0x9e3779b9;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
}

interface Load {
  readonly pattern: Pattern;
  readonly baseline: "ten" | "singles";
}

export const workerThroughput = throughput(
  { pattern: "every-tenth", baseline: "ten" },
  {
    name: "worker.throughput_vs_sqs_consumer",
    what: "messages a second, 50 at once, every tenth handler 300 ms and the others 30 ms, rows and spans on, against five plain sqs-consumers of ten (the better of their two handler forms)",
  },
);

export const workerThroughputRandom = throughput(
  { pattern: "random", baseline: "ten" },
  {
    name: "worker.throughput_random_slow",
    what: "the same with one handler in ten slow at random",
  },
);

export const workerThroughputSingles = throughput(
  { pattern: "every-tenth", baseline: "singles" },
  {
    name: "worker.throughput_vs_fifty_singles",
    what: "the same against fifty plain sqs-consumers of one message each",
  },
);

function throughput(load: Load, about: Pick<Benchmark, "name" | "what">): Benchmark {
  const benchmark: Benchmark = {
    ...about,
    unit: "msg/s",
    run: async (options) => {
      const scene = await openWorkerScene(await options.database(), !options.once);
      try {
        return await measure(benchmark, { scene, load }, options);
      } finally {
        await scene.close();
      }
    },
  };
  return benchmark;
}

async function measure(
  benchmark: Benchmark,
  { scene, load }: { readonly scene: WorkerScene; readonly load: Load },
  options: BenchmarkOptions,
): Promise<Figure> {
  const window = options.once ? { warmupMs: 1_500, windowMs: 1_500 } : { warmupMs: 800, windowMs: 3_000 };
  const armOf = (arm: LoadArm): Arm => {
    const count = arm === "load-message" || arm === "load-batch" ? MESSAGES_PLAIN : MESSAGES;
    const round = { count: options.once ? 2_000 : count, cost: perSecond, window, workMs: workMs(load.pattern) };
    return scene.arm({ arm, concurrency: CONCURRENCY, modelMs: 0, toolMs: 0 }, round);
  };
  const plain = load.baseline === "singles" ? "load-singles" : await betterForm(armOf);
  const arms = { baseline: armOf(plain), candidate: armOf("load-worker"), control: armOf(plain) };
  const rounds = options.once ? { rounds: 1 } : { rounds: 5, warmupRounds: 1 };
  return ratioFigure(benchmark, await pairedRounds(arms, "ratio", { ...rounds, noiseMax: 0.15 }), options);
}

/** The plain consumers play in the form that got more done when both were tried. */
async function betterForm(armOf: (arm: LoadArm) => Arm): Promise<LoadArm> {
  return (await armOf("load-message")()) >= (await armOf("load-batch")()) ? "load-message" : "load-batch";
}

function perSecond({ messages = 0, wallMs }: Played): number {
  requireWork(messages > 0, "no message ended in the window");
  return (messages * 1_000) / wallMs;
}
