// What the decisions need to know about a live trace, read from its root when it is asked: attributes may come after the start.

import { ATTR } from "./names.ts";
import { type EndedTrace, isPoll } from "./tail-decision.ts";
import type { TailSettings } from "./tail-sampler-options.ts";
import type { LocalTrace } from "./tail-sampler-trace.ts";

export function summaryOf(trace: LocalTrace, settings: TailSettings): EndedTrace {
  const { root, traceId } = trace;
  const runId = root.attributes[ATTR.runId];
  const [seconds, nanos] = root.duration;
  return {
    traceId,
    runId: typeof runId === "string" ? runId : undefined,
    poll: isPoll(root.name, root.attributes),
    durationMs: trace.rootEndedAtMs === undefined ? undefined : seconds * 1_000 + nanos / 1e6,
    slowMs: slowMsOf(trace, settings),
    share: settings.share,
  };
}

export function slowMsOf(trace: LocalTrace, settings: TailSettings): number {
  const agent = trace.root.attributes[ATTR.agentName];
  return (typeof agent === "string" ? settings.slowMsByAgent.get(agent) : undefined) ?? settings.slowMs;
}

/** When an undecided trace must be decided: past the grace after its root's end, and never held past the slow threshold. */
export function dueAtMs(trace: LocalTrace, settings: TailSettings): number {
  const slowAtMs = trace.startedAtMs + slowMsOf(trace, settings);
  return trace.rootEndedAtMs === undefined ? slowAtMs : Math.min(trace.rootEndedAtMs + settings.graceMs, slowAtMs);
}
