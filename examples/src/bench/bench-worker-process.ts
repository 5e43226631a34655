// The processes that the worker's benchmarks compare, each with one arm: told what to play, they answer with what it cost.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { childEnvironment } from "../support/env.ts";
import { BenchError } from "./errors.ts";

/**
 * `receive`: a loop of receive and batch delete. `empty-worker`: the worker over an agent that does nothing.
 * `bare-graph`: a graph on a stock saver, without queue and spans. `graph-worker`: the same graph driven by the worker.
 */
export type WorkerArm = "receive" | "empty-worker" | "bare-graph" | "graph-worker" | LoadArm | SettleArm;

/** The throughput arms (bench-worker-arm-load.ts): the worker, or plain sqs-consumers in one of three forms. */
export type LoadArm = "load-worker" | "load-message" | "load-batch" | "load-singles";

/** The settling arms (bench-worker-arm-settle.ts): one call a message, or the worker's batches. */
export type SettleArm = "settle-single" | "settle-batch";

export interface ArmSettings {
  readonly arm: WorkerArm;
  readonly concurrency: number;
  readonly modelMs: number;
  readonly toolMs: number;
}

/** One round: `count` messages that wait in `queueUrl`, or `count` runs where the arm takes none from a queue. */
export interface Play {
  readonly count: number;
  readonly queueUrl: string;
  /** Of the throughput arms: what ends in `windowMs` is counted, after `warmupMs`. The queue never runs empty. */
  readonly window?: { readonly warmupMs: number; readonly windowMs: number };
}

/** From the first message, or run, to the end of the last. */
export interface Played {
  readonly wallMs: number;
  readonly cpuMs: number;
  /** Where a window was asked for: messages whose deletion SQS confirmed in it. */
  readonly messages?: number;
}

export interface WorkerBenchProcess {
  play(play: Play): Promise<Played>;
  close(): Promise<void>;
}

const CHILD = fileURLToPath(new URL("bench-worker-child.js", import.meta.url));
/** A round takes seconds; a child that says nothing for this long hangs. */
const PLAY_MS_MAX = 120_000;

export function startArm(settings: ArmSettings, environment: Readonly<Record<string, string>>): WorkerBenchProcess {
  const child = spawn(process.execPath, [CHILD, JSON.stringify(settings)], {
    env: { ...childEnvironment(), ...environment },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const exited = once(child, "exit");
  return {
    play: (play) => playIn(child, exited, { arm: settings.arm, play }),
    close: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.disconnect();
      await exited;
    },
  };
}

async function playIn(
  child: ChildProcess,
  exited: Promise<unknown>,
  { arm, play }: { readonly arm: WorkerArm; readonly play: Play },
): Promise<Played> {
  const failed = (why: string): BenchError =>
    new BenchError("BENCH_PROCESS_FAILED", `The process of ${arm} ${why}; what it wrote stands above.`);
  let timer: NodeJS.Timeout | undefined;
  const answer = once(child, "message").then(([played]: Played[]) => {
    if (played === undefined) throw failed("answered with nothing");
    return played;
  });
  const ended = exited.then(() => Promise.reject(failed("ended without an answer")));
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(failed(`did not answer within ${PLAY_MS_MAX} ms`)), PLAY_MS_MAX);
  });
  for (const other of [ended, late, answer]) other.catch(() => undefined);
  child.send(play);
  return Promise.race([answer, ended, late]).finally(() => clearTimeout(timer));
}
