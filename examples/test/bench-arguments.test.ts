// The command line of the benchmarks, and the lines they print.

import { describe, expect, it } from "vitest";
import { nearest, planOf } from "../src/bench/arguments.ts";
import type { Figure } from "../src/bench/benchmark.ts";
import { humanLine, jsonLine } from "../src/bench/print.ts";
import { BENCHMARKS } from "../src/bench/registry.ts";

const KNOWN = ["tools.dispatch_us", "tools.barrier_us", "tracing.gate_1kb_us"];

describe("the plan", () => {
  it("is all benchmarks in order when none is named, each named one once otherwise", () => {
    expect(planOf([], KNOWN)).toEqual({ kind: "run", names: KNOWN, json: false, once: false, inProcess: false });
    const named = planOf(["--json", "tools.barrier_us", "--once", "tools.barrier_us"], KNOWN);
    expect(named).toMatchObject({ names: ["tools.barrier_us"], json: true, once: true });
  });

  it("is a list with --list", () => {
    expect(planOf(["--list", "--json"], KNOWN)).toEqual({ kind: "list", json: true });
  });

  it.each([
    ["tools.dispach_us", "tools.dispatch_us"],
    ["barrier", "tools.barrier_us"],
    ["tracing.gate_2kb_us", "tracing.gate_1kb_us"],
  ])("refuses the unknown %s and names the nearest, %s", (unknown, near) => {
    const plan = planOf(["tools.dispatch_us", unknown], KNOWN);
    expect(plan.kind === "refused" && plan.message).toContain(`"${unknown}". The nearest one is "${near}".`);
  });

  it("refuses an unknown option with the usage", () => {
    const plan = planOf(["--jsn"], KNOWN);
    expect(plan.kind === "refused" && plan.message).toMatch(/--jsn.*usage: npm run bench/s);
  });

  it("has no nearest name among none", () => {
    expect(nearest("x", [])).toBeUndefined();
  });
});

describe("the lines", () => {
  const figure: Figure = {
    name: "a.b",
    value: 1.23456,
    unit: "ms",
    baseline: 1,
    ratio: 1.23456,
    n: 60,
    spread: [1.1, 1.4],
  };
  const empty: Figure = {
    name: "a.b",
    value: null,
    unit: "ms",
    baseline: null,
    ratio: null,
    n: 2,
    spread: null,
    void: "noisy",
  };

  it("are one JSON object each, four digits, void only where it is", () => {
    expect(jsonLine(figure)).toBe(
      '{"name":"a.b","value":1.235,"unit":"ms","baseline":1,"ratio":1.235,"n":60,"spread":[1.1,1.4]}',
    );
    expect(JSON.parse(jsonLine(empty))).toEqual(empty);
  });

  it("tell people value, baseline, ratio and spread, or that the figure is void", () => {
    expect(humanLine(figure)).toMatch(/^a\.b +1\.23 ms, baseline 1 ms, ratio 1\.23 {2}\[1\.1\.\.1\.4\] {2}n=60$/);
    expect(humanLine({ ...figure, baseline: null, ratio: null })).not.toContain("baseline");
    expect(humanLine(empty)).toMatch(/^a\.b +VOID: noisy$/);
  });
});

it("every benchmark is listed once, under its package's name, and says what it measures", () => {
  const names = BENCHMARKS.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  for (const { name, what, unit } of BENCHMARKS) {
    expect(name).toMatch(/^(tools|tracing|worker)\.[a-z0-9_]+$/);
    expect(what.length).toBeGreaterThan(20);
    // A unit in the name is the unit of the figure.
    if (/_(us|ms)(_\d+)?$/.test(name)) expect(name).toContain(`_${unit}`);
  }
});
