// The sampler's own numbers as OpenTelemetry metrics: read when an SDK collects, so that no span pays for them.

import {
  type BatchObservableCallback,
  type BatchObservableResult,
  type Meter,
  metrics,
  type Observable,
} from "@opentelemetry/api";
import { ATTR, METRIC } from "./names.ts";
import { SCOPE } from "./span.ts";
import type { DecisionListener } from "./tail-sampler-options.ts";
import type { TailStats } from "./tail-sampler-stats.ts";

/** What is read of a `TailSamplingProcessor`. */
export interface ObservedTail {
  stats(): TailStats;
  /** Called with each verdict and the age of its trace; the last listener given is the one. */
  onDecision(listener: DecisionListener): void;
}

/** Traces are decided from at once (redelivered) to the slow threshold; hours only where that is set to hours. */
const AGE_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 3_600];

/**
 * Registers the metrics of one sampler. `startTracing` does it; with an SDK of your own, call it once after that SDK has
 * registered its meter provider: instruments made earlier stay no-ops.
 *
 * @returns stops the observation
 */
export function observeTail(tail: ObservedTail, meter: Meter = metrics.getMeter(SCOPE)): () => void {
  const age = meter.createHistogram(METRIC.decisionAge, {
    unit: "s",
    description: "Age of a trace at its verdict",
    advice: { explicitBucketBoundaries: AGE_SECONDS },
  });
  // A value that an SDK cannot take must not become the caller's trouble; the sampler guards the call.
  tail.onDecision((ageMs, verdict) =>
    age.record(ageMs / 1000, { [ATTR.samplingVerdict]: verdict.keep ? "keep" : "drop" }),
  );
  const instruments = new Map<string, Observable>();
  for (const [name, unit, description] of COUNTERS)
    instruments.set(name, meter.createObservableCounter(name, { unit, description }));
  for (const [name, unit, description] of GAUGES)
    instruments.set(name, meter.createObservableGauge(name, { unit, description }));
  const read: BatchObservableCallback = (result) => report(tail.stats(), instruments, result);
  const all = [...instruments.values()];
  meter.addBatchObservableCallback(read, all);
  return () => {
    meter.removeBatchObservableCallback(read, all);
    tail.onDecision(() => {});
  };
}

type Description = readonly [name: string, unit: string, description: string];

const COUNTERS: readonly Description[] = [
  [METRIC.tracesDecided, "{trace}", "Verdicts, with their reason"],
  [METRIC.tracesBroughtBack, "{trace}", "Dropped by a cap and brought back, incomplete, by a later error or effect"],
  [METRIC.capsForced, "{trace}", "Verdicts that a bound forced"],
  [METRIC.policiesFailed, "{policy}", "Sampling policies that threw"],
  [METRIC.spansReleased, "{span}", "Kept spans on their way to the exporter"],
  [METRIC.spansExported, "{span}", "Kept spans that the collector took"],
  [METRIC.spansDropped, "{span}", "Spans that were not exported, by cause"],
  [METRIC.spansLate, "{span}", "Spans that ended after their trace was forgotten"],
  [METRIC.valuesRedacted, "{value}", "Secrets that the gate masked in what left"],
  [METRIC.snapshotsEmitted, "{span}", "Snapshots of open spans"],
];

const GAUGES: readonly Description[] = [
  [METRIC.tracesUndecided, "{trace}", "Traces without a verdict"],
  [METRIC.spansBuffered, "{span}", "Spans held until a verdict"],
  [METRIC.bufferBytes, "By", "Their memory, estimated from above"],
  [METRIC.spansQueued, "{span}", "Kept spans that the exporter has not taken yet"],
  [METRIC.queueBytes, "By", "Memory of those that are in no batch yet"],
];

function report(stats: TailStats, instruments: ReadonlyMap<string, Observable>, result: BatchObservableResult): void {
  const observe = (name: string, value: number, attributes = {}): void => {
    const instrument = instruments.get(name);
    if (instrument !== undefined) result.observe(instrument, value, attributes);
  };
  const each = (name: string, values: Readonly<Record<string, number>>, attributes: (key: string) => object): void => {
    for (const [key, value] of Object.entries(values)) observe(name, value, attributes(key));
  };
  const decided = (verdict: "keep" | "drop") => (reason: string) => ({
    [ATTR.samplingVerdict]: verdict,
    [ATTR.samplingReason]: reason,
  });
  each(METRIC.tracesDecided, stats.kept, decided("keep"));
  each(METRIC.tracesDecided, stats.dropped, decided("drop"));
  each(METRIC.spansDropped, stats.spansDropped, (cause) => ({ [ATTR.samplingDropCause]: cause }));
  each(METRIC.capsForced, stats.forcedByCap, (cap) => ({ [ATTR.samplingCap]: cap }));
  observe(METRIC.spansLate, stats.lateSpansKept, { [ATTR.samplingVerdict]: "keep" });
  observe(METRIC.spansLate, stats.spansDropped.late, { [ATTR.samplingVerdict]: "drop" });
  observe(METRIC.tracesBroughtBack, stats.broughtBack);
  observe(METRIC.policiesFailed, stats.policyErrors);
  observe(METRIC.spansReleased, stats.spansReleased);
  observe(METRIC.spansExported, stats.spansExported);
  observe(METRIC.valuesRedacted, stats.valuesRedacted);
  observe(METRIC.snapshotsEmitted, stats.snapshots);
  observe(METRIC.tracesUndecided, stats.undecidedTraces);
  observe(METRIC.spansBuffered, stats.bufferedSpans);
  observe(METRIC.bufferBytes, stats.bufferedBytes);
  observe(METRIC.spansQueued, stats.queuedSpans);
  observe(METRIC.queueBytes, stats.queuedBytes);
}
