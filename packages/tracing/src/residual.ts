// The time of a span that no child covers: where it lies and which configured constants it fits. Pure: spans in, intervals out.

import { OptionInvalidError } from "./errors.ts";
import { cutAtFirstToken, type IntervalKind, kindOf } from "./residual-kind.ts";

/** What is needed of a span, whichever store it comes from. */
export interface ResidualSpan {
  readonly id: string;
  readonly parentId: string | undefined;
  readonly name: string;
  /** Nanoseconds, of any epoch. A span that ends before it starts counts as empty. */
  readonly startNs: bigint;
  readonly endNs: bigint;
  /** Of a model's span that streamed: when its event `first_token` stands. */
  readonly firstTokenNs?: bigint;
}

/** A duration somebody configured: a timeout, a backoff, a visibility, a heartbeat. */
export interface ConfiguredConstant {
  readonly name: string;
  readonly ms: number;
  /** How far an interval may be off, as a part of `ms`, 0 to 1. Default 0.05: a timeout of 30 s fits gaps of 28.5 to 31.5 s. */
  readonly tolerance?: number;
}

export interface ResidualOptions {
  /** At most 256. Default: none. */
  readonly constants?: readonly ConfiguredConstant[];
  /** Intervals reported of one span, the largest; the others are counted. Default 16. */
  readonly intervalsMax?: number;
}

/** Where in its span an interval lies: all of it, before the first child that covers something, between two, after the last. */
export type IntervalPosition = "whole" | "before" | "between" | "after";

export interface Interval {
  readonly position: IntervalPosition;
  readonly startNs: bigint;
  readonly endNs: bigint;
  readonly durationMs: number;
  /** From the span's start. */
  readonly offsetMs: number;
  /** The children that end and start at its edges. */
  readonly previousId: string | undefined;
  readonly nextId: string | undefined;
}

export interface UncoveredInterval extends Interval {
  /** The constants it fits, the nearest first. Evidence about a layer, not proof: several may fit, and work that nobody traced fits by chance. */
  readonly matches: readonly ConfiguredConstant[];
  readonly kind: IntervalKind;
}

export interface Residual {
  readonly id: string;
  readonly name: string;
  /** `coveredNs + uncoveredNs`, to the nanosecond (property in residual.test.ts). */
  readonly durationNs: bigint;
  /** The union of the children inside the span, not their sum: parallel tools count once. */
  readonly coveredNs: bigint;
  readonly uncoveredNs: bigint;
  /** Largest first. */
  readonly intervals: readonly UncoveredInterval[];
  readonly intervalsOmitted: number;
}

const CONSTANTS_MAX = 256;
const INTERVALS_MAX = 16;
/** Above what a timer and a new connection add to a timeout of seconds, below what tells usual constants apart. */
const TOLERANCE = 0.05;

/**
 * One result for each span, in the order given. An id that comes twice counts once, the first: exporters repeat a batch. A
 * childless span is uncovered as a whole. Time n log n in spans, times the constants (hostile shapes in residual.test.ts).
 * @throws `TRACING_OPTION_INVALID` for more than 256 constants, or an `intervalsMax` below 1.
 */
export function residuals(spans: readonly ResidualSpan[], options: ResidualOptions = {}): readonly Residual[] {
  const { constants = [], intervalsMax = INTERVALS_MAX } = options;
  if (constants.length > CONSTANTS_MAX)
    throw new OptionInvalidError("constants.length", constants.length, `0 to ${CONSTANTS_MAX}`);
  if (!(intervalsMax >= 1)) throw new OptionInvalidError("intervalsMax", intervalsMax, "1 or more");
  const distinct = new Map<string, ResidualSpan>();
  for (const span of spans) if (!distinct.has(span.id)) distinct.set(span.id, span);
  const childrenOf = new Map<string, ResidualSpan[]>();
  for (const span of distinct.values()) {
    // A span that names itself as parent would cover itself whole.
    if (span.parentId === undefined || span.parentId === span.id) continue;
    const siblings = childrenOf.get(span.parentId);
    if (siblings === undefined) childrenOf.set(span.parentId, [span]);
    else siblings.push(span);
  }
  return [...distinct.values()].map((span) => {
    const gaps = cutAtFirstToken(uncovered(span, childrenOf.get(span.id) ?? []), span);
    const uncoveredNs = gaps.reduce((sum, gap) => sum + gap.endNs - gap.startNs, 0n);
    const durationNs = span.endNs > span.startNs ? span.endNs - span.startNs : 0n;
    const largest = gaps.toSorted((left, right) => right.durationMs - left.durationMs).slice(0, intervalsMax);
    return {
      id: span.id,
      name: span.name,
      durationNs,
      coveredNs: durationNs - uncoveredNs,
      uncoveredNs,
      intervals: largest.map((gap) => {
        const matches = constantsMatching(gap.durationMs, constants);
        return { ...gap, matches, kind: kindOf(span, gap, matches.length > 0) };
      }),
      intervalsOmitted: gaps.length - largest.length,
    };
  });
}

/**
 * The intervals of `span` that no child covers, in order of time. Children count inside the span only; an empty one (the
 * snapshot of a span that is still open) neither covers nor splits anything.
 */
export function uncovered(
  span: Pick<ResidualSpan, "startNs" | "endNs">,
  children: readonly Pick<ResidualSpan, "id" | "startNs" | "endNs">[],
): readonly Interval[] {
  const gaps: Interval[] = [];
  let [reached, previousId]: [bigint, string | undefined] = [span.startNs, undefined];
  const gapUntil = (endNs: bigint, nextId: string | undefined): void => {
    if (endNs <= reached) return;
    gaps.push({
      position: positionOf(previousId, nextId),
      startNs: reached,
      endNs,
      durationMs: Number(endNs - reached) / 1e6,
      offsetMs: Number(reached - span.startNs) / 1e6,
      previousId,
      nextId,
    });
  };
  for (const child of children.toSorted(byStart)) {
    if (child.startNs >= span.endNs) break;
    if (child.endNs <= reached || child.endNs <= child.startNs) continue;
    gapUntil(child.startNs, child.id);
    // It may reach past the span: the last gap is then none.
    [reached, previousId] = [child.endNs, child.id];
  }
  gapUntil(span.endNs, undefined);
  return gaps;
}

/** The constants that a duration fits, the relatively nearest first; equally near ones in the order given. */
export function constantsMatching(
  durationMs: number,
  constants: readonly ConfiguredConstant[],
): readonly ConfiguredConstant[] {
  const distance = ({ ms }: ConfiguredConstant): number => Math.abs(durationMs - ms) / ms;
  return constants
    .filter((constant) => constant.ms > 0 && distance(constant) <= (constant.tolerance ?? TOLERANCE))
    .toSorted((left, right) => distance(left) - distance(right));
}

function positionOf(previousId: string | undefined, nextId: string | undefined): IntervalPosition {
  if (previousId === undefined) return nextId === undefined ? "whole" : "before";
  return nextId === undefined ? "after" : "between";
}

function byStart(left: Pick<ResidualSpan, "startNs">, right: Pick<ResidualSpan, "startNs">): number {
  return left.startNs < right.startNs ? -1 : left.startNs > right.startNs ? 1 : 0;
}
