// Keeping spans in bounds, in memory and in a file: without a network.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { OtlpSpan } from "@reprise/tracing";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { span } from "../../../packages/tracing/test/otlp-spans.ts";
import { openSinkFile } from "../src/sink-file.ts";
import { createSinkStore } from "../src/sink-store.ts";

describe("the store", () => {
  it("drops the oldest trace over either bound and counts what it dropped", () => {
    const other = (digit: string): Partial<OtlpSpan> => ({ traceId: digit.repeat(32) });
    const store = createSinkStore({ spansMax: 3, bytesMax: 100 });
    store.add(span(1, 0, 1, other("a")), 10);
    store.add(span(2, 0, 1, other("a")), 10);
    store.add(span(3, 0, 1, other("b")), 10);
    store.add(span(4, 0, 1, other("c")), 10);
    expect(store.traces().map(({ traceId }) => traceId[0])).toEqual(["b", "c"]);
    store.add(span(5, 0, 1, other("d")), 95);
    expect(store.stats()).toEqual({
      traces: 1,
      spans: 1,
      bytes: 95,
      tracesDropped: 3,
      spansDropped: 4,
      spansRepeated: 0,
    });
  });

  it("keeps the later of two spans under one id: an exporter sent the batch again", () => {
    const store = createSinkStore({ spansMax: 9, bytesMax: 100 });
    store.add(span(1, 0, 1), 10);
    store.add(span(1, 0, 2), 15);
    expect(store.stats()).toMatchObject({ spans: 1, bytes: 15, spansRepeated: 1 });
    expect(store.traces()[0]?.durationMs).toBe(2);
  });

  it("never exceeds its bounds", () => {
    const spans = fc.array(
      fc.record({
        trace: fc.integer({ min: 0, max: 5 }),
        id: fc.integer({ min: 1, max: 9 }),
        bytes: fc.integer({ min: 1, max: 40 }),
      }),
    );
    fc.assert(
      fc.property(spans, (list) => {
        const store = createSinkStore({ spansMax: 7, bytesMax: 90 });
        for (const { trace, id, bytes } of list) {
          store.add(span(id, 0, 1, { traceId: String(trace).repeat(32) }), bytes);
          const stats = store.stats();
          expect(stats.spans).toBeLessThanOrEqual(7);
          expect(stats.bytes).toBeLessThanOrEqual(90);
          expect(stats.spans).toBe(store.traces().reduce((sum, one) => sum + one.spans.length, 0));
        }
      }),
    );
  });
});

describe("the file", () => {
  it("starts anew over its bound, keeps the one before, and counts what a bad path loses", () => {
    const dir = mkdtempSync(join(tmpdir(), "reprise-sink-"));
    try {
      const path = join(dir, "deep", "spans.jsonl");
      const file = openSinkFile(path, 10);
      file.append(["12345678"]);
      file.append(["abc"]);
      expect([readFileSync(`${path}.1`, "utf8"), readFileSync(path, "utf8")]).toEqual(["12345678\n", "abc\n"]);
      rmSync(join(dir, "deep"), { recursive: true });
      file.append(["x", "y"]);
      expect(file.linesLost()).toBe(2);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
