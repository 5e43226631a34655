// The obituary: the lost delivery's own trace, rebuilt, deterministic, and nothing invented.

import { context, SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { afterEach, describe, expect, it } from "vitest";
import { ATTR, type LostDelivery, obituarySpans } from "../src/index.ts";
import { harness } from "./telemetry.ts";

afterEach(() => context.disable());

const lost: LostDelivery = {
  traceId: "0af7651916cd43dd8448eb211c80319c",
  rootSpanId: "b7ad6b7169203331",
  queue: "agent-runs",
  sqsMessageId: "m1",
  runId: "run_9f21c0",
  threadId: "t1",
  agentName: "billing",
  deliveryId: "d1",
  worker: "worker-a",
  receiveCount: 2,
  startedAtMs: 1_000_500,
  lastBeatAtMs: 1_020_250,
  foundAtMs: 1_090_000,
  checkpoints: [
    { checkpointId: "c1", step: 0, source: "input", writtenAtMs: 1_001_000, bytes: 41_208 },
    { checkpointId: "c2", step: 1, source: "loop", writtenAtMs: 1_005_000 },
  ],
  openExecutions: [{ tool: "charge", toolCallId: "call_1", startedAtMs: 1_006_000, nodeAttempt: 1, policy: "keyed" }],
};

describe("an obituary", () => {
  it("F03: is the lost delivery's trace under its own ids, every span marked as rebuilt", () => {
    const spans = obituarySpans(lost);
    expect(spans.map((span) => span.name)).toEqual([
      "process agent-runs",
      "checkpoint.put",
      "checkpoint.put",
      "tool:charge",
    ]);
    const [root] = spans;
    expect(root).toMatchObject({
      kind: SpanKind.CONSUMER,
      status: { code: SpanStatusCode.ERROR, message: "worker lost" },
      startTime: [1_000, 500_000_000],
      endTime: [1_020, 250_000_000],
      duration: [19, 750_000_000],
      attributes: {
        [ATTR.receiveCount]: 2,
        [ATTR.redelivered]: true,
        [ATTR.outcome]: "lost",
        [ATTR.worker]: "worker-a",
      },
    });
    expect(root?.spanContext()).toMatchObject({ traceId: lost.traceId, spanId: lost.rootSpanId });
    for (const span of spans) {
      expect(span.attributes).toMatchObject({ [ATTR.reconstructed]: true, [ATTR.runId]: lost.runId });
      expect(span.spanContext().traceId).toBe(lost.traceId);
    }
    for (const span of spans.slice(1)) expect(span.parentSpanContext?.spanId).toBe(lost.rootSpanId);
    expect(spans[3]).toMatchObject({
      status: { code: SpanStatusCode.ERROR },
      attributes: { [ATTR.toolOutcome]: "unknown" },
    });
  });

  it("has the same span ids when it is built again, and others for other deliveries", () => {
    const ids = (delivery: LostDelivery) => obituarySpans(delivery).map((span) => span.spanContext().spanId);
    expect(ids({ ...lost, foundAtMs: 2_000_000 })).toEqual(ids(lost));
    expect(new Set(ids(lost)).size).toBe(4);
    expect(ids({ ...lost, rootSpanId: "b7ad6b7169203332" }).filter((id) => ids(lost).includes(id))).toEqual([]);
    for (const id of ids(lost)) expect(id).toMatch(/^[0-9a-f]{16}$/);
  });

  it("ends at the last thing known when there was no beat", () => {
    const { lastBeatAtMs: _, receiveCount: __, ...rest } = lost;
    const [root] = obituarySpans(rest);
    expect(root?.endTime).toEqual([1_006, 0]);
    expect(root?.attributes).toMatchObject({ [ATTR.receiveCountMissing]: true });
    const [bare] = obituarySpans({ ...rest, checkpoints: [], openExecutions: [] });
    expect(bare?.duration).toEqual([0, 0]);
  });

  it("passes the gate and not the sampler", async () => {
    const h = harness({ share: 0 });
    await h.tail.exportNow(obituarySpans({ ...lost, worker: "postgres://u:hunter2@h/db" }));
    expect(h.exporter.spans).toHaveLength(4);
    expect(h.exporter.spans[0]?.attributes["sampling.reason"]).toBe("error");
    expect(JSON.stringify(h.exporter.spans.map((span) => span.attributes))).not.toContain("hunter2");
  });
});
