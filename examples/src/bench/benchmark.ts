// What a benchmark is, and the figure that it ends in.

import type { Paired, Single, Spread } from "./statistics.ts";

/** One JSON line of `npm run bench -- --json`. */
export type Figure = {
  readonly name: string;
  readonly unit: string;
  /** What it is compared with, in the same unit; null for a figure that stands alone. */
  readonly baseline: number | null;
  /** value / baseline; null without a baseline, and for differences, whose baseline only says how large the whole is. */
  readonly ratio: number | null;
  /** Rounds, or processes where each measured on its own. */
  readonly n: number;
} & (
  | {
      /** Null would be a void figure. */
      readonly value: number;
      /** p10 and p90 of the paired ratios or differences; of the values where nothing is paired. */
      readonly spread: Spread;
    }
  | {
      readonly value: null;
      readonly spread: null;
      /** Why the run does not count: a noisy machine. Says what was seen all the same. */
      readonly void: string;
    }
);

export interface BenchmarkOptions {
  /** The smallest sensible number of rounds, and no verdict about noise: only that it still runs. */
  readonly once: boolean;
  /** URL of an empty database on a server that writes to disk as in production. Started when first asked for. */
  readonly database: () => Promise<string>;
}

export interface Benchmark {
  /** `<package>.<what>` */
  readonly name: string;
  readonly unit: string;
  /** One sentence for people: what against what. */
  readonly what: string;
  /** In how many fresh processes it is measured; the figure is the median over them. Default 1. */
  readonly processes?: number;
  run(options: BenchmarkOptions): Promise<Figure>;
}

type Named = Pick<Benchmark, "name" | "unit">;

/** The figure of a paired ratio: what ours costs, what the baseline costs, one through the other. */
export function ratioFigure({ name, unit }: Named, paired: Paired, options: BenchmarkOptions): Figure {
  const { baseline, candidate, spread, rounds: n } = paired;
  const ratio = candidate / baseline;
  const seen = `ratio ${ratio.toFixed(3)} [${spread.map((end) => end.toFixed(2)).join("..")}]`;
  return counted({ name, unit, baseline, ratio, n, value: candidate, spread }, { ...paired, seen, ...options });
}

/** The figure of a paired difference: what ours adds, beside what the baseline costs. */
export function extraFigure({ name, unit }: Named, paired: Paired, options: BenchmarkOptions): Figure {
  const { baseline, compared: value, spread, rounds: n } = paired;
  const seen = `${value.toFixed(3)} ${unit} extra`;
  return counted({ name, unit, baseline, ratio: null, n, value, spread }, { ...paired, seen, ...options });
}

export function singleFigure({ name, unit }: Named, single: Single, options: BenchmarkOptions): Figure {
  const { value, spread, rounds: n } = single;
  const seen = `${value.toFixed(3)} ${unit}`;
  return counted({ name, unit, baseline: null, ratio: null, n, value, spread }, { ...single, seen, ...options });
}

type Counted = Extract<Figure, { readonly value: number }>;
type Judged = Pick<Single, "noise"> & { readonly seen: string; readonly once: boolean };

// With `once` a few rounds are always noisy, and nobody reads the figure.
function counted(figure: Counted, { noise, seen, once }: Judged): Figure {
  if (once || noise.kind === "quiet") return figure;
  const { name, unit, n } = figure;
  const why = `${noise.reason}; seen ${seen}`;
  return { name, value: null, unit, baseline: null, ratio: null, n, spread: null, void: why };
}
