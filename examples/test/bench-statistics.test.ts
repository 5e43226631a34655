// The statistics of the benchmarks: medians, paired rounds, and the A/A arm that voids a noisy run.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { extraFigure, type Figure, ratioFigure, singleFigure } from "../src/bench/benchmark.ts";
import { BenchError, requireWork } from "../src/bench/errors.ts";
import { combine } from "../src/bench/fresh-process.ts";
import { type Arm, median, noiseOf, pairedRounds, quantile, singleRounds, spreadOf } from "../src/bench/statistics.ts";

/** Gives the values in turn, and the last one for ever. */
const gives = (...values: readonly number[]): Arm => {
  let at = 0;
  return async () => values[Math.min(at++, values.length - 1)] ?? Number.NaN;
};

describe("median and quantiles", () => {
  it("stand between the two nearest values and leave the input as it was", () => {
    const values = [4, 1, 3, 2];
    expect(median(values)).toBe(2.5);
    expect(quantile(values, 0)).toBe(1);
    expect(quantile(values, 1)).toBe(4);
    expect(quantile([7], 0.9)).toBe(7);
    expect(spreadOf(Array.from({ length: 11 }, (_, n) => n))).toEqual([1, 9]);
    expect(values).toEqual([4, 1, 3, 2]);
  });

  it("sort numbers as numbers", () => {
    expect(median([10, 9, 100])).toBe(10);
  });

  it("of no values are refused with a code", () => {
    expect(() => median([])).toThrow(expect.objectContaining({ code: "BENCH_NO_VALUES" }));
  });

  it("never leave the range of the values and grow with q", () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ noNaN: true, min: -1e9, max: 1e9 }), { minLength: 1 }),
        fc.double({ noNaN: true, min: 0, max: 1 }),
        (values, q) => {
          const at = quantile(values, q);
          expect(at).toBeGreaterThanOrEqual(Math.min(...values) - 1e-6);
          expect(at).toBeLessThanOrEqual(Math.max(...values) + 1e-6);
          expect(quantile(values, q / 2)).toBeLessThanOrEqual(at + 1e-6);
        },
      ),
    );
  });
});

describe("paired rounds", () => {
  it("compare within a round, so that a drift of the machine hits both sides and not the ratio", async () => {
    const drift = [1, 2, 4, 8, 16];
    const arms = {
      baseline: gives(...drift),
      candidate: gives(...drift.map((value) => value * 1.5)),
      control: gives(...drift),
    };
    const paired = await pairedRounds(arms, "ratio", { rounds: 5, noiseMax: 0.01 });
    expect(paired).toMatchObject({
      compared: 1.5,
      spread: [1.5, 1.5],
      control: 1,
      baseline: 4,
      candidate: 6,
      rounds: 5,
    });
    expect(paired.noise).toEqual({ kind: "quiet" });
  });

  it("take differences where only the extra counts", async () => {
    const arms = { baseline: gives(3, 5, 4), candidate: gives(3.5, 5.5, 4.5), control: gives(3, 5, 4) };
    const paired = await pairedRounds(arms, "difference", { rounds: 3, noiseMax: 0.1 });
    expect(paired).toMatchObject({ compared: 0.5, control: 0, noise: { kind: "quiet" } });
  });

  it("are noisy when the baseline against itself is further off than allowed", async () => {
    const arms = { baseline: gives(1), candidate: gives(1.5), control: gives(1.2) };
    const { noise } = await pairedRounds(arms, "ratio", { rounds: 4, noiseMax: 0.1 });
    expect(noise).toEqual({ kind: "noisy", reason: expect.stringContaining("gave 1.200") });
    const late = { baseline: gives(1), candidate: gives(1), control: gives(0.8) };
    expect((await pairedRounds(late, "ratio", { rounds: 4, noiseMax: 0.1 })).noise.kind).toBe("noisy");
  });

  it("put every arm into every place equally often, warm up uncounted, and play operations in turns", async () => {
    const order: string[] = [];
    const arm =
      (name: string): Arm =>
      async () => {
        order.push(name);
        return order.length;
      };
    const arms = { baseline: arm("b"), candidate: arm("c"), control: arm("k") };
    const paired = await pairedRounds(arms, "ratio", { rounds: 6, warmupRounds: 6, noiseMax: 9 });
    const rounds = Array.from({ length: 12 }, (_, round) => order.slice(3 * round, 3 * round + 3).join(""));
    expect(new Set(rounds.slice(6)).size).toBe(6);
    expect(rounds.every((round) => [...round].sort().join("") === "bck")).toBe(true);
    expect(paired.rounds).toBe(6);
    order.length = 0;
    await pairedRounds(arms, "ratio", { rounds: 1, operationsPerRound: 3, noiseMax: 9 });
    expect(order).toHaveLength(9);
    expect(new Set(order.slice(0, 3)).size).toBe(3);
  });

  it("make one value of the operations of a round, their median or their mean", async () => {
    const arms = { baseline: gives(1, 1, 4), candidate: gives(2, 2, 8), control: gives(1, 1, 4) };
    const how = { rounds: 1, operationsPerRound: 3, noiseMax: 9 };
    expect(await pairedRounds(arms, "difference", how)).toMatchObject({ baseline: 1, candidate: 2 });
    const again = { baseline: gives(1, 1, 4), candidate: gives(2, 2, 8), control: gives(1, 1, 4) };
    expect(await pairedRounds(again, "difference", { ...how, roundValue: "mean" })).toMatchObject({
      baseline: 2,
      candidate: 4,
      compared: 2,
    });
  });
});

describe("single rounds", () => {
  it("take the median and compare their even with their odd rounds", async () => {
    const quiet = await singleRounds(gives(9, 2, 2, 4, 4), { rounds: 4, warmupRounds: 1, noiseMax: 0.5 });
    expect(quiet).toMatchObject({ value: 3, rounds: 4, noise: { kind: "quiet" } });
    const noisy = await singleRounds(gives(1, 2, 1, 2, 1, 2), { rounds: 6, noiseMax: 0.1 });
    expect(noisy.noise.kind).toBe("noisy");
    expect((await singleRounds(gives(5), { rounds: 1, noiseMax: 0 })).noise.kind).toBe("quiet");
  });

  it("are noisy beyond the limit and not at it", () => {
    expect(noiseOf(0.1, 0, 0.1).kind).toBe("quiet");
    expect(noiseOf(-0.11, 0, 0.1).kind).toBe("noisy");
    expect(noiseOf(Number.NaN, 1, 0.1).kind).toBe("noisy");
  });
});

describe("a figure", () => {
  const named = { name: "a.b", unit: "ms" };
  const options = { once: false, database: async () => "" };
  const paired = { baseline: 2, candidate: 3, compared: 1.4, spread: [1, 2] as const, control: 1, rounds: 9 };
  const quiet = { ...paired, noise: { kind: "quiet" } as const };
  const noisy = { ...paired, noise: { kind: "noisy", reason: "the A/A arm gave 1.3" } as const };

  it("of a ratio is value / baseline, with the spread of the pairs", () => {
    expect(ratioFigure(named, quiet, options)).toEqual({
      ...named,
      value: 3,
      baseline: 2,
      ratio: 1.5,
      n: 9,
      spread: [1, 2],
    });
  });

  it("of a difference is the extra, and of a single the value, both without a ratio", () => {
    expect(extraFigure(named, quiet, options)).toMatchObject({ value: 1.4, baseline: 2, ratio: null });
    const single = { value: 5, spread: [4, 6] as const, rounds: 3, noise: { kind: "quiet" } as const };
    expect(singleFigure(named, single, options)).toMatchObject({ value: 5, baseline: null, ratio: null, n: 3 });
  });

  it("of a noisy run is void, holds no value to quote, and says what was seen", () => {
    const figure = ratioFigure(named, noisy, options);
    expect(figure).toMatchObject({ value: null, baseline: null, ratio: null, spread: null });
    expect(figure.value === null && figure.void).toMatch(/the A\/A arm gave 1.3.*ratio 1.500/);
  });

  it("is not judged for noise when only asked whether it runs", () => {
    expect(ratioFigure(named, noisy, { ...options, once: true }).value).toBe(3);
  });
});

describe("figures of fresh processes", () => {
  const good = (value: number): Figure => ({
    name: "a",
    unit: "us",
    value,
    baseline: 3,
    ratio: null,
    n: 60,
    spread: [0, 1],
  });
  const bad: Figure = {
    name: "a",
    unit: "us",
    value: null,
    baseline: null,
    ratio: null,
    n: 60,
    spread: null,
    void: "loud",
  };

  it("are one figure: the median, spread over the processes", () => {
    expect(combine([good(1), bad, good(3), good(2)], 3)).toEqual({ ...good(2), n: 3, spread: [1.2, 2.8] });
  });

  it("are void when too few were quiet", () => {
    const figure = combine([good(1), bad, bad], 2);
    expect(figure.value === null && figure.void).toBe("1 of 3 processes were quiet, 2 are wanted: loud");
  });

  it("pass through when one is all that is wanted", () => {
    expect(combine([bad, good(4)], 1)).toEqual(good(4));
  });
});

it("a benchmark that did the wrong work fails with a code instead of printing a figure", () => {
  expect(() => requireWork(false, "no spans")).toThrow(BenchError);
  expect(() => requireWork(true, "")).not.toThrow();
});
