// `npm run bench`: measures the benchmarks that are named, or all, and prints a line for each.
// Exit code: 0 measured, 1 a benchmark failed, 2 nothing was run, 3 a figure is void because the machine was noisy.

import { randomBytes } from "node:crypto";
import { type Postgres, startPostgres } from "@reprise/dev-stack";
import { planOf } from "./arguments.ts";
import type { Benchmark, BenchmarkOptions, Figure } from "./benchmark.ts";
import { measureFresh } from "./fresh-process.ts";
import { humanLine, jsonLine, listLine } from "./print.ts";
import { BENCHMARKS } from "./registry.ts";

/** As in production: what a commit costs is most of what is compared. */
const SETTINGS = { fsync: "on", full_page_writes: "on" };

/** One server for the whole run, started for the first benchmark that asks; every benchmark gets a database of its own. */
function lazyServer() {
  let starting: Promise<Postgres> | undefined;
  return {
    database: async (): Promise<string> => {
      starting ??= startPostgres({ settings: SETTINGS });
      return (await starting).createDatabase({ name: `bench_${randomBytes(6).toString("hex")}` });
    },
    stop: async (): Promise<void> => {
      await (await starting)?.stop();
    },
  };
}

async function measure(benchmark: Benchmark, options: BenchmarkOptions, inProcess: boolean): Promise<Figure> {
  return options.once || inProcess ? benchmark.run(options) : measureFresh(benchmark);
}

async function play(plan: Extract<ReturnType<typeof planOf>, { readonly kind: "run" }>): Promise<number> {
  const server = lazyServer();
  const options = { once: plan.once, database: server.database };
  let exitCode = 0;
  try {
    for (const benchmark of BENCHMARKS.filter(({ name }) => plan.names.includes(name))) {
      try {
        const figure = await measure(benchmark, options, plan.inProcess);
        process.stdout.write(`${plan.json ? jsonLine(figure) : humanLine(figure)}\n`);
        if (figure.value === null) exitCode ||= 3;
      } catch (error) {
        process.stderr.write(`${benchmark.name} failed: ${error instanceof Error ? error.stack : String(error)}\n`);
        exitCode = 1;
      }
    }
  } finally {
    await server.stop();
  }
  return exitCode;
}

const plan = planOf(
  process.argv.slice(2),
  BENCHMARKS.map(({ name }) => name),
);
switch (plan.kind) {
  case "run":
    process.exitCode = await play(plan);
    break;
  case "list":
    for (const { name, unit, what } of BENCHMARKS) {
      process.stdout.write(`${plan.json ? JSON.stringify({ name, unit, what }) : listLine({ name, unit, what })}\n`);
    }
    break;
  case "refused":
    process.stderr.write(`${plan.message}\n`);
    process.exitCode = 2;
    break;
  default:
    plan satisfies never;
}
