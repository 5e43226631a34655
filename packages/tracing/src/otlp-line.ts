// Spans from whatever a program hands on: an OTLP request, a span as our sink writes it, a trace of them, or a list of any. Pure.

import { type OtlpSpan, readTraceRequest } from "./otlp-span.ts";

/** A collector's file exporter nests requests in nothing; a sink's answer is a list of traces. Deeper is no shape of ours. */
const DEPTH_MAX = 3;

/** What is none of these gives no span; it never throws. */
export function readSpans(value: unknown, depth = 0): readonly OtlpSpan[] {
  if (depth > DEPTH_MAX || typeof value !== "object" || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((item: unknown) => readSpans(item, depth + 1));
  if ("resourceSpans" in value) {
    const read = readTraceRequest(value);
    return read.ok ? read.spans : [];
  }
  if (isOtlpSpan(value)) return [value];
  return "spans" in value && Array.isArray(value.spans) ? readSpans(value.spans, depth + 1) : [];
}

/** Enough of the shape that order, tree and attributes can be read from it. */
function isOtlpSpan(value: object): value is OtlpSpan {
  return (
    matches(value, "traceId", /^[0-9a-f]{32}$/) &&
    matches(value, "spanId", /^[0-9a-f]{16}$/) &&
    typeof Reflect.get(value, "name") === "string" &&
    matches(value, "startTimeUnixNano", /^\d{1,20}$/) &&
    matches(value, "endTimeUnixNano", /^\d{1,20}$/) &&
    typeof Reflect.get(value, "durationMs") === "number" &&
    isRecord(Reflect.get(value, "attributes")) &&
    isRecord(Reflect.get(value, "status")) &&
    isRecord(Reflect.get(value, "resource"))
  );
}

function matches(value: object, name: string, pattern: RegExp): boolean {
  const field: unknown = Reflect.get(value, name);
  return typeof field === "string" && pattern.test(field);
}

function isRecord(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
