// Prints a trace as a tree with durations, a few telling attributes, and the time that no child claims. Pure.

import { ATTR } from "./names.ts";
import type { OtlpSpan, OtlpValue } from "./otlp-span.ts";
import type { OtlpTrace } from "./otlp-trace.ts";
import { uncovered } from "./residual.ts";

export interface RenderOptions {
  /** Spans left out of the tree, with everything below them. Default: none. */
  readonly hide?: (span: OtlpSpan) => boolean;
  /** Characters of a line; longer ones are cut. Default: none is, as a pipe wants it. */
  readonly columnsMax?: number;
}

interface Row {
  readonly label: string;
  readonly duration: string;
  readonly detail: string;
}

/** What is said behind a span, in this order: label, then the attribute it comes from. */
const DETAILS: readonly (readonly [string, string])[] = [
  ["receive_count", ATTR.receiveCount],
  ["cause", ATTR.redeliveryCause],
  ["outcome", ATTR.outcome],
  ["step", ATTR.step],
  ["step", ATTR.checkpointStep],
  ["node_attempt", ATTR.nodeAttempt],
  ["in", ATTR.inputTokens],
  ["out", ATTR.outputTokens],
  ["bytes", ATTR.checkpointBytes],
  ["decision", ATTR.toolDecision],
  ["outcome", ATTR.toolOutcome],
  ["effect", ATTR.toolEffectRef],
  ["replayed", ATTR.toolReplayed],
  ["requests", ATTR.toolHttpRequests],
  ["status", "http.response.status_code"],
  ["status", "http.status_code"],
  ["kept", ATTR.samplingReason],
];
const HEADER: readonly (readonly [string, string])[] = [
  ["thread_id", ATTR.threadId],
  ["run_id", ATTR.runId],
];

/** Residuals below this, or below this share of their span, are the runtime's ordinary work. */
const RESIDUAL_MS_MIN = 100;
const RESIDUAL_SHARE_MIN = 0.2;
const LABEL_WIDTH_MAX = 64;
const VALUE_CHARS_MAX = 60;
const DEPTH_SHOWN_MAX = 40;

/**
 * @returns lines without a trailing newline. The first names the trace; every other is one span: tree, duration, details.
 * A failed span begins with ✗ and ends with its status message. Control characters are replaced: what a model or a tool
 * wrote must not move the reader's cursor. Hidden spans still cover their parent's time. `← 31.0s unattributed` is the span's time that none of its children covers.
 */
export function renderTrace(trace: OtlpTrace, options: RenderOptions = {}): string {
  const hide = options.hide ?? ((): boolean => false);
  const rows = treeOf(trace.spans, hide).map(({ span, prefix, children, parentHere }) =>
    toRow(span, { prefix, children, parentHere }),
  );
  const width = Math.min(LABEL_WIDTH_MAX, Math.max(20, ...rows.map(({ label }) => label.length)));
  const lines = rows.map(({ label, duration, detail }) =>
    cutLine(`${label.padEnd(width)} ${duration.padStart(8)}   ${detail}`.trimEnd(), options.columnsMax),
  );
  const first = HEADER.flatMap(([label, name]) => {
    const value = trace.spans.map((span) => span.attributes[name]).find((found) => found !== undefined);
    return value === undefined ? [] : [`${label}=${showValue(value)}`];
  });
  return [
    `trace ${trace.traceId.slice(0, 8)}…   ${[...first, `total ${showDuration(trace.durationMs)}`].join("   ")}`,
    ...lines,
  ].join("\n");
}

function cutLine(line: string, columnsMax: number | undefined): string {
  const characters = [...line];
  if (columnsMax === undefined || characters.length <= columnsMax) return line;
  return `${characters.slice(0, Math.max(0, columnsMax - 1)).join("")}…`;
}

/** Milliseconds below a second, seconds below ten minutes. */
export function showDuration(durationMs: number): string {
  if (Math.abs(durationMs) < 10) return `${durationMs.toFixed(1)}ms`;
  if (Math.abs(durationMs) < 1_000) return `${Math.round(durationMs)}ms`;
  return Math.abs(durationMs) < 600_000
    ? `${(durationMs / 1_000).toFixed(1)}s`
    : `${(durationMs / 60_000).toFixed(1)}min`;
}

/** Long enough, and enough of its span, to be more than the runtime's ordinary work. */
export function isTellingResidual(residual: number, durationMs: number): boolean {
  return residual >= RESIDUAL_MS_MIN && residual >= durationMs * RESIDUAL_SHARE_MIN;
}

/** The span's time that its children leave uncovered; overlapping children count once, and only inside the span. */
export function residualMs(span: OtlpSpan, children: readonly OtlpSpan[]): number {
  const timesOf = ({ spanId, startTimeUnixNano, endTimeUnixNano }: OtlpSpan) => ({
    id: spanId,
    startNs: BigInt(startTimeUnixNano),
    endNs: BigInt(endTimeUnixNano),
  });
  return uncovered(timesOf(span), children.map(timesOf)).reduce((sum, { durationMs }) => sum + durationMs, 0);
}

interface Branch {
  readonly span: OtlpSpan;
  readonly prefix: string;
  readonly children: readonly OtlpSpan[];
  /** False for a span that names a parent we never received. */
  readonly parentHere: boolean;
}

/** Depth first with a stack of our own: a chain of ten thousand spans must not exhaust the call stack. */
function treeOf(spans: readonly OtlpSpan[], hide: (span: OtlpSpan) => boolean): readonly Branch[] {
  const ids = new Set(spans.map((span) => span.spanId));
  const childrenOf = new Map<string, OtlpSpan[]>();
  for (const span of spans) {
    const siblings = childrenOf.get(span.parentSpanId ?? "") ?? [];
    siblings.push(span);
    childrenOf.set(span.parentSpanId ?? "", siblings);
  }
  const isTop = (span: OtlpSpan): boolean => span.parentSpanId === undefined || !ids.has(span.parentSpanId);
  const seen = hiddenIds(spans, childrenOf, hide);
  const branches: Branch[] = [];
  const walk = (start: readonly OtlpSpan[]): void => {
    const stack = toStack(start, "", 0);
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      const { span, last, indent, depth } = next;
      if (seen.has(span.spanId)) continue;
      seen.add(span.spanId);
      const children = (childrenOf.get(span.spanId) ?? []).toSorted(byStart);
      const parentHere = span.parentSpanId === undefined || ids.has(span.parentSpanId);
      branches.push({ span, prefix: `${indent}${last ? "└─ " : "├─ "}`, children, parentHere });
      const shown = children.filter((child) => !seen.has(child.spanId));
      const below = depth < DEPTH_SHOWN_MAX ? `${indent}${last ? "   " : "│  "}` : indent;
      stack.push(...toStack(shown, below, depth + 1));
    }
  };
  walk(spans.filter((span) => isTop(span) && !seen.has(span.spanId)));
  // Spans that are each other's ancestors have no root; show them rather than lose them.
  for (const span of spans) if (!seen.has(span.spanId)) walk([span]);
  return branches;
}

/** Ids of the hidden spans and of everything below them. */
function hiddenIds(
  spans: readonly OtlpSpan[],
  childrenOf: ReadonlyMap<string, readonly OtlpSpan[]>,
  hide: (span: OtlpSpan) => boolean,
): Set<string> {
  const hidden = new Set<string>();
  const stack = spans.filter(hide);
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    if (hidden.has(next.spanId)) continue;
    hidden.add(next.spanId);
    stack.push(...(childrenOf.get(next.spanId) ?? []));
  }
  return hidden;
}

function toStack(
  spans: readonly OtlpSpan[],
  indent: string,
  depth: number,
): { span: OtlpSpan; last: boolean; indent: string; depth: number }[] {
  const sorted = spans.toSorted(byStart);
  return sorted.map((span, index) => ({ span, last: index === sorted.length - 1, indent, depth })).reverse();
}

function byStart(left: OtlpSpan, right: OtlpSpan): number {
  const [a, b] = [BigInt(left.startTimeUnixNano), BigInt(right.startTimeUnixNano)];
  return a < b ? -1 : a > b ? 1 : 0;
}

function toRow(
  span: OtlpSpan,
  {
    prefix,
    children,
    parentHere,
  }: { readonly prefix: string; readonly children: readonly OtlpSpan[]; readonly parentHere: boolean },
): Row {
  const residual = residualMs(span, children);
  // An obituary knows moments, not durations: what lies between them is not unattributed, it is unknown.
  const isTelling =
    span.attributes[ATTR.reconstructed] !== true && children.length > 0 && isTellingResidual(residual, span.durationMs);
  const parts = [
    ...DETAILS.flatMap(([label, name]) => {
      const value = span.attributes[name];
      return value === undefined ? [] : [`${label}=${showValue(value)}`];
    }),
    ...(span.status.code === "ERROR" ? [`error: ${showValue(span.status.message ?? "(no message)")}`] : []),
    ...(parentHere ? [] : [`(parent ${span.parentSpanId?.slice(0, 8)}… not received)`]),
    ...(isTelling ? [`← ${showDuration(residual)} unattributed`] : []),
  ];
  const mark = span.status.code === "ERROR" ? "✗ " : "";
  return {
    label: `${prefix}${mark}${showValue(span.name)}`,
    duration: showDuration(span.durationMs),
    detail: parts.join(" "),
  };
}

function showValue(value: OtlpValue): string {
  const text = (typeof value === "string" ? value : JSON.stringify(value)).replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    "\uFFFD",
  );
  const chars = [...text];
  return chars.length <= VALUE_CHARS_MAX ? text : `${chars.slice(0, VALUE_CHARS_MAX - 1).join("")}…`;
}
