// Which traces are kept and why: pure decisions over spans and summaries, no state and no clock.

import { type Attributes, SpanStatusCode } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace-base";
import { ATTR, type SamplingReason, SPAN } from "./names.ts";
import { SCOPE } from "./span.ts";

export type TailVerdict =
  | { readonly keep: true; readonly reason: SamplingReason }
  | { readonly keep: false; readonly why: "share" | "poll" | "cap" };

/** A user's own rule, asked for every span that ends in an undecided trace. Pure; if it throws, the trace is kept as an error. */
export type TailPolicy = (span: ReadableSpan) => SamplingReason | undefined;

export interface EndedTrace {
  readonly traceId: string;
  readonly runId: string | undefined;
  readonly poll: boolean;
  /** Of the local root; undefined while it is still open. */
  readonly durationMs: number | undefined;
  readonly slowMs: number;
  readonly share: number;
}

/** The names LangGraph gives to pauses and drains, for spans that another instrumentation marked as failed by them. */
const CONTROL_FLOW: ReadonlySet<string> = new Set([
  "GraphInterrupt",
  "NodeInterrupt",
  "GraphBubbleUp",
  "ParentCommand",
  "GraphDrained",
]);

/** What a tool span says about its effect that no investigation wants to miss. */
const EFFECT_OUTCOMES: ReadonlySet<unknown> = new Set(["unknown", "late", "mismatch", "mismatched", "fenced"]);
const EFFECT_DECISIONS: ReadonlySet<unknown> = new Set([
  "unknown",
  "reconcile",
  "resend",
  "mismatch",
  "fenced",
  "still_running",
]);

/** A reason to keep that one ended span gives on its own. The first one of a trace decides it. */
export function endedSpanReason(span: ReadableSpan): SamplingReason | undefined {
  if (span.status.code === SpanStatusCode.ERROR && !isForeignControlFlow(span)) return "error";
  const { attributes } = span;
  if (EFFECT_OUTCOMES.has(attributes[ATTR.toolOutcome]) || EFFECT_DECISIONS.has(attributes[ATTR.toolDecision])) {
    return "effect";
  }
  const seen = attributes[ATTR.toolEffectSeen];
  if (seen === true || (typeof seen === "number" && seen > 1) || attributes[ATTR.toolEchoOf] !== undefined)
    return "effect";
  return undefined;
}

/** A redelivered message is worth keeping once its graph runs again; copies that were deferred or settled before get only the share. */
export function startedSpanReason(name: string, root: Attributes): SamplingReason | undefined {
  return name === SPAN.graphInvoke && root[ATTR.redelivered] === true ? "redelivered" : undefined;
}

/** The verdict when a trace is complete, or when its grace after the root's end is over. */
export function endVerdict(trace: EndedTrace): TailVerdict {
  if (trace.poll) return { keep: false, why: "poll" };
  if (trace.durationMs !== undefined && trace.durationMs >= trace.slowMs) return { keep: true, reason: "slow" };
  return inShare(trace.runId ?? trace.traceId, trace.share)
    ? { keep: true, reason: "share" }
    : { keep: false, why: "share" };
}

/** The verdict for a trace that has to leave because a bound is reached: the share decides, under the reason `cap`. */
export function capVerdict(trace: EndedTrace): TailVerdict {
  if (trace.poll) return { keep: false, why: "poll" };
  return inShare(trace.runId ?? trace.traceId, trace.share)
    ? { keep: true, reason: "cap" }
    : { keep: false, why: "cap" };
}

/**
 * An SQS poll outside a run: with 20 s of long polling every empty one would be a slow trace (facts/tracing section 0.7).
 * Recognised in both spellings of the messaging conventions and in the AWS instrumentation's.
 */
export function isPoll(name: string, attributes: Attributes): boolean {
  if (attributes[ATTR.runId] !== undefined) return false;
  const operation = attributes[ATTR.messagingOperationType] ?? attributes["messaging.operation"];
  if (operation === "receive" || attributes["rpc.method"] === "ReceiveMessage") return true;
  return name.endsWith(" receive") || name.startsWith("receive ") || name === "SQS.ReceiveMessage";
}

/** Every process agrees on a run, whatever it has seen of it: a hash of the id, compared with the share (0 to 1). */
export function inShare(id: string, share: number): boolean {
  return hash32(id) / 2 ** 32 < share;
}

/** FNV-1a with a final mix: run ids differ in their last characters, and plain FNV moves those into the low bits only. */
function hash32(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/**
 * Other instrumentations mark a human pause as an error. Ours never does: in our scope an error that carries such a name is
 * an error that happens to be called so (report T17), and it keeps its trace.
 */
function isForeignControlFlow(span: ReadableSpan): boolean {
  if (span.instrumentationScope.name === SCOPE) return false;
  return span.events.some((event) => CONTROL_FLOW.has(String(event.attributes?.["exception.type"] ?? "")));
}
