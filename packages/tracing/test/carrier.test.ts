// Trace context in SQS message attributes, both ways.

import { context, ROOT_CONTEXT, TraceFlags, trace } from "@opentelemetry/api";
import { TraceState } from "@opentelemetry/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { extractTrace, injectTrace } from "../src/index.ts";

const spanContext = {
  traceId: "0af7651916cd43dd8448eb211c80319c",
  spanId: "b7ad6b7169203331",
  traceFlags: TraceFlags.SAMPLED,
  traceState: new TraceState("ot=rv:ab"),
};
const active = trace.setSpanContext(ROOT_CONTEXT, spanContext);
const many = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`a${n}`, { DataType: "Number", StringValue: "1" }]));

describe("the carrier", () => {
  it("brings a span through a message as remote parent", () => {
    const attributes = injectTrace({ mine: { DataType: "String", StringValue: "x" } }, active);
    expect(attributes).toEqual({
      mine: { DataType: "String", StringValue: "x" },
      traceparent: { DataType: "String", StringValue: `00-${spanContext.traceId}-${spanContext.spanId}-01` },
      tracestate: { DataType: "String", StringValue: "ot=rv:ab" },
    });
    const extracted = extractTrace(attributes);
    expect(extracted.spanContext).toMatchObject({
      traceId: spanContext.traceId,
      spanId: spanContext.spanId,
      isRemote: true,
    });
    expect(trace.getSpanContext(extracted.context)).toBe(extracted.spanContext);
  });

  it.each([
    [8, 10, true, true],
    [9, 10, true, false],
    [10, 10, false, false],
  ])("never exceeds ten attributes: %i own ones give %i", (own, all, parent, state) => {
    const attributes = injectTrace(many(own), active);
    expect([Object.keys(attributes).length, "traceparent" in attributes, "tracestate" in attributes]).toEqual([
      all,
      parent,
      state,
    ]);
  });

  it("replaces a stale pair as a pair, also among ten", () => {
    const stale = {
      traceparent: { DataType: "String", StringValue: "old" },
      tracestate: { DataType: "String", StringValue: "old" },
    };
    const plain = trace.setSpanContext(ROOT_CONTEXT, { ...spanContext, traceState: new TraceState("") });
    const attributes = injectTrace({ ...many(8), ...stale }, plain);
    expect(Object.keys(attributes)).toHaveLength(9);
    expect(attributes["traceparent"]?.StringValue).toContain(spanContext.traceId);
    expect(injectTrace({ ...many(8), ...stale }, active)["tracestate"]?.StringValue).toBe("ot=rv:ab");
  });

  it("adds nothing without an active span", () => {
    expect(injectTrace(many(2))).toEqual(many(2));
  });

  it("reads anything malformed as absent and never as the active span", () => {
    const bad: unknown[] = [
      undefined,
      null,
      1,
      "x",
      [],
      {},
      { traceparent: null },
      { traceparent: "00-1-2-3" },
      { traceparent: { StringValue: 7 } },
      { traceparent: { StringValue: "" } },
      { traceparent: { StringValue: `00-${"0".repeat(32)}-b7ad6b7169203331-01` } },
      { traceparent: { StringValue: "x".repeat(1_000_000) } },
      JSON.parse('{"__proto__":{"traceparent":{"StringValue":"x"}}}'),
    ];
    for (const attributes of bad) {
      const extracted = context.with(active, () => extractTrace(attributes));
      expect(extracted).toEqual({ context: ROOT_CONTEXT });
    }
    fc.assert(
      fc.property(fc.anything(), fc.string(), (any, text) => {
        extractTrace(any);
        extractTrace({ traceparent: { StringValue: text }, tracestate: { StringValue: text } });
      }),
    );
  });
});
