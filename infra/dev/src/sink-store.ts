// Keeps received traces in bounded memory: over a bound the oldest trace goes, and is counted.

import { type OtlpSpan, type OtlpTrace, traceOf } from "@reprise/tracing";

export interface SinkStoreStats {
  readonly traces: number;
  readonly spans: number;
  /** Size of the kept spans as JSON text. */
  readonly bytes: number;
  readonly tracesDropped: number;
  readonly spansDropped: number;
  /** Spans received again under the same id: an exporter's retry. The later one is kept. */
  readonly spansRepeated: number;
}

export interface SinkStore {
  add(span: OtlpSpan, bytes: number): void;
  /** Oldest trace first. */
  traces(): readonly OtlpTrace[];
  stats(): SinkStoreStats;
}

interface Kept {
  readonly span: OtlpSpan;
  readonly bytes: number;
}

/** @param bounds.spansMax spans kept in all; @param bounds.bytesMax their size as JSON in all. */
export function createSinkStore(bounds: { readonly spansMax: number; readonly bytesMax: number }): SinkStore {
  // A Map iterates in insertion order, so its first entry is the trace that was first seen longest ago.
  const byTrace = new Map<string, Map<string, Kept>>();
  let [spans, bytes, tracesDropped, spansDropped, spansRepeated] = [0, 0, 0, 0, 0];

  const dropOldest = (): void => {
    const [oldest] = byTrace;
    if (oldest === undefined) return;
    const [traceId, kept] = oldest;
    byTrace.delete(traceId);
    tracesDropped += 1;
    spansDropped += kept.size;
    spans -= kept.size;
    for (const { bytes: size } of kept.values()) bytes -= size;
  };

  return {
    add: (span, size) => {
      const trace = byTrace.get(span.traceId) ?? new Map<string, Kept>();
      const before = trace.get(span.spanId);
      byTrace.set(span.traceId, trace.set(span.spanId, { span, bytes: size }));
      if (before === undefined) spans += 1;
      else spansRepeated += 1;
      bytes += size - (before?.bytes ?? 0);
      while (spans > bounds.spansMax || bytes > bounds.bytesMax) dropOldest();
    },
    traces: () => [...byTrace.values()].map((trace) => traceOf([...trace.values()].map((kept) => kept.span))),
    stats: () => ({ traces: byTrace.size, spans, bytes, tracesDropped, spansDropped, spansRepeated }),
  };
}
