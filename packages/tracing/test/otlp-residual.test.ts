// Spans from lines and answers, and the time of a trace that none of them claims.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ATTR } from "../src/names.ts";
import { readSpans } from "../src/otlp-line.ts";
import { renderResiduals, tellingResiduals } from "../src/otlp-residual.ts";
import type { OtlpSpan } from "../src/otlp-span.ts";
import { traceOf } from "../src/otlp-trace.ts";
import { renderTrace } from "../src/otlp-tree.ts";

const span = (
  id: number,
  parent: number | undefined,
  times: readonly [from: number, to: number],
  name: string,
): OtlpSpan => ({
  traceId: "4f9c1d2e000000000000000000000001",
  spanId: id.toString(16).padStart(16, "0"),
  ...(parent === undefined ? {} : { parentSpanId: parent.toString(16).padStart(16, "0") }),
  name,
  kind: "INTERNAL",
  startTimeUnixNano: String(BigInt(Math.round(times[0] * 1000)) * 1_000_000n),
  endTimeUnixNano: String(BigInt(Math.round(times[1] * 1000)) * 1_000_000n),
  durationMs: (times[1] - times[0]) * 1000,
  status: { code: "UNSET" },
  attributes: {},
  events: [],
  links: [],
  resource: {},
  scope: "",
});
/** The seed's: a tool node of 45.4 s whose one child took its last 14.4 s. */
const seed = [
  span(1, undefined, [0, 52.4], "graph.invoke"),
  span(2, 1, [0, 2.1], "node:model"),
  span(3, 1, [2.1, 47.5], "node:tools"),
  span(4, 3, [33.1, 47.5], "tool:charge_subscription"),
  span(5, 1, [47.6, 52.4], "node:model"),
];

describe("unattributed time", () => {
  it("is named with its span, its place and the constants it fits", () => {
    const trace = traceOf(seed);
    const found = tellingResiduals(trace, [
      { name: "charge timeout", ms: 30_000 },
      { name: "visibility", ms: 60_000 },
    ]);
    expect(renderResiduals(found, trace)).toBe(
      "← 31.0s unattributed in node:tools, from its start before tool:charge_subscription; fits charge timeout (30.0s)",
    );
  });

  it("is what the tree marks with an arrow, no more and no less", () => {
    const trace = traceOf(seed);
    expect(renderTrace(trace).match(/←/g)).toHaveLength(tellingResiduals(trace).length);
  });

  it("is nothing in an obituary, which knows moments and no durations", () => {
    const spans = seed.map((one) => ({ ...one, attributes: { [ATTR.reconstructed]: true } }));
    expect(tellingResiduals(traceOf(spans))).toEqual([]);
  });

  it("makes no line of its own out of a name", () => {
    const spans = [span(1, undefined, [0, 10], "a\n\u001b[2Jb"), span(2, 1, [0, 1], "c")];
    const trace = traceOf(spans);
    expect(renderResiduals(tellingResiduals(trace), trace).split("\n")).toHaveLength(1);
  });

  it("is cut to the terminal together with its tree", () => {
    const lines = renderTrace(traceOf(seed), { columnsMax: 40 }).split("\n").slice(1);
    expect(Math.max(...lines.map((line) => [...line].length))).toBeLessThanOrEqual(40);
  });
});

describe("a line of spans", () => {
  const wire = {
    resourceSpans: [
      {
        scopeSpans: [
          {
            spans: [
              {
                traceId: "4f9c1d2e000000000000000000000001",
                spanId: "00000000000000aa",
                name: "process q",
                startTimeUnixNano: "1",
                endTimeUnixNano: "2",
              },
            ],
          },
        ],
      },
    ],
  };

  it("is a request as collectors write it, a span as the sink does, or the sink's list of traces", () => {
    expect(readSpans(wire)).toMatchObject([{ spanId: "00000000000000aa" }]);
    expect(readSpans(seed[0])).toEqual([seed[0]]);
    expect(readSpans(JSON.parse(JSON.stringify([traceOf(seed)])))).toEqual(seed);
  });

  it("never makes the reader throw, whatever JSON comes, and what it gives can be printed", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const spans = readSpans(value);
        renderTrace(traceOf(spans));
      }),
    );
    const odd = { ...seed[0], events: undefined, links: undefined, kind: 7 };
    expect(() => renderTrace(traceOf(readSpans(odd)))).not.toThrow();
    expect(readSpans({ ...seed[0], traceId: "x" })).toEqual([]);
    expect(readSpans({ ...seed[0], startTimeUnixNano: "soon" })).toEqual([]);
  });
});
