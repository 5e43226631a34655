// Median, quantiles, alternating rounds with an A/A arm. No clock and no output in here: an arm returns what it measured.

import { BenchError } from "./errors.ts";

/** 10th and 90th percentile. */
export type Spread = readonly [p10: number, p90: number];

/** Whether the machine was quiet enough: judged by two arms (or halves) that do the same. */
export type Noise = { readonly kind: "quiet" } | { readonly kind: "noisy"; readonly reason: string };

/** One round of one side; resolves to its cost an operation, in the unit of the benchmark. */
export type Arm = () => Promise<number>;

export interface PairedArms {
  readonly baseline: Arm;
  readonly candidate: Arm;
  /** The baseline a second time, on objects of its own: how far it is from the baseline is what the machine alone does. */
  readonly control: Arm;
}

/** `ratio`: candidate / baseline of a round. `difference`: candidate - baseline. */
export type Comparison = "ratio" | "difference";

export interface RoundOptions {
  readonly rounds: number;
  /** Not counted. Default 0. */
  readonly warmupRounds?: number;
  /** How often each arm runs in a round, one after the other. Default 1. */
  readonly operationsPerRound?: number;
  /** What the operations of a round come to. `mean`: where what comes seldom belongs to the cost, as collecting garbage does. Default `median`. */
  readonly roundValue?: "median" | "mean";
  /** How far the A/A comparison may be from 1 (ratio), from 0 (difference, in the unit), or from 1 between halves of single rounds. */
  readonly noiseMax: number;
}

export interface Paired {
  /** Medians over the rounds. */
  readonly baseline: number;
  readonly candidate: number;
  /** Median of the paired comparisons, and their spread. */
  readonly compared: number;
  readonly spread: Spread;
  /** The same median for the control arm. */
  readonly control: number;
  readonly rounds: number;
  readonly noise: Noise;
}

export interface Single {
  readonly value: number;
  readonly spread: Spread;
  readonly rounds: number;
  readonly noise: Noise;
}

/** Linear between the two nearest values; `q` from 0 to 1. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((left, right) => left - right);
  const place = (sorted.length - 1) * q;
  const below = sorted[Math.floor(place)];
  const above = sorted[Math.ceil(place)];
  if (below === undefined || above === undefined) {
    throw new BenchError(
      "BENCH_NO_VALUES",
      "There is no quantile of no values. Give the benchmark at least one round.",
    );
  }
  return below + (above - below) * (place - Math.floor(place));
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function spreadOf(values: readonly number[]): Spread {
  return [quantile(values, 0.1), quantile(values, 0.9)];
}

const ARMS = ["baseline", "candidate", "control"] as const;
type ArmName = (typeof ARMS)[number];

// Every order equally often: an arm that always came after the same one would always meet that one's garbage.
const ORDERS: readonly (readonly ArmName[])[] = [
  ["baseline", "candidate", "control"],
  ["control", "candidate", "baseline"],
  ["candidate", "control", "baseline"],
  ["baseline", "control", "candidate"],
  ["control", "baseline", "candidate"],
  ["candidate", "baseline", "control"],
];

/** Runs the three arms in turns and compares within each round, so that a drift of the machine hits all sides alike. */
export async function pairedRounds(arms: PairedArms, comparison: Comparison, options: RoundOptions): Promise<Paired> {
  const { rounds, warmupRounds = 0, operationsPerRound = 1, noiseMax } = options;
  const ofRound = options.roundValue === "mean" ? mean : median;
  const values: Record<ArmName, number[]> = { baseline: [], candidate: [], control: [] };
  for (let round = -warmupRounds; round < rounds; round += 1) {
    const measured = await playRound(arms, operationsPerRound, Math.abs(round));
    if (round < 0) continue;
    for (const arm of ARMS) values[arm].push(ofRound(measured[arm]));
  }
  const compared = compareAll(values.baseline, values.candidate, comparison);
  const control = median(compareAll(values.baseline, values.control, comparison));
  return {
    baseline: median(values.baseline),
    candidate: median(values.candidate),
    compared: median(compared),
    spread: spreadOf(compared),
    control,
    rounds,
    noise: noiseOf(control, comparison === "ratio" ? 1 : 0, noiseMax),
  };
}

async function playRound(
  arms: PairedArms,
  operations: number,
  firstOrder: number,
): Promise<Readonly<Record<ArmName, number[]>>> {
  const measured: Record<ArmName, number[]> = { baseline: [], candidate: [], control: [] };
  for (let operation = 0; operation < operations; operation += 1) {
    // After the first by lot: a cycle falls into step with the garbage collector, which then always meets the same arm.
    const order = operation === 0 ? firstOrder : Math.floor(Math.random() * ORDERS.length);
    for (const arm of ORDERS[order % ORDERS.length] ?? ARMS) measured[arm].push(await arms[arm]());
  }
  return measured;
}

function compareAll(baseline: readonly number[], other: readonly number[], comparison: Comparison): readonly number[] {
  return baseline.map((base, round) => {
    const value = other[round] ?? Number.NaN;
    return comparison === "ratio" ? value / base : value - base;
  });
}

/** Rounds of one arm alone, for figures without a baseline: the A/A comparison is that of its even and its odd rounds. */
export async function singleRounds(arm: Arm, options: RoundOptions): Promise<Single> {
  const { rounds, warmupRounds = 0, noiseMax } = options;
  for (let round = 0; round < warmupRounds; round += 1) await arm();
  const values: number[] = [];
  for (let round = 0; round < rounds; round += 1) values.push(await arm());
  const even = values.filter((_, round) => round % 2 === 0);
  const odd = values.filter((_, round) => round % 2 === 1);
  const control = odd.length === 0 ? 1 : median(odd) / median(even);
  return { value: median(values), spread: spreadOf(values), rounds, noise: noiseOf(control, 1, noiseMax) };
}

/** Pure: is the A/A comparison near enough to what two equal sides must give? */
export function noiseOf(control: number, expected: number, noiseMax: number): Noise {
  const off = Math.abs(control - expected);
  if (off <= noiseMax) return { kind: "quiet" };
  const reason = `the A/A arm gave ${control.toFixed(3)} where equal sides give ${expected}, and ${noiseMax} off is allowed`;
  return { kind: "noisy", reason };
}
