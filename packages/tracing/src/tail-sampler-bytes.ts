// How much memory a held span is taken for: an estimate from above, cheap enough for every span.

import type { Attributes, AttributeValue } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace-base";
import type { LocalTrace } from "./tail-sampler-trace.ts";

/** A span of the SDK without its contents, and an event or a link of it. */
const SPAN_BYTES = 600;
const PART_BYTES = 150;
/** A key's slot: the key itself is one string for all spans. */
const SLOT_BYTES = 16;

/** Strings count two bytes a character: one that holds a single wide character takes that. */
export function bytesOf(span: ReadableSpan): number {
  let bytes = SPAN_BYTES + 2 * span.name.length + attributesBytes(span.attributes);
  for (const event of span.events) bytes += PART_BYTES + 2 * event.name.length + attributesBytes(event.attributes);
  for (const link of span.links) bytes += PART_BYTES + attributesBytes(link.attributes);
  if (span.status.message !== undefined) bytes += 2 * span.status.message.length;
  return bytes;
}

/** Open spans among the last this many are found again at their end, and the root is: a map of them cost more than the rest of the sampler. */
const LOOK_BACK = 64;

/**
 * What an ended span of an undecided trace takes more than when it started. One that is not found, among many parallel
 * ones, counts in full once more, on the safe side of the bound.
 */
export function grownBytes(span: ReadableSpan, trace: LocalTrace): number {
  const now = bytesOf(span);
  const at = placeOf(span, trace.started);
  if (at === undefined) {
    trace.lostSight = true;
    return now;
  }
  const before = trace.startedBytes[at] ?? 0;
  trace.startedBytes[at] = now;
  return now - before;
}

function placeOf(span: ReadableSpan, started: readonly ReadableSpan[]): number | undefined {
  if (started[0] === span) return 0;
  for (let at = started.length - 1; at >= 0 && at >= started.length - LOOK_BACK; at--) {
    if (started[at] === span) return at;
  }
  return undefined;
}

function attributesBytes(attributes: Attributes | undefined): number {
  if (attributes === undefined) return 0;
  let bytes = 0;
  // Object.values would make an array for each span. Inherited keys are none of the SDK's, and only add to the estimate.
  for (const key in attributes) bytes += SLOT_BYTES + valueBytes(attributes[key]);
  return bytes;
}

function valueBytes(value: AttributeValue | undefined): number {
  if (typeof value === "string") return 2 * value.length;
  if (!Array.isArray(value)) return 0;
  let bytes = SLOT_BYTES;
  for (const item of value) bytes += SLOT_BYTES + (typeof item === "string" ? 2 * item.length : 0);
  return bytes;
}
