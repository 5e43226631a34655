// The tail sampler under a hundred thousand spans: within its configured bounds, in fact as in its own count, and every span accounted for.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { context, type Span } from "@opentelemetry/api";
import { afterEach, describe, expect, it } from "vitest";
import { type Harness, harness, reasonsOf } from "./telemetry.ts";

afterEach(() => context.disable());

setFlagsFromString("--expose-gc");
// The flag gives new contexts a `gc`.
const collect = runInNewContext("gc") as () => void;

function heapMiB(): number {
  collect();
  return process.memoryUsage().heapUsed / (1_024 * 1_024);
}

const sum = (counts: Readonly<Record<string, number>>): number => Object.values(counts).reduce((a, b) => a + b, 0);

/** Of every trace that was begun: decided or still held. */
function tracesCounted(h: Harness): number {
  const { kept, dropped, undecidedTraces } = h.tail.stats();
  return sum(kept) + sum(dropped) + undecidedTraces;
}

describe("100,000 traces that are started and never ended", () => {
  it("T16: hold the configured number and no more, and a run of three hours is tracked to its end", async () => {
    const h = harness();
    const long = h.start("three hours");
    h.clock.advance(30_000);
    const before = heapMiB();
    for (let n = 0; n < 100_000; n++) {
      h.start("never ends");
      if (n % 10 === 0) h.clock.advance(1);
      if (n % 1_000 !== 0) continue;
      const { undecidedTraces, decidedTraces, bufferedSpans } = h.tail.stats();
      expect(undecidedTraces).toBeLessThanOrEqual(2_000);
      expect(decidedTraces).toBeLessThanOrEqual(2_000);
      expect(bufferedSpans).toBeLessThanOrEqual(2_000);
    }
    expect(tracesCounted(h)).toBe(100_001);
    expect(h.tail.stats().forcedByCap).toMatchObject({ traces: 98_000, buffered_spans: 0, buffered_bytes: 0 });
    // 4,000 spans of a kilobyte, two memories of verdicts; unbounded they are 100 MiB.
    expect(heapMiB() - before).toBeLessThan(40);
    h.clock.advance(3 * 3_600_000);
    expect(h.tail.stats()).toMatchObject({ undecidedTraces: 0, bufferedSpans: 0, bufferedBytes: 0 });
    h.end(long);
    expect(await h.exported()).toEqual(["three hours"]);
    expect(reasonsOf(h.exporter)).toEqual({ "three hours": "slow" });
  }, 60_000);
});

describe("one trace of 100,000 spans", () => {
  it.each([
    ["ended one by one", false],
    ["all open at once", true],
  ])(
    "%s, holds no more than its part and tells where each span went",
    async (_how, together) => {
      const h = harness();
      const root = h.start("root");
      const open: Span[] = [];
      let most = 0;
      for (let n = 0; n < 100_000; n++) {
        const part = h.start("part", root);
        if (together) open.push(part);
        else h.end(part);
        if (n % 100 === 0) most = Math.max(most, h.tail.stats().bufferedSpans);
      }
      for (const part of open) h.end(part);
      h.fail(root);
      // 5,000 undecided, then the share decides: it says no, and the error at the end brings the root back.
      expect(most).toBeGreaterThan(4_800);
      expect(most).toBeLessThanOrEqual(5_000);
      expect(await h.exported()).toEqual(["root"]);
      const { forcedByCap, spansDropped, spansExported, broughtBack } = h.tail.stats();
      expect({ forcedByCap, broughtBack }).toMatchObject({ forcedByCap: { spans_per_trace: 1 }, broughtBack: 1 });
      expect(sum(spansDropped) + spansExported).toBe(100_001);
    },
    60_000,
  );
});

describe("50,000 traces at once", () => {
  const play = (h: Harness): void => {
    const roots = Array.from({ length: 50_000 }, (_, n) => h.start(`root ${n}`));
    for (const [n, root] of roots.entries()) {
      const call = h.start("call", root);
      if (n % 1_000 === 999) h.fail(call);
      else h.end(call);
    }
    for (const root of roots) h.end(root);
  };

  it("below the cap, lose nothing interesting and nothing uncounted", async () => {
    const h = harness({ maxTraces: 50_000, maxBufferedSpans: 100_000, maxBufferedBytes: 256 * 1_024 * 1_024 });
    play(h);
    expect(await h.exported()).toHaveLength(100);
    expect(Object.values(reasonsOf(h.exporter))).toEqual(Array.from({ length: 50 }, () => "error"));
    const { kept, dropped, forcedByCap, spansDropped } = h.tail.stats();
    expect({ kept: sum(kept), dropped: dropped.share, forced: sum(forcedByCap) }).toEqual({
      kept: 50,
      dropped: 49_950,
      forced: 0,
    });
    expect(spansDropped.sampled_out).toBe(2 * 49_950);
  }, 60_000);

  it("over it, hold what is configured, and lose none of the newest, nor anything uncounted", async () => {
    const h = harness();
    play(h);
    const names = await h.exported();
    // Of the 2,000 that were not pushed out two have an error.
    for (const n of [48_999, 49_999]) expect(names).toContain(`root ${n}`);
    expect(tracesCounted(h)).toBe(50_000);
    const { spansDropped, spansExported, undecidedTraces, decidedTraces, bufferedSpans } = h.tail.stats();
    expect(sum(spansDropped) + spansExported).toBe(100_000);
    expect({ undecidedTraces, decidedTraces, bufferedSpans }).toEqual({
      undecidedTraces: 0,
      decidedTraces: 0,
      bufferedSpans: 0,
    });
  }, 60_000);
});
