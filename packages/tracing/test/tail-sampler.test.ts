// The tail sampler as a processor: what is kept, when it leaves, what it costs at most, and that nothing of it reaches the caller.

import { context, createContextKey, ROOT_CONTEXT, type Span, SpanKind, TraceFlags, trace } from "@opentelemetry/api";
import type { ExportResult } from "@opentelemetry/core";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace-base";
import { afterEach, describe, expect, it } from "vitest";
import { ATTR, SPAN } from "../src/index.ts";
import { inShare } from "../src/tail-decision.ts";
import { type Harness, harness, MemoryExporter, reasonsOf } from "./telemetry.ts";

afterEach(() => context.disable());

const remoteParent = (flags: TraceFlags) =>
  trace.setSpanContext(ROOT_CONTEXT, {
    traceId: "0af7651916cd43dd8448eb211c80319c",
    spanId: "b7ad6b7169203331",
    traceFlags: flags,
    isRemote: true,
  });

describe("a superseded delivery", () => {
  it("leaves its root under a fresh span id, as a child of the obituary that has the old one", async () => {
    const h = harness({ share: 1 });
    const root = h.start("process runs");
    h.end(h.start("graph.invoke", root));
    root.setAttribute(ATTR.superseded, true);
    h.end(root);
    await h.exported();
    const reserved = root.spanContext().spanId;
    const [leaving] = h.exporter.spans.filter((span) => span.name === "process runs");
    const [child] = h.exporter.spans.filter((span) => span.name === "graph.invoke");
    expect(leaving?.spanContext().spanId).not.toBe(reserved);
    expect(leaving?.spanContext().spanId).toMatch(/^[0-9a-f]{16}$/);
    expect(leaving?.parentSpanContext?.spanId).toBe(reserved);
    expect(child?.parentSpanContext?.spanId).toBe(reserved);
  });
});

describe("what is kept", () => {
  it("drops a quick and clean trace when the share is 0, keeps it whole when it is 1", async () => {
    for (const [share, names] of [
      [0, []],
      [1, ["root", "child"]],
    ] as const) {
      const h = harness({ share });
      const root = h.start("root");
      h.end(h.start("child", root));
      h.end(root);
      expect(await h.exported()).toEqual(names);
      expect(reasonsOf(h.exporter)).toEqual(share === 1 ? { root: "share" } : {});
      expect(h.tail.stats()).toMatchObject({ bufferedSpans: 0, undecidedTraces: 0, decidedTraces: 0 });
    }
  });

  it("F01 T05: releases at the first error, while the root is still open, and everything after it", async () => {
    const h = harness();
    const root = h.start("root");
    for (let n = 0; n < 200; n++) h.end(h.start(`fine ${n}`, root));
    const late = h.start("late", root);
    h.clock.advance(1_000);
    h.fail(h.start("failed", root));
    expect(await h.exported()).toHaveLength(201);
    h.clock.advance(3_600_000);
    h.end(late);
    h.end(root);
    expect(await h.exported()).toHaveLength(203);
    expect(reasonsOf(h.exporter)).toEqual({ root: "error" });
    expect(h.tail.stats()).toMatchObject({ kept: { error: 1, slow: 0 }, dropped: { share: 0 } });
  });

  it("F01: a trace of 40 minutes with its one error at minute 39 is kept whole, with one reason", async () => {
    const h = harness({ slowMs: 3_600_000 });
    const root = h.start("root");
    for (let n = 0; n < 200; n++) {
      h.end(h.start(`fine ${n}`, root));
      h.clock.advance((39 * 60_000) / 200);
    }
    expect(await h.exported()).toEqual([]);
    h.fail(h.start("failed", root));
    h.clock.advance(60_000);
    h.end(root);
    expect(await h.exported()).toHaveLength(202);
    expect(reasonsOf(h.exporter)).toEqual({ root: "error" });
    expect(h.tail.stats().kept.error).toBe(1);
  });

  it("F01 T03 T13: a trace becomes slow while it runs and streams out from then on, once", async () => {
    const h = harness({ slowMs: 5_000 });
    const root = h.start("root");
    for (let n = 0; n < 10; n++) h.end(h.start(`early ${n}`, root));
    h.clock.advance(4_999);
    expect(await h.exported()).toEqual([]);
    h.clock.advance(1);
    expect(await h.exported()).toHaveLength(10);
    h.clock.advance(354_000);
    h.end(root);
    expect(await h.exported()).toHaveLength(11);
    expect(reasonsOf(h.exporter)).toEqual({ root: "slow" });
    expect(h.tail.stats().kept.slow).toBe(1);
  });

  it("takes the agent's own slow threshold", async () => {
    const h = harness({ slowMs: 5_000, slowMsByAgent: { researcher: 60_000 } });
    const root = h.start("root", undefined, { attributes: { [ATTR.agentName]: "researcher" } });
    h.clock.advance(59_000);
    expect(h.tail.stats().kept.slow).toBe(0);
    h.end(root);
    const second = h.start("second", undefined, { attributes: { [ATTR.agentName]: "researcher" } });
    h.clock.advance(60_000);
    h.end(second);
    expect(await h.exported()).toEqual(["second"]);
  });

  it("keeps a redelivered message once its graph runs, and not a deferred copy of it", async () => {
    const h = harness();
    const attributes = { [ATTR.redelivered]: true, [ATTR.runId]: "run_1" };
    h.end(h.start("deferred", undefined, { attributes }));
    const root = h.start("process q", undefined, { attributes });
    h.end(h.start("checkpoint.get", root));
    expect(await h.exported()).toEqual([]);
    const graph = h.start(SPAN.graphInvoke, root);
    expect(await h.exported()).toEqual(["checkpoint.get"]);
    h.end(graph);
    h.end(root);
    expect(await h.exported()).toEqual(["checkpoint.get", "graph.invoke", "process q"]);
    expect(reasonsOf(h.exporter)).toEqual({ "process q": "redelivered" });
  });

  it("keeps a trace whose effect is doubtful", async () => {
    const h = harness();
    const root = h.start("root");
    h.end(h.start("tool:pay", root, { attributes: { [ATTR.toolOutcome]: "unknown" } }));
    h.end(root);
    expect(await h.exported()).toHaveLength(2);
    expect(reasonsOf(h.exporter)).toEqual({ root: "effect" });
  });

  it("decides the share by run id, so that all deliveries of a run agree", async () => {
    const h = harness({ share: 0.3 });
    for (let run = 0; run < 400; run++) {
      for (const copy of ["a", "b"]) {
        h.end(h.start(`${run}${copy}`, undefined, { attributes: { [ATTR.runId]: `run_${run}` } }));
      }
    }
    const names = await h.exported();
    const expected = Array.from({ length: 400 }, (_, run) => run).filter((run) => inShare(`run_${run}`, 0.3));
    expect(names).toEqual(expected.flatMap((run) => [`${run}a`, `${run}b`]));
    expect(expected.length).toBeGreaterThan(80);
    expect(expected.length).toBeLessThan(160);
  });

  it("T11: a second attempt in another process and a trace of its own, linked to the first, has the same outcome", async () => {
    const [first, second] = [harness({ share: 0.3 }), harness({ share: 0.3 })];
    for (let run = 0; run < 400; run++) {
      const attempt = first.start(`run ${run}`, undefined, { attributes: { [ATTR.runId]: `run_${run}` } });
      first.end(attempt);
      // The second process learns the run from the message's body, after its root has started.
      const again = second.start(`run ${run}`, undefined, { links: [{ context: attempt.spanContext() }] });
      again.setAttribute(ATTR.runId, `run_${run}`);
      second.end(again);
      expect(again.spanContext().traceId).not.toBe(attempt.spanContext().traceId);
    }
    const kept = await first.exported();
    expect(await second.exported()).toEqual(kept);
    expect(kept.length).toBeGreaterThan(80);
    expect(kept.length).toBeLessThan(160);
  });

  it("takes no empty poll for a slow trace, nor gives it the share", async () => {
    const h = harness({ share: 1, slowMs: 5_000 });
    for (const [name, attributes] of [
      ["agent-runs receive", { "messaging.operation": "receive" }],
      ["receive agent-runs", { "messaging.operation.type": "receive" }],
      ["SQS.ReceiveMessage", { "rpc.method": "ReceiveMessage" }],
    ] as const) {
      const poll = h.start(name, undefined, { kind: SpanKind.CLIENT, attributes });
      h.clock.advance(20_000);
      h.end(poll);
    }
    expect(await h.exported()).toEqual([]);
    expect(h.tail.stats().dropped.poll).toBe(3);
  });

  it("asks the user's policies first, and keeps the trace when one throws", async () => {
    const h = harness({
      policies: [
        (span) => {
          if (span.name === "boom") throw new Error("policy");
          return span.name === "mine" ? "effect" : undefined;
        },
      ],
    });
    for (const name of ["boom", "mine", "other"]) h.end(h.start(name));
    expect(await h.exported()).toEqual(["boom", "mine"]);
    expect(h.tail.stats().policyErrors).toBe(1);
  });
});

describe("long runs", () => {
  it("T04: retries that outlive the threshold lose nothing: the trace streams out and is kept once", async () => {
    const h = harness({ slowMs: 60_000 });
    const root = h.start("root");
    for (const [name, waitMs] of [
      ["POST 1", 20_000],
      ["POST 2", 75_000],
    ] as const) {
      h.end(h.start(name, root));
      h.clock.advance(waitMs);
    }
    expect(await h.exported()).toEqual(["POST 1", "POST 2"]);
    h.fail(h.start("POST 3", root));
    h.end(root);
    expect(await h.exported()).toEqual(["POST 1", "POST 2", "POST 3", "root"]);
    expect(reasonsOf(h.exporter)).toEqual({ root: "slow" });
    expect(h.tail.stats().kept).toMatchObject({ slow: 1, error: 0 });
  });

  const longRun = (snapshots: boolean): { readonly h: Harness; readonly root: Span; readonly tool: Span } => {
    const h = harness({ slowMs: 30_000, ...(snapshots ? { snapshots } : {}) });
    const root = h.start("process q", undefined, { kind: SpanKind.CONSUMER, attributes: { [ATTR.runId]: "run_1" } });
    h.end(h.start("checkpoint.get", root));
    const secret = { "tool.args": '{"password":"p4ss"}' };
    const tool = h.start("tool:crawl", root, { attributes: secret, links: [{ context: root.spanContext() }] });
    h.clock.advance(30_000);
    return { h, root, tool };
  };

  it("T14: shows a run of two hours when it turns slow, and again when it ends, under different ids", async () => {
    const { h, root, tool } = longRun(true);
    expect(await h.exported()).toEqual(["pending process q", "checkpoint.get", "pending tool:crawl"]);
    const [pendingRoot, , pendingTool] = h.exporter.spans;
    expect(pendingRoot?.parentSpanContext?.spanId).toBe(root.spanContext().spanId);
    expect(pendingTool?.parentSpanContext?.spanId).toBe(tool.spanContext().spanId);
    expect(pendingRoot).toMatchObject({ duration: [0, 0], kind: SpanKind.INTERNAL });
    expect(pendingRoot?.attributes).toEqual({ [ATTR.runId]: "run_1", "sampling.pending": true });
    expect(pendingTool).toMatchObject({ links: [], attributes: { "tool.args": '{"password":"[redacted]"}' } });

    h.clock.advance(2 * 3_600_000);
    h.end(tool);
    h.end(root);
    expect((await h.exported()).slice(3)).toEqual(["tool:crawl", "process q"]);
    const ids = h.exporter.spans.map((span) => span.spanContext().spanId);
    expect(new Set(ids).size).toBe(5);
    expect(ids.slice(3)).toEqual([tool.spanContext().spanId, root.spanContext().spanId]);
    expect(reasonsOf(h.exporter)).toEqual({ "process q": "slow" });
    expect(h.tail.stats()).toMatchObject({ snapshots: 2, spansReleased: 5, undecidedTraces: 0, decidedTraces: 0 });
  });

  it("takes snapshots only when asked, only when slow, and none of a slow trace that has ended", async () => {
    const { h } = longRun(false);
    expect(await h.exported()).toEqual(["checkpoint.get"]);
    const asked = harness({ slowMs: 30_000, snapshots: true });
    const root = asked.start("root");
    asked.fail(asked.start("failed", root));
    asked.end(root);
    const slow = asked.start("slow");
    asked.clock.advance(29_999);
    asked.end(slow);
    expect(await asked.exported()).toEqual(["failed", "root"]);
    expect(asked.tail.stats().snapshots).toBe(0);
  });

  it("a superseded root's snapshot stays the child of the id that its obituary has", async () => {
    const h = harness({ slowMs: 1_000, snapshots: true });
    const root = h.start("process q", undefined, { attributes: { [ATTR.superseded]: true } });
    h.clock.advance(1_000);
    await h.exported();
    expect(h.exporter.spans[0]?.parentSpanContext?.spanId).toBe(root.spanContext().spanId);
    expect(h.exporter.spans).toHaveLength(1);
  });
});

describe("local roots and late spans", () => {
  it("treats a remote parent as local root and exports what an unsampled sender started", async () => {
    const h = harness();
    for (const flags of [TraceFlags.NONE, TraceFlags.SAMPLED]) {
      const span = h.tracer.startSpan("continued", {}, remoteParent(flags));
      expect(span.spanContext().traceFlags).toBe(flags);
      h.fail(span);
    }
    expect(await h.exported()).toEqual(["continued", "continued"]);
    expect(h.exporter.spans.map((span) => span.spanContext().traceFlags)).toEqual([1, 1]);
    expect(h.exporter.spans.map((span) => span.attributes["sampling.reason"])).toEqual(["error", "error"]);
  });

  it("judges two deliveries that share a trace id apart", async () => {
    const h = harness();
    const good = h.tracer.startSpan("good", {}, remoteParent(TraceFlags.SAMPLED));
    const goodChild = h.start("good child", good);
    const bad = h.tracer.startSpan("bad", {}, remoteParent(TraceFlags.SAMPLED));
    const badChild = h.start("bad child", bad);
    h.fail(badChild);
    h.end(h.start("good grandchild", goodChild));
    h.end(goodChild);
    h.end(bad);
    h.end(good);
    expect((await h.exported()).toSorted()).toEqual(["bad", "bad child"]);
    expect(h.tail.stats()).toMatchObject({ undecidedTraces: 0, decidedTraces: 0, bufferedSpans: 0 });
  });

  it("opens no new local root under a parent that only wraps a span context", async () => {
    const h = harness();
    const root = h.start("root");
    const wrapped = trace.setSpanContext(ROOT_CONTEXT, root.spanContext());
    const child = h.tracer.startSpan("child", {}, wrapped);
    h.fail(child);
    h.end(root);
    expect(await h.exported()).toEqual(["child", "root"]);
  });

  it("T01: drops the late child of a dropped trace", async () => {
    const h = harness();
    const root = h.start("root");
    h.end(root);
    h.end(h.start("detached", root));
    expect(await h.exported()).toEqual([]);
    expect(h.tail.stats().spansDropped).toMatchObject({ sampled_out: 1, late: 1 });
  });

  it("T02: an error within the grace after the root's end keeps the whole trace", async () => {
    const h = harness({ graceMs: 5_000 });
    const root = h.start("root");
    const child = h.start("child", root);
    h.clock.advance(1_000);
    h.end(root);
    h.clock.advance(1_000);
    h.fail(child);
    expect(await h.exported()).toEqual(["root", "child"]);
  });

  it("T06: holds nothing of a finished trace: at once without open children, past the grace with them", async () => {
    const h = harness({ graceMs: 5_000 });
    const children: Span[] = [];
    for (let n = 0; n < 1_000; n++) {
      const root = h.start("root");
      const child = h.start("child", root);
      if (n % 2 === 0) h.end(child);
      else children.push(child);
      h.end(root);
      h.clock.advance(1);
    }
    expect(h.tail.stats()).toMatchObject({ undecidedTraces: 500, bufferedSpans: 1_000 });
    // Deadlines are looked at in steps of 50 ms.
    h.clock.advance(5_050);
    expect(h.tail.stats()).toMatchObject({ undecidedTraces: 0, decidedTraces: 0, bufferedSpans: 0 });
    for (const child of children) h.end(child);
    expect(await h.exported()).toEqual([]);
    expect(h.tail.stats().spansDropped).toMatchObject({ sampled_out: 1_500, late: 500 });
  });

  it("T10: a late span follows the verdict on its trace", async () => {
    const h = harness();
    const root = h.start("root");
    h.fail(root);
    h.clock.advance(5_000);
    h.end(h.start("late", root));
    expect(await h.exported()).toEqual(["root", "late"]);
    expect(h.tail.stats().lateSpansKept).toBe(1);

    const dropped = h.start("dropped");
    h.end(dropped);
    h.clock.advance(5_000);
    // It would have been a reason, but the verdict stands.
    h.fail(h.start("late error", dropped));
    expect(await h.exported()).toEqual(["root", "late"]);
    expect(h.tail.stats().spansDropped.late).toBe(1);
  });

  it("T15: a child that never ends pins nothing past the grace", () => {
    const h = harness({ graceMs: 5_000 });
    for (let n = 0; n < 1_000; n++) {
      const root = h.start("root");
      h.start("never ends", root);
      h.end(root);
    }
    expect(h.tail.stats().undecidedTraces).toBe(1_000);
    h.clock.advance(5_000);
    expect(h.tail.stats()).toMatchObject({ undecidedTraces: 0, decidedTraces: 0, bufferedSpans: 0 });
  });
});

describe("bounds", () => {
  it("T08: over the cap on traces the oldest is decided by the share, counted", async () => {
    const h = harness({ share: 1, maxTraces: 100 });
    const roots = Array.from({ length: 150 }, (_, n) => h.start(`root ${n}`));
    expect(h.tail.stats()).toMatchObject({ undecidedTraces: 100, forcedByCap: { traces: 50 }, kept: { cap: 50 } });
    for (const root of roots) h.end(root);
    expect(await h.exported()).toHaveLength(150);
    expect(Object.values(reasonsOf(h.exporter)).filter((reason) => reason === "cap")).toHaveLength(50);
  });

  it("T07: one huge trace takes nothing from a hundred small ones, and an error brings its rest back", async () => {
    const h = harness({ maxSpansPerTrace: 500, maxBufferedSpans: 2_000 });
    const huge = h.start("huge");
    for (let n = 0; n < 60_000; n++) h.end(h.start("part", huge));
    expect(h.tail.stats()).toMatchObject({ bufferedSpans: 0, forcedByCap: { spans_per_trace: 1 } });
    for (let n = 0; n < 100; n++) h.fail(h.start(`small ${n}`));
    h.fail(h.start("failed part", huge));
    h.end(huge);
    const names = await h.exported();
    expect(names.filter((name) => name.startsWith("small"))).toHaveLength(100);
    expect(names.slice(-2)).toEqual(["failed part", "huge"]);
    expect(h.tail.stats()).toMatchObject({ broughtBack: 1, dropped: { cap: 1 } });
  });

  it("holds no more spans than the cap over all traces", () => {
    const h = harness({ maxBufferedSpans: 1_000 });
    const roots = Array.from({ length: 100 }, () => h.start("root"));
    for (const root of roots) for (let n = 0; n < 50; n++) h.end(h.start("part", root));
    expect(h.tail.stats().bufferedSpans).toBeLessThanOrEqual(1_000);
    expect(h.tail.stats().forcedByCap.buffered_spans).toBeGreaterThan(0);
  });

  describe("of memory", () => {
    const kib = (n: number): { readonly attributes: { readonly "tool.args": string } } => ({
      attributes: { "tool.args": "é".repeat(n * 512) },
    });

    it("holds no more bytes than the cap, with large attributes at the start of spans that never end", () => {
      const h = harness({ maxBufferedBytes: 1_000_000 });
      for (let n = 0; n < 2_000; n++) {
        h.start(`root ${n}`, undefined, kib(10));
        expect(h.tail.stats().bufferedBytes).toBeLessThanOrEqual(1_000_000);
      }
      const { forcedByCap, undecidedTraces, dropped } = h.tail.stats();
      expect(undecidedTraces).toBeGreaterThan(80);
      expect(forcedByCap).toMatchObject({ buffered_bytes: 2_000 - undecidedTraces, traces: 0, buffered_spans: 0 });
      expect(dropped.cap).toBe(forcedByCap.buffered_bytes);
    });

    it.each([
      ["attributes", (span: Span) => span.setAttributes(kib(100).attributes)],
      [
        "an array",
        (span: Span) =>
          span.setAttribute(
            "list",
            Array.from({ length: 100 }, () => "é".repeat(512)),
          ),
      ],
      ["events", (span: Span) => span.addEvent("event", kib(100).attributes)],
      ["an exception's stack", (span: Span) => span.recordException({ message: "m", stack: "é".repeat(51_200) })],
      ["links", (span: Span) => span.addLink({ context: span.spanContext(), ...kib(100) })],
    ])("counts %s that came after the start", (_what, add) => {
      const h = harness();
      const root = h.start("root");
      const child = h.start("child", root);
      const before = h.tail.stats().bufferedBytes;
      add(child);
      h.end(child);
      const grown = h.tail.stats().bufferedBytes - before;
      expect(grown).toBeGreaterThan(100 * 1_024);
      expect(grown).toBeLessThan(110 * 1_024);
      h.end(root);
      expect(h.tail.stats().bufferedBytes).toBe(0);
    });

    it("counts what a span has at its start once, and twice only for an early one of many parallel", () => {
      const h = harness();
      const root = h.start("root", undefined, kib(10));
      const before = h.tail.stats().bufferedBytes;
      const child = h.start("child", root, kib(10));
      h.end(child);
      const once = h.tail.stats().bufferedBytes - before;
      expect(once).toBeLessThan(12 * 1_024);
      const parallel = Array.from({ length: 100 }, () => h.start("child", root, kib(10)));
      for (const one of parallel) h.end(one);
      // 36 lie further back than is looked.
      expect(h.tail.stats().bufferedBytes).toBe(before + (1 + 100 + 36) * once);
      h.end(root);
      expect(h.tail.stats()).toMatchObject({ bufferedBytes: 0, bufferedSpans: 0 });
    });

    it("one trace with huge arguments takes nothing from the small ones", async () => {
      const h = harness({ maxBufferedBytes: 1_000_000 });
      const small = Array.from({ length: 50 }, (_, n) => h.start(`small ${n}`));
      const huge = h.start("huge");
      for (let n = 0; n < 100; n++) h.end(h.start("part", huge, kib(100)));
      expect(h.tail.stats().forcedByCap).toMatchObject({ buffered_bytes: 1 });
      for (const one of small) h.fail(one);
      expect(await h.exported()).toHaveLength(50);
    });

    it.each([
      ["the one that decided", 1],
      ["and early ones of many parallel, found again or not", 100],
    ])("counts in the queue what came after the start: %s", (_what, parallel) => {
      const h = harness();
      const root = h.start("root");
      const open = Array.from({ length: parallel }, () => h.start("child", root));
      for (const child of open) child.setAttributes(kib(10).attributes);
      for (const child of open.slice(1)) h.end(child);
      expect(h.tail.stats().queuedBytes).toBe(0);
      for (const child of open.slice(0, 1)) h.fail(child);
      expect(h.tail.stats().queuedBytes).toBeGreaterThan(parallel * 10 * 1_024);
      expect(h.tail.stats().queuedBytes).toBeLessThan(parallel * 12 * 1_024);
      h.end(root);
    });

    it("drops, and counts, kept spans over the bytes that may wait for the exporter", async () => {
      const h = harness({ maxQueuedBytes: 1_000_000 });
      const root = h.start("root");
      h.fail(h.start("failed", root));
      for (let n = 0; n < 100; n++) h.end(h.start("part", root, kib(100)));
      const { queuedBytes, spansDropped } = h.tail.stats();
      expect(queuedBytes).toBeLessThanOrEqual(1_000_000);
      expect(spansDropped).toMatchObject({ queue_bytes: 91, queue_full: 0 });
      expect(await h.exported()).toHaveLength(10);
      expect(h.tail.stats()).toMatchObject({ queuedBytes: 0, queuedSpans: 0 });
    });
  });

  it("T16: traces that never end stay within the bounds", () => {
    const h = harness({ maxTraces: 500, slowMs: 1_000 });
    for (let n = 0; n < 20_000; n++) {
      h.start("never ends");
      if (n % 100 === 0) h.clock.advance(100);
    }
    h.clock.advance(2_000);
    expect(h.tail.stats()).toMatchObject({ undecidedTraces: 0, bufferedSpans: 0 });
    expect(h.tail.stats().decidedTraces).toBeLessThanOrEqual(500);
  });

  it("T12: 20,000 spans of a kept trace, ended in one tick, are all exported, and never on the caller's stack", async () => {
    const h = harness();
    const first = h.start("first");
    h.fail(h.start("failed", first));
    for (let n = 0; n < 19_998; n++) h.end(h.start("part", first));
    h.end(first);
    expect(h.exporter.spans).toHaveLength(0);
    expect(await h.exported()).toHaveLength(20_000);
    expect(Math.max(...h.exporter.batches)).toBeLessThanOrEqual(512);
    expect(h.tail.stats()).toMatchObject({ spansReleased: 20_000, spansExported: 20_000, queuedSpans: 0 });
  });

  it("counts what a full queue takes", async () => {
    const h = harness({ maxQueuedSpans: 100 });
    const root = h.start("root");
    h.fail(h.start("failed", root));
    for (let n = 0; n < 300; n++) h.end(h.start("part", root));
    expect(await h.exported()).toHaveLength(100);
    expect(h.tail.stats().spansDropped.queue_full).toBe(201);
  });
});

describe("the caller is not affected", () => {
  const broken = (how: (done: (result: ExportResult) => void) => void): SpanExporter => ({
    export: (_spans: ReadableSpan[], done) => how(done),
    shutdown: () => Promise.reject(new Error("no shutdown")),
  });

  it.each([
    [
      "throws",
      (): void => {
        throw new Error("exporter");
      },
    ],
    ["fails", (done: (result: ExportResult) => void): void => done({ code: 1, error: new Error("refused") })],
  ])("by an exporter that %s", async (_what, how) => {
    const h: Harness = harness({ share: 1 }, broken(how));
    h.end(h.start("root"));
    await h.tail.forceFlush();
    await h.tail.shutdown();
    expect(h.tail.stats().spansDropped.export_failed).toBe(1);
  });

  it("by an exporter that never answers: the batch counts as failed after its time", async () => {
    const h = harness(
      { share: 1, exportTimeoutMs: 20 },
      broken(() => undefined),
    );
    h.end(h.start("root"));
    await h.tail.forceFlush();
    expect(h.tail.stats().spansDropped.export_failed).toBe(1);
  });

  it("by its timers: they run under the root context", () => {
    const h = harness();
    const key = createContextKey("run");
    context.with(ROOT_CONTEXT.setValue(key, "run_1"), () => h.start("root"));
    expect(h.clock.contexts).toEqual([ROOT_CONTEXT]);
    expect(h.clock.armed).toBe(1);
  });
});

describe("flush and shutdown", () => {
  it("forces no verdict on forceFlush", async () => {
    const h = harness();
    const root = h.start("root");
    h.end(h.start("child", root));
    expect(await h.exported()).toEqual([]);
    expect(h.tail.stats()).toMatchObject({ undecidedTraces: 1, bufferedSpans: 1 + 1 });
    h.fail(root);
    expect(await h.exported()).toEqual(["root", "child"]);
  });

  it("T09: keeps what is undecided at shutdown and counts what was open", async () => {
    const h = harness();
    const roots: Span[] = [1, 2, 3].map((n) => h.start(`root ${n}`));
    for (const root of roots) h.end(h.start("step", root));
    const poll = h.start("q receive", undefined, { attributes: { "messaging.operation": "receive" } });
    await h.tail.shutdown();
    expect(h.exporter.spans.map((span) => span.name)).toEqual(["step", "step", "step"]);
    h.end(poll);
    for (const root of roots) h.end(root);
    expect(h.tail.stats()).toMatchObject({ kept: { shutdown: 3 }, spansDropped: { after_shutdown: 4 } });
  });

  it("T09: says at shutdown what was open, when snapshots are on", async () => {
    const h = harness({ snapshots: true });
    for (const n of [1, 2, 3]) h.end(h.start(`step ${n}`, h.start(`root ${n}`)));
    await h.tail.shutdown();
    expect(h.exporter.spans.map((span) => span.name)).toEqual(
      [1, 2, 3].flatMap((n) => [`pending root ${n}`, `step ${n}`]),
    );
    expect(h.tail.stats()).toMatchObject({ snapshots: 3, spansDropped: { open_at_shutdown: 3 } });
  });

  it("exportNow passes the gate and not the sampler, and rejects when nothing arrived", async () => {
    const h = harness();
    const span = h.start("made", undefined, { attributes: { "tool.args": '{"password":"p4ss"}' } });
    h.end(span);
    // A span of the SDK is readable.
    await h.tail.exportNow([span as unknown as ReadableSpan]);
    expect(h.exporter.spans.map((one) => one.attributes["tool.args"])).toEqual(['{"password":"[redacted]"}']);
    const failing = harness(
      {},
      broken((done) => done({ code: 1 })),
    );
    await expect(failing.tail.exportNow([span as unknown as ReadableSpan])).rejects.toMatchObject({
      code: "TRACING_EXPORT_FAILED",
    });
    const silent = harness(
      { exportTimeoutMs: 20 },
      broken(() => undefined),
    );
    await expect(silent.tail.exportNow([span as unknown as ReadableSpan])).rejects.toMatchObject({
      code: "TRACING_EXPORT_TIMED_OUT",
    });
  });

  const broken = (how: (done: (result: ExportResult) => void) => void): SpanExporter => ({
    export: (_spans: ReadableSpan[], done) => how(done),
    shutdown: async () => undefined,
  });
});

describe("what is exported", () => {
  it("gates name, attributes, events, links and status, and leaves the original alone", async () => {
    const h = harness({ share: 1 });
    const secret = `sk-ant-${"Ab1".repeat(12)}`;
    const link = { context: h.start("linked").spanContext(), attributes: { note: secret } };
    const span = h.start(`name ${secret}`, undefined, { attributes: { note: secret }, links: [link] });
    span.addEvent(`event ${secret}`, { token: "abc" });
    span.recordException(new Error(`Bearer ${secret}`));
    span.setStatus({ code: 2, message: `failed ${secret}` });
    h.end(span);
    await h.exported();
    const exported = h.exporter.spans.find((one) => one.name.startsWith("name"));
    const { resource: _resource, ...fields } = { ...exported };
    expect(JSON.stringify(fields)).not.toContain(secret);
    expect(exported?.attributes["sampling.reason"]).toBe("error");
    // A span of the SDK is readable.
    expect((span as unknown as ReadableSpan).attributes).toEqual({ note: secret });
    expect(exported).not.toBeInstanceOf(MemoryExporter);
  });
});
