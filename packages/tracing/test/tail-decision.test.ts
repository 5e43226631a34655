// The pure decisions of the tail sampler.

import { SpanStatusCode } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace-base";
import { describe, expect, it } from "vitest";
import { ATTR, SCOPE } from "../src/index.ts";
import { capVerdict, type EndedTrace, endedSpanReason, endVerdict, inShare, isPoll } from "../src/tail-decision.ts";
import { harness } from "./telemetry.ts";

const ended: EndedTrace = { traceId: "t", runId: "run_1", poll: false, durationMs: 10, slowMs: 1_000, share: 0 };

/** An ended span of the SDK, as a processor gets it. */
function span(
  status: SpanStatusCode,
  attributes: Record<string, string | number | boolean>,
  scope = SCOPE,
  exception?: string,
): ReadableSpan {
  const made = harness().start("s", undefined, { attributes });
  made.setStatus({ code: status });
  if (exception !== undefined) made.addEvent("exception", { "exception.type": exception });
  made.end();
  // A span of the SDK is readable; only its scope is another here.
  return Object.assign(Object.create(made) as ReadableSpan, { instrumentationScope: { name: scope } });
}

describe("verdicts", () => {
  it("keeps slow traces, then asks the share, and says why", () => {
    expect(endVerdict(ended)).toEqual({ keep: false, why: "share" });
    expect(endVerdict({ ...ended, durationMs: 1_000 })).toEqual({ keep: true, reason: "slow" });
    expect(endVerdict({ ...ended, share: 1 })).toEqual({ keep: true, reason: "share" });
    expect(endVerdict({ ...ended, share: 1, poll: true, durationMs: 9_999 })).toEqual({ keep: false, why: "poll" });
    expect(capVerdict({ ...ended, share: 1 })).toEqual({ keep: true, reason: "cap" });
    expect(capVerdict(ended)).toEqual({ keep: false, why: "cap" });
  });

  it("takes the trace id where there is no run", () => {
    const share = 0.5;
    const ids = Array.from({ length: 50 }, (_, n) => `id_${n}`);
    for (const id of ids) {
      expect(endVerdict({ ...ended, runId: undefined, traceId: id, share }).keep).toBe(inShare(id, share));
      expect(endVerdict({ ...ended, runId: id, share }).keep).toBe(inShare(id, share));
    }
  });

  it.each([0.01, 0.05, 0.5])("keeps about the share of %d, and never loses a run when the share grows", (share) => {
    const ids = Array.from({ length: 20_000 }, (_, n) => `run_${n.toString(16).padStart(6, "0")}`);
    const kept = ids.filter((id) => inShare(id, share));
    expect(kept.length / ids.length).toBeGreaterThan(share * 0.8);
    expect(kept.length / ids.length).toBeLessThan(share * 1.2);
    expect(kept.every((id) => inShare(id, share + 0.1))).toBe(true);
  });
});

describe("reasons of one span", () => {
  it("T17: an error is a reason, a pause that another instrumentation marked as error is not", () => {
    const { ERROR, UNSET } = SpanStatusCode;
    expect(endedSpanReason(span(ERROR, {}))).toBe("error");
    expect(endedSpanReason(span(UNSET, {}))).toBeUndefined();
    expect(endedSpanReason(span(ERROR, {}, "other", "GraphInterrupt"))).toBeUndefined();
    expect(endedSpanReason(span(ERROR, {}, "other", "TypeError"))).toBe("error");
    expect(endedSpanReason(span(ERROR, {}, SCOPE, "GraphInterrupt"))).toBe("error");
  });

  it.each([
    [{ [ATTR.toolOutcome]: "unknown" }, "effect"],
    [{ [ATTR.toolOutcome]: "done" }, undefined],
    [{ [ATTR.toolEffectSeen]: 2 }, "effect"],
    [{ [ATTR.toolEffectSeen]: 1 }, undefined],
    [{ [ATTR.toolEchoOf]: "call_1" }, "effect"],
    [{ [ATTR.toolDecision]: "fenced" }, "effect"],
  ])("%j", (attributes, reason) => {
    expect(endedSpanReason(span(SpanStatusCode.UNSET, attributes))).toBe(reason);
  });

  it("takes a receive with a run for a run", () => {
    expect(isPoll("agent-runs receive", {})).toBe(true);
    expect(isPoll("agent-runs receive", { [ATTR.runId]: "r" })).toBe(false);
    expect(isPoll("process agent-runs", {})).toBe(false);
  });
});
