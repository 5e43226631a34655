// What is exported of a span that is still open: an empty child of it, so that its real end comes later under its own id.

import { randomBytes } from "node:crypto";
import type { Attributes, HrTime, SpanContext } from "@opentelemetry/api";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace-base";
import { ATTR } from "./names.ts";

const EMPTY: HrTime = [0, 0];

/**
 * Under the open span's own id it would be exported twice, and a backend keeps either the first or both. An empty child
 * covers none of its parent's time (residual.test.ts), and stands where its parent started.
 * Its attributes are those of the open span until now. Events and links are left to the real span: they would be seen twice.
 */
export function snapshotOf(span: ReadableSpan): ReadableSpan {
  const parent = span.spanContext();
  const own: SpanContext = { ...parent, spanId: randomBytes(8).toString("hex") };
  const attributes: Attributes = { ...span.attributes, [ATTR.samplingPending]: true };
  // Would make the export view move it below an obituary; its parent goes there.
  delete attributes[ATTR.superseded];
  return {
    name: `pending ${span.name}`,
    // A second SERVER or CONSUMER span would be counted as a second request.
    kind: SpanKind.INTERNAL,
    spanContext: () => own,
    parentSpanContext: parent,
    startTime: span.startTime,
    endTime: span.startTime,
    duration: EMPTY,
    status: { code: SpanStatusCode.UNSET },
    attributes,
    links: [],
    events: [],
    ended: true,
    resource: span.resource,
    instrumentationScope: span.instrumentationScope,
    droppedAttributesCount: span.droppedAttributesCount,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}
