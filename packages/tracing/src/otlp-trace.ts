// One trace: its spans in the order of their start. Pure.

import type { OtlpSpan } from "./otlp-span.ts";

/** All spans of one trace id, by start time. */
export interface OtlpTrace {
  readonly traceId: string;
  readonly startTimeUnixNano: string;
  /** From the earliest start to the latest end. */
  readonly durationMs: number;
  readonly spans: readonly OtlpSpan[];
}

/** @param unsorted of one trace */
export function traceOf(unsorted: readonly OtlpSpan[]): OtlpTrace {
  const spans = unsorted.toSorted((left, right) => compareNano(left.startTimeUnixNano, right.startTimeUnixNano));
  const start = spans[0]?.startTimeUnixNano ?? "0";
  const end = spans.reduce(
    (latest, span) => (compareNano(span.endTimeUnixNano, latest) > 0 ? span.endTimeUnixNano : latest),
    start,
  );
  return {
    traceId: spans[0]?.traceId ?? "",
    startTimeUnixNano: start,
    durationMs: Number(BigInt(end) - BigInt(start)) / 1e6,
    spans,
  };
}

function compareNano(left: string, right: string): number {
  const [a, b] = [BigInt(left), BigInt(right)];
  return a < b ? -1 : a > b ? 1 : 0;
}
