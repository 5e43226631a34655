// Waiting for a model, its streaming and the runtime's own work, told apart from time that is nobody's.

import { describe, expect, it } from "vitest";
import { type ResidualSpan, residuals } from "../src/index.ts";

const span = (
  name: string,
  [from, to]: readonly [number, number],
  more: { readonly parentId?: string; readonly firstTokenMs?: number } = {},
): ResidualSpan => ({
  id: `${name} ${from}`,
  parentId: more.parentId,
  name,
  startNs: BigInt(from) * 1_000_000n,
  endNs: BigInt(to) * 1_000_000n,
  ...(more.firstTokenMs === undefined ? {} : { firstTokenNs: BigInt(more.firstTokenMs) * 1_000_000n }),
});

const kindsOf = (spans: readonly ResidualSpan[], constants: readonly { name: string; ms: number }[] = []) =>
  residuals(spans, { constants })[0]?.intervals.map(({ kind, offsetMs, durationMs }) => [kind, offsetMs, durationMs]);

describe("a model's time", () => {
  it("is waiting until its first token, and streaming from there", () => {
    const model = span("model:gpt", [1_000, 9_000], { firstTokenMs: 3_500 });
    expect(kindsOf([model])).toEqual([
      ["streaming", 2_500, 5_500],
      ["model_wait", 0, 2_500],
    ]);
    expect(residuals([model])[0]?.uncoveredNs).toBe(8_000_000_000n);
  });

  it("is cut only where no child covers the first token", () => {
    const model = span("model:gpt", [0, 10_000], { firstTokenMs: 4_000 });
    const http = span("POST", [1_000, 6_000], { parentId: model.id });
    expect(kindsOf([model, http])).toEqual([
      ["streaming", 6_000, 4_000],
      ["model_wait", 0, 1_000],
    ]);
  });

  it("is waiting as a whole without streaming, unless it fits a timeout that somebody configured", () => {
    expect(kindsOf([span("model:gpt", [0, 4_000])])).toEqual([["model_wait", 0, 4_000]]);
    const timeout = [{ name: "model timeout", ms: 4_000 }];
    expect(kindsOf([span("model:gpt", [0, 4_000])], timeout)).toEqual([["unattributed", 0, 4_000]]);
  });
});

describe("a gap between two steps", () => {
  it.each(["graph.invoke", "process agent-runs"])(
    "of %s is the runtime's when it is short and fits nothing",
    (name) => {
      const parent = span(name, [0, 3_600]);
      const steps = [span("node:agent", [100, 1_000]), span("node:tools", [1_500, 3_600])];
      const children = steps.map((step) => ({ ...step, parentId: parent.id }));
      expect(kindsOf([parent, ...children])).toEqual([
        ["runtime", 1_000, 500],
        ["runtime", 0, 100],
      ]);
      expect(kindsOf([parent, ...children], [{ name: "backoff", ms: 500 }])).toEqual([
        ["unattributed", 1_000, 500],
        ["runtime", 0, 100],
      ]);
    },
  );

  it("of a second and more is nobody's, as is any inside a node", () => {
    const graph = span("graph.invoke", [0, 5_000]);
    const step = span("node:agent", [1_000, 5_000], { parentId: graph.id });
    expect(kindsOf([graph, step])).toEqual([["unattributed", 0, 1_000]]);
    expect(kindsOf([span("node:tools", [0, 300])])).toEqual([["unattributed", 0, 300]]);
  });
});
