// The runner of the benchmarks: what it lists, prints and refuses. That each of them still runs is a step of `npm run verify`.

import { beforeAll, expect, it } from "vitest";
import { build, runBuilt } from "./built.ts";

const BENCH = "bench/main.js";
const TIMEOUT_MS = 180_000;

beforeAll(build, TIMEOUT_MS);

const linesOf = (stdout: string): readonly Record<string, unknown>[] =>
  stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

/** One without anything, one in this process, one on a server. */
const NAMES = ["tools.replay_vs_select", "tools.dispatch_us", "worker.outage_receives"];

it(
  "--once --json prints one well-formed line for each benchmark that is named, and nothing else on stdout",
  async () => {
    const listed = linesOf((await runBuilt(BENCH, ["--list", "--json"])).stdout);
    const { code, stdout, stderr } = await runBuilt(BENCH, ["--once", "--json", ...NAMES]);
    expect(code, stderr).toBe(0);
    const figures = linesOf(stdout);
    const named = listed.filter(({ name }) => NAMES.includes(String(name)));
    expect(figures.map(({ name, unit }) => ({ name, unit }))).toEqual(named.map(({ name, unit }) => ({ name, unit })));
    for (const figure of figures) {
      expect(Object.keys(figure)).toEqual(["name", "value", "unit", "baseline", "ratio", "n", "spread"]);
      const { value, baseline, ratio, n, spread } = figure;
      expect(value).toEqual(expect.any(Number));
      expect(n).toBeGreaterThan(0);
      expect(spread).toEqual([expect.any(Number), expect.any(Number)]);
      if (ratio !== null) expect(Math.abs(Number(ratio) / (Number(value) / Number(baseline)) - 1)).toBeLessThan(0.01);
    }
  },
  TIMEOUT_MS,
);

it(
  "measures one named benchmark in a process of its own",
  async () => {
    const { code, stdout, stderr } = await runBuilt(BENCH, ["--json", "tracing.gate_1kb_us"]);
    // On a loaded machine the figure may be void, which is a well-formed answer too.
    expect([0, 3], stderr).toContain(code);
    const [figure, ...more] = linesOf(stdout);
    expect(more).toEqual([]);
    expect(figure).toMatchObject({ name: "tracing.gate_1kb_us", unit: "us" });
    expect(figure?.["value"] === null).toBe(code === 3);
  },
  TIMEOUT_MS,
);

it("refuses an unknown name with the nearest one and exit code 2, and prints no figure", async () => {
  const { code, stdout, stderr } = await runBuilt(BENCH, ["--json", "tools.dispatchus"]);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toContain('The nearest one is "tools.dispatch_us"');
});
