// Residuals: the seed's incident in figures, what covers and what does not, and the sums for any tree.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { constantsMatching, type ResidualSpan, residuals, uncovered } from "../src/index.ts";

const ns = (ms: number): bigint => BigInt(Math.round(ms * 1e6));
const span = (id: string, parentId: string | undefined, [fromMs, forMs]: readonly [number, number]): ResidualSpan => ({
  id,
  parentId,
  name: id,
  startNs: ns(fromMs),
  endNs: ns(fromMs + forMs),
});

/** run_9f21c0 of the seed, "Reading an unattributed interval": the runtime's own work lies between the children of the root. */
const INCIDENT: readonly ResidualSpan[] = [
  span("graph.invoke", undefined, [0, 52_400]),
  span("node:model 4", "graph.invoke", [800, 2_100]),
  span("checkpoint.put 4", "graph.invoke", [2_950, 31]),
  span("node:tools", "graph.invoke", [3_700, 45_400]),
  span("tool:charge_subscription", "node:tools", [34_700, 14_400]),
  span("POST", "tool:charge_subscription", [34_750, 14_300]),
  span("checkpoint.put 5", "graph.invoke", [49_150, 28]),
  span("node:model 6", "graph.invoke", [49_900, 1_900]),
];
const CONSTANTS = [
  { name: "SQS visibility", ms: 120_000 },
  { name: "Stripe client timeout", ms: 30_000 },
  { name: "backoff 2", ms: 1_500 },
  { name: "backoff 1", ms: 500 },
] as const;

describe("the incident of the seed", () => {
  const found = new Map(residuals(INCIDENT, { constants: CONSTANTS }).map((one) => [one.id, one]));

  it("finds 31.0 s between the node's opening and its tool, the length of a 30 s timeout", () => {
    expect(found.get("node:tools")).toMatchObject({ uncoveredNs: ns(31_000), coveredNs: ns(14_400) });
    expect(found.get("node:tools")?.intervals).toEqual([
      {
        position: "before",
        startNs: ns(3_700),
        endNs: ns(34_700),
        durationMs: 31_000,
        offsetMs: 0,
        previousId: undefined,
        nextId: "tool:charge_subscription",
        matches: [CONSTANTS[1]],
        kind: "unattributed",
      },
    ]);
  });

  it("finds the runtime's 2.941 s in the root, in pieces that fit no timeout", () => {
    const root = found.get("graph.invoke");
    expect(root?.uncoveredNs).toBe(ns(52_400 - 2_100 - 31 - 45_400 - 28 - 1_900));
    expect(root?.intervals.map(({ durationMs, position }) => [durationMs, position])).toEqual([
      [800, "before"],
      [722, "between"],
      [719, "between"],
      [600, "after"],
      [50, "between"],
      [50, "between"],
    ]);
    expect(root?.intervals.flatMap(({ matches }) => matches)).toEqual([]);
  });

  it("leaves a tool almost nothing, and a request nobody looks into its whole time", () => {
    expect(found.get("tool:charge_subscription")?.uncoveredNs).toBe(ns(100));
    expect(found.get("POST")?.intervals[0]?.position).toBe("whole");
  });
});

describe("what covers", () => {
  const parent = span("parent", undefined, [0, 100]);
  const gapsOf = (children: readonly ResidualSpan[]): readonly (readonly [number, number])[] =>
    uncovered(parent, children).map(({ offsetMs, durationMs }) => [offsetMs, durationMs]);

  it("counts parallel children once, and one inside another not at all", () => {
    const children = [span("a", "parent", [10, 30]), span("b", "parent", [20, 40]), span("c", "parent", [25, 5])];
    expect(gapsOf(children)).toEqual([
      [0, 10],
      [60, 40],
    ]);
  });

  it("counts a child inside its parent only: early, late, both, and one that lies elsewhere", () => {
    expect(gapsOf([span("early", "parent", [-50, 60]), span("late", "parent", [90, 500])])).toEqual([[10, 80]]);
    expect(gapsOf([span("both", "parent", [-50, 500])])).toEqual([]);
    expect(gapsOf([span("before", "parent", [-50, 20]), span("after", "parent", [200, 20])])).toEqual([[0, 100]]);
  });

  it("lets an empty or reversed child split nothing", () => {
    expect(gapsOf([span("empty", "parent", [50, 0]), span("reversed", "parent", [60, -20])])).toEqual([[0, 100]]);
  });

  it("takes a repeated span once, a span that is its own parent as childless, a reversed one as empty", () => {
    const [twice, own, reversed, ...rest] = residuals([
      span("a", undefined, [0, 100]),
      span("own", "own", [0, 10]),
      span("reversed", undefined, [10, -10]),
      span("a", undefined, [0, 900]),
    ]);
    expect([twice?.durationNs, own?.uncoveredNs, reversed?.durationNs]).toEqual([ns(100), ns(10), 0n]);
    expect(reversed?.intervals).toEqual([]);
    expect(rest).toEqual([]);
  });
});

describe("constants", () => {
  it("fit within their tolerance, on both sides, the nearest first", () => {
    const constants = [
      { name: "timeout", ms: 30_000 },
      { name: "visibility", ms: 31_000 },
      { name: "strict", ms: 30_000, tolerance: 0.01 },
      { name: "off", ms: 0 },
    ];
    const names = (ms: number): readonly string[] => constantsMatching(ms, constants).map(({ name }) => name);
    expect(names(31_000)).toEqual(["visibility", "timeout"]);
    expect(names(30_100)).toEqual(["timeout", "strict", "visibility"]);
    expect(names(28_500)).toEqual(["timeout"]);
    expect(names(28_499)).toEqual([]);
    expect(names(0)).toEqual([]);
  });

  it("are refused above 256, as is a limit below one interval", () => {
    const many = Array.from({ length: 257 }, (_, n) => ({ name: `${n}`, ms: n + 1 }));
    expect(() => residuals([], { constants: many })).toThrow("constants.length");
    expect(() => residuals([], { intervalsMax: 0 })).toThrow("intervalsMax");
  });
});

describe("for any tree", () => {
  const trees = fc.array(
    fc.record({
      id: fc.nat(30).map(String),
      parentId: fc.option(fc.nat(30).map(String), { nil: undefined }),
      name: fc.constant("span"),
      startNs: fc.bigInt(-50n, 1_000n),
      endNs: fc.bigInt(-50n, 1_000n),
    }),
    { maxLength: 60 },
  );

  it("covered and uncovered make the duration, and each nanosecond is in an interval or in a child", () => {
    fc.assert(
      fc.property(trees, (spans) => {
        const distinct = new Map(spans.toReversed().map((one) => [one.id, one]));
        for (const found of residuals(spans, { intervalsMax: 1_000 })) {
          const own = distinct.get(found.id);
          if (own === undefined) throw new Error("a result without a span");
          expect(found.coveredNs + found.uncoveredNs).toBe(found.durationNs);
          const children = [...distinct.values()].filter((one) => one.parentId === own.id && one.id !== own.id);
          let free = 0n;
          for (let at = own.startNs; at < own.endNs; at++) {
            const inChild = children.some((child) => child.startNs <= at && at < child.endNs);
            const inInterval = found.intervals.some((gap) => gap.startNs <= at && at < gap.endNs);
            if (inChild === inInterval) throw new Error(`nanosecond ${at} of span ${own.id}`);
            if (!inChild) free += 1n;
          }
          expect(found.uncoveredNs).toBe(free);
          const sizes = found.intervals.map((gap) => gap.durationMs);
          expect(sizes).toEqual(sizes.toSorted((left, right) => right - left));
        }
      }),
      { numRuns: 100 },
    );
  });

  it("stays bounded and quick for 50,000 siblings, for 50,000 copies of a parent, and for a chain", () => {
    const siblings = Array.from({ length: 50_000 }, (_, n) => span(`s${n}`, "root", [2 * n, 1]));
    const copies = Array.from({ length: 50_000 }, () => span("root", undefined, [0, 100_000]));
    const chain = Array.from({ length: 50_000 }, (_, n) => span(`c${n}`, `c${n - 1}`, [n, 100_000]));
    const started = process.cpuUsage();
    const [root] = residuals([...copies, ...siblings, ...chain], { constants: CONSTANTS });
    // Quadratic work would take minutes.
    expect(process.cpuUsage(started).user / 1_000).toBeLessThan(10_000);
    expect(root?.intervals).toHaveLength(16);
    expect(root?.intervalsOmitted).toBe(50_000 - 16);
  });
});
