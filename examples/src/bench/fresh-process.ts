// Measures a benchmark in processes of its own: what one process compiled or laid out by chance must not be the figure.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Benchmark, Figure } from "./benchmark.ts";
import { BenchError } from "./errors.ts";
import { median, spreadOf } from "./statistics.ts";

const MAIN = fileURLToPath(new URL("main.js", import.meta.url));

/** The median over `benchmark.processes` of them. A void one is tried again, as often in all as there are processes. */
export async function measureFresh(benchmark: Benchmark): Promise<Figure> {
  const wanted = benchmark.processes ?? 1;
  const figures: Figure[] = [];
  for (let tries = 0; tries < 2 * wanted && countGood(figures) < wanted; tries += 1) {
    figures.push(await measureOnce(benchmark.name));
  }
  return combine(figures, wanted);
}

function countGood(figures: readonly Figure[]): number {
  return figures.filter(({ value }) => value !== null).length;
}

async function measureOnce(name: string): Promise<Figure> {
  const child = spawn(process.execPath, [MAIN, "--in-process", "--json", name], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (piece: string) => {
    output += piece;
  });
  const [code]: (number | null)[] = await once(child, "close");
  const line = output.trim();
  // A void figure ends with a code of its own and is a figure all the same.
  if (line !== "") return JSON.parse(line) as Figure; // Our own line, printed by jsonLine.
  throw new BenchError(
    "BENCH_PROCESS_FAILED",
    `The process that measures ${name} ended with code ${code} and no figure.`,
  );
}

/** Pure: one figure of many. With too few good ones it is void, with the last complaint. */
export function combine(figures: readonly Figure[], wanted: number): Figure {
  const good = figures.flatMap((figure) => (figure.value === null ? [] : [figure]));
  const [only] = good;
  const last = figures.at(-1);
  if (only !== undefined && wanted === 1) return only;
  if (only !== undefined && good.length >= wanted) {
    const values = good.map(({ value }) => value);
    const medianOf = (parts: readonly (number | null)[]): number | null => {
      const numbers = parts.filter((part) => part !== null);
      return numbers.length === 0 ? null : median(numbers);
    };
    return {
      ...only,
      value: median(values),
      baseline: medianOf(good.map(({ baseline }) => baseline)),
      ratio: medianOf(good.map(({ ratio }) => ratio)),
      n: good.length,
      spread: spreadOf(values),
    };
  }
  if (last === undefined) throw new BenchError("BENCH_NO_VALUES", "There is no figure of no processes.");
  const complaint = figures.findLast(({ value }) => value === null);
  const why = complaint?.value === null ? complaint.void : "";
  const count = `${good.length} of ${figures.length} processes were quiet, ${wanted} are wanted`;
  const { name, unit } = last;
  return {
    name,
    value: null,
    unit,
    baseline: null,
    ratio: null,
    n: good.length,
    spread: null,
    void: `${count}: ${why}`,
  };
}
