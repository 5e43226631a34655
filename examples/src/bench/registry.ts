// All benchmarks, in the order they run.

import { toolsBarrier } from "./bench-tools-barrier.ts";
import { toolsClaim } from "./bench-tools-claim.ts";
import { toolsClaim32 } from "./bench-tools-claim-32.ts";
import { toolsDispatch } from "./bench-tools-dispatch.ts";
import { toolsReplay } from "./bench-tools-replay.ts";
import { tracingDroppedSpan, tracingDroppedSpan200, tracingDroppedSpan1000 } from "./bench-tracing-dropped-span.ts";
import { tracingGate1kb } from "./bench-tracing-gate-1kb.ts";
import { tracingGate1kbDirty } from "./bench-tracing-gate-1kb-dirty.ts";
import { tracingGate400kb } from "./bench-tracing-gate-400kb.ts";
import { tracingKeptSpan } from "./bench-tracing-kept-span.ts";
import { tracingPipeline } from "./bench-tracing-pipeline.ts";
import { tracingSaver } from "./bench-tracing-saver.ts";
import { tracingSaverCall } from "./bench-tracing-saver-call.ts";
import { workerCpu } from "./bench-worker-cpu.ts";
import { workerGraph, workerGraphZero } from "./bench-worker-graph.ts";
import { workerOutage } from "./bench-worker-outage.ts";
import { workerSettle } from "./bench-worker-settle.ts";
import { workerThroughput, workerThroughputRandom, workerThroughputSingles } from "./bench-worker-throughput.ts";
import type { Benchmark } from "./benchmark.ts";

export const BENCHMARKS: readonly Benchmark[] = [
  toolsClaim,
  toolsClaim32,
  toolsReplay,
  toolsDispatch,
  toolsBarrier,
  tracingGate1kb,
  tracingGate1kbDirty,
  tracingGate400kb,
  tracingDroppedSpan,
  tracingDroppedSpan200,
  tracingDroppedSpan1000,
  tracingKeptSpan,
  tracingPipeline,
  tracingSaver,
  tracingSaverCall,
  workerCpu,
  workerGraph,
  workerGraphZero,
  workerThroughput,
  workerThroughputRandom,
  workerThroughputSingles,
  workerSettle,
  workerOutage,
];
