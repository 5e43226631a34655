// Reading OTLP and printing it as a tree: pure, so without a network.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ATTR } from "../src/names.ts";
import { type OtlpSpan, readTraceRequest } from "../src/otlp-span.ts";
import { traceOf } from "../src/otlp-trace.ts";
import { renderTrace, residualMs, showDuration } from "../src/otlp-tree.ts";
import { span, TRACE } from "./otlp-spans.ts";

const childOf = (parent: number): Partial<OtlpSpan> => ({ parentSpanId: parent.toString(16).padStart(16, "0") });

const wire = (over: Record<string, unknown> = {}): unknown => ({
  resourceSpans: [
    {
      resource: { attributes: [{ key: "service.name", value: { stringValue: "w" } }] },
      scopeSpans: [
        {
          scope: { name: "reprise" },
          spans: [
            {
              traceId: TRACE.toUpperCase(),
              spanId: "00000000000000AA",
              parentSpanId: "",
              name: "process q",
              kind: 5,
              startTimeUnixNano: "1700000000000000001",
              endTimeUnixNano: "1700000000001500001",
              ...over,
            },
          ],
        },
      ],
    },
  ],
});
const readOne = (over?: Record<string, unknown>): OtlpSpan | undefined => {
  const read = readTraceRequest(wire(over));
  return read.ok ? read.spans[0] : undefined;
};

describe("a received span", () => {
  it("keeps ids in lower case, nanoseconds to the last digit, kind, resource and scope", () => {
    expect(readOne()).toMatchObject({
      traceId: TRACE,
      spanId: "00000000000000aa",
      kind: "CONSUMER",
      startTimeUnixNano: "1700000000000000001",
      durationMs: 1.5,
      status: { code: "UNSET" },
      resource: { "service.name": "w" },
      scope: "reprise",
    });
    expect(readOne()).not.toHaveProperty("parentSpanId");
  });

  it("keeps attribute values of every kind", () => {
    const attributes = [
      { key: "s", value: { stringValue: "x" } },
      { key: "b", value: { boolValue: false } },
      { key: "i", value: { intValue: "2" } },
      { key: "n", value: { intValue: 3 } },
      { key: "big", value: { intValue: "9223372036854775807" } },
      { key: "d", value: { doubleValue: 0.5 } },
      { key: "nan", value: { doubleValue: "NaN" } },
      { key: "bytes", value: { bytesValue: "AAE=" } },
      { key: "list", value: { arrayValue: { values: [{ intValue: 1 }, { stringValue: "y" }] } } },
      { key: "map", value: { kvlistValue: { values: [{ key: "k", value: { boolValue: true } }] } } },
      { key: "empty", value: {} },
      { key: "__proto__", value: { stringValue: "harmless" } },
    ];
    const read = readOne({ attributes })?.attributes;
    expect(Object.entries(read ?? {})).toEqual([
      ["s", "x"],
      ["b", false],
      ["i", 2],
      ["n", 3],
      ["big", "9223372036854775807"],
      ["d", 0.5],
      ["nan", "NaN"],
      ["bytes", "AAE="],
      ["list", [1, "y"]],
      ["map", { k: true }],
      ["empty", null],
      ["__proto__", "harmless"],
    ]);
    expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
  });

  it("keeps events, links and status", () => {
    const attributes = [{ key: "a", value: { intValue: 1 } }];
    const read = readOne({
      events: [{ name: "first_token", timeUnixNano: "1700000000000000002", attributes }],
      links: [{ traceId: TRACE, spanId: "00000000000000BB", attributes }],
      status: { code: 2, message: "boom" },
    });
    expect(read?.events).toEqual([{ name: "first_token", timeUnixNano: "1700000000000000002", attributes: { a: 1 } }]);
    expect(read?.links).toEqual([{ traceId: TRACE, spanId: "00000000000000bb", attributes: { a: 1 } }]);
    expect(read?.status).toEqual({ code: "ERROR", message: "boom" });
  });

  it.each([
    ["traceId", { traceId: "xyz" }],
    ["spanId", { spanId: "" }],
    ["name", { name: 7 }],
    ["startTimeUnixNano", { startTimeUnixNano: "soon" }],
    ["endTimeUnixNano", { endTimeUnixNano: -1 }],
  ])("is rejected and counted when its %s is unreadable", (unreadable, over) => {
    expect(readTraceRequest(wire(over))).toEqual({ ok: true, spans: [], rejected: 1, unreadable });
  });

  it("never makes the reader throw, whatever JSON comes", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        readTraceRequest(value);
        readTraceRequest(wire({ attributes: value, events: value, links: value, status: value, kind: value }));
      }),
      { examples: [[{ toString: 0 }]] },
    );
  });

  it("has nested attribute values cut before they exhaust the stack", () => {
    let value: unknown = { intValue: 1 };
    for (let depth = 0; depth < 5_000; depth += 1) value = { arrayValue: { values: [value] } };
    expect(JSON.stringify(readOne({ attributes: [{ key: "deep", value }] })?.attributes).length).toBeLessThan(100);
  });
});

describe("the tree", () => {
  it("prints the seed's unattributed interval", () => {
    const trace = traceOf([
      span(1, 0, 52_400, { name: "graph.invoke", attributes: { "agent.thread_id": "run_9f21c0" } }),
      span(2, 0, 2_100, {
        ...childOf(1),
        name: "node:model",
        attributes: { "agent.step": 4, "gen_ai.usage.input_tokens": 6412, "gen_ai.usage.output_tokens": 118 },
      }),
      span(3, 2_100, 31, {
        ...childOf(1),
        name: "checkpoint.put",
        attributes: { "checkpoint.step": 4, "checkpoint.bytes": 41208 },
      }),
      span(4, 2_200, 45_400, { ...childOf(1), name: "node:tools", attributes: { "agent.step": 5 } }),
      span(5, 33_200, 14_400, {
        ...childOf(4),
        name: "tool:charge_subscription",
        attributes: { "tool.effect_ref": "ch_3Qa1RwB" },
      }),
      span(6, 33_250, 14_300, {
        ...childOf(5),
        name: "POST api.stripe.com/v1/charges",
        attributes: { "http.response.status_code": 201 },
      }),
    ]);
    expect(renderTrace(trace)).toBe(
      [
        "trace 4f9c1d2e…   thread_id=run_9f21c0   total 52.4s",
        "└─ graph.invoke                               52.4s",
        "   ├─ node:model                               2.1s   step=4 in=6412 out=118",
        "   ├─ checkpoint.put                           31ms   step=4 bytes=41208",
        "   └─ node:tools                              45.4s   step=5 ← 31.0s unattributed",
        "      └─ tool:charge_subscription             14.4s   effect=ch_3Qa1RwB",
        "         └─ POST api.stripe.com/v1/charges    14.3s   status=201",
      ].join("\n"),
    );
  });

  it("marks failures, redeliveries and parents that never came", () => {
    const text = renderTrace(
      traceOf([
        span(1, 0, 20, {
          name: "process q",
          attributes: { "agent.receive_count": 2 },
          status: { code: "ERROR", message: "worker lost" },
        }),
        span(2, 1, 1, { ...childOf(99), name: "stray" }),
      ]),
    );
    expect(text).toContain("├─ ✗ process q");
    expect(text).toContain("receive_count=2 error: worker lost");
    expect(text).toContain("(parent 00000000… not received)");
  });

  it("leaves out what is hidden and all below it, whose time its parent still counts as covered", () => {
    const spans = [
      span(1, 0, 1_000),
      span(2, 0, 900, { ...childOf(1), name: "pg.query" }),
      span(3, 0, 100, childOf(2)),
      span(4, 900, 100, childOf(1)),
    ];
    const text = renderTrace(traceOf(spans), { hide: ({ name }) => name.startsWith("pg") });
    expect(text.split("\n")).toHaveLength(3);
    expect(text).not.toContain("unattributed");
    expect(renderTrace(traceOf(spans)).split("\n")).toHaveLength(5);
  });

  it("calls no time of a reconstructed span unattributed: an obituary knows moments, not durations", () => {
    const rebuilt = { attributes: { [ATTR.reconstructed]: true } };
    const text = renderTrace(traceOf([span(1, 0, 1_000, rebuilt), span(2, 5, 0, { ...childOf(1), ...rebuilt })]));
    expect(text).not.toContain("unattributed");
  });

  it("loses no span: cycles and long chains are printed too", () => {
    const cycle = [span(1, 0, 1, childOf(2)), span(2, 0, 1, childOf(1))];
    expect(renderTrace(traceOf(cycle)).split("\n")).toHaveLength(3);
    const chain = Array.from({ length: 5_000 }, (_, at) => span(at + 1, at, 1, at === 0 ? {} : childOf(at)));
    expect(renderTrace(traceOf(chain)).split("\n")).toHaveLength(5_001);
  });

  it("lets nothing that was written by a model move the terminal's cursor or forge a line", () => {
    const text = renderTrace(
      traceOf([span(1, 0, 1, { name: "tool:\u001b[2J\nforged", status: { code: "ERROR", message: "\u202Eevil\r" } })]),
    );
    expect(text.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(text.split("\n")).toHaveLength(2);
  });

  it("counts overlapping children once, and only inside their parent", () => {
    const parent = span(1, 0, 100);
    expect(residualMs(parent, [span(2, 10, 30), span(3, 20, 30), span(4, 90, 50), span(5, 200, 10)])).toBe(50);
    expect(residualMs(parent, [])).toBe(100);
  });

  it.each([
    [0.04, "0.0ms"],
    [31, "31ms"],
    [52_400, "52.4s"],
    [900_000, "15.0min"],
  ])("shows %d ms as %s", (durationMs, shown) => expect(showDuration(durationMs)).toBe(shown));
});
