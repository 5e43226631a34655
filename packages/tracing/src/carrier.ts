// Trace context in SQS message attributes: written by whoever sends a run, read by the delivery that takes it.

import {
  type Context,
  context,
  defaultTextMapGetter,
  defaultTextMapSetter,
  ROOT_CONTEXT,
  type SpanContext,
  trace,
} from "@opentelemetry/api";
import { W3CTraceContextPropagator } from "@opentelemetry/core";

/** The part of the AWS SDK's `MessageAttributeValue` that is read here; any wider type passes through untouched. */
export interface MessageAttribute {
  readonly DataType?: string | undefined;
  readonly StringValue?: string | undefined;
}

export interface TraceAttribute {
  readonly DataType: "String";
  readonly StringValue: string;
}

export interface ExtractedTrace {
  /** Never the active context: a root context, with the sender's span as remote parent when there was a readable one. */
  readonly context: Context;
  /** The sender's span, for a link. Absent when there was none or it was malformed. */
  readonly spanContext?: SpanContext;
}

/** SQS refuses a message with more. */
const ATTRIBUTES_MAX = 10;

// The W3C format whatever propagator the process registered: the reader of a queue cannot know its senders' set-up.
const propagator = new W3CTraceContextPropagator();

/**
 * Adds `traceparent` (and `tracestate`) of the active span to SQS message attributes. The caller's own attributes are never
 * dropped: where ten would be exceeded, `tracestate` goes first, then `traceparent`. A stale pair is replaced as a pair.
 */
export function injectTrace<A extends MessageAttribute>(
  attributes: Readonly<Record<string, A>> = {},
  from: Context = context.active(),
): Record<string, A | TraceAttribute> {
  const carrier: Record<string, string> = {};
  propagator.inject(from, carrier, defaultTextMapSetter);
  const traceparent = carrier["traceparent"];
  if (traceparent === undefined) return { ...attributes };

  const { traceparent: _old, tracestate: _oldState, ...own } = attributes;
  const result: Record<string, A | TraceAttribute> = { ...own };
  const free = ATTRIBUTES_MAX - Object.keys(own).length;
  if (free >= 1) result["traceparent"] = { DataType: "String", StringValue: traceparent };
  // SQS refuses an empty value.
  const tracestate = carrier["tracestate"];
  if (free >= 2 && tracestate) result["tracestate"] = { DataType: "String", StringValue: tracestate };
  return result;
}

/** Reads what `injectTrace` (or the AWS SDK instrumentation of any sender) wrote. Anything malformed reads as absent; never throws. */
export function extractTrace(attributes: unknown): ExtractedTrace {
  const carrier: Record<string, string> = {};
  for (const name of propagator.fields()) {
    const value = stringValue(attributes, name);
    if (value !== undefined) carrier[name] = value;
  }
  const extracted = propagator.extract(ROOT_CONTEXT, carrier, defaultTextMapGetter);
  const spanContext = trace.getSpanContext(extracted);
  return spanContext === undefined ? { context: ROOT_CONTEXT } : { context: extracted, spanContext };
}

function stringValue(attributes: unknown, name: string): string | undefined {
  const attribute = property(attributes, name);
  const value = property(attribute, "StringValue") ?? property(attribute, "stringValue");
  return typeof value === "string" && value.length <= 4_096 ? value : undefined;
}

function property(holder: unknown, name: string): unknown {
  if (typeof holder !== "object" || holder === null || !Object.hasOwn(holder, name)) return undefined;
  // A record check: own property of a non-null object.
  return (holder as Readonly<Record<string, unknown>>)[name];
}
