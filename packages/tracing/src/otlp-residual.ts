// The time of a printed trace that no span claims: the intervals worth a look, and the constants they fit, as lines. Pure.

import { ATTR, EVENT } from "./names.ts";
import type { OtlpSpan } from "./otlp-span.ts";
import type { OtlpTrace } from "./otlp-trace.ts";
import { isTellingResidual, showDuration } from "./otlp-tree.ts";
import { type ConfiguredConstant, type Residual, residuals } from "./residual.ts";
import type { IntervalKind } from "./residual-kind.ts";

/** Those that the tree marks with an arrow, the largest first. An obituary's spans are moments, so it has none. */
export function tellingResiduals(trace: OtlpTrace, constants: readonly ConfiguredConstant[] = []): readonly Residual[] {
  const parents = new Set(trace.spans.map((span) => span.parentSpanId));
  const known = new Set(
    trace.spans
      .filter((span) => span.attributes[ATTR.reconstructed] !== true && parents.has(span.spanId))
      .map((span) => span.spanId),
  );
  const spans = trace.spans.map((span) => ({
    id: span.spanId,
    parentId: span.parentSpanId,
    name: span.name,
    startNs: BigInt(span.startTimeUnixNano),
    endNs: BigInt(span.endTimeUnixNano),
    ...firstTokenOf(span),
  }));
  return residuals(spans, { constants })
    .filter(
      (residual) => known.has(residual.id) && isTellingResidual(msOf(residual.uncoveredNs), msOf(residual.durationNs)),
    )
    .toSorted((left, right) => Number(right.uncoveredNs - left.uncoveredNs));
}

/** One line an interval: how long, of which span, where in it, and what it fits. Without a trailing newline. */
export function renderResiduals(found: readonly Residual[], trace: OtlpTrace): string {
  const nameOf = (id: string | undefined): string => trace.spans.find((span) => span.spanId === id)?.name ?? "?";
  const clean = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "\uFFFD");
  return found
    .flatMap((residual) =>
      residual.intervals
        .filter((interval) => isTellingResidual(interval.durationMs, msOf(residual.durationNs)))
        .map((interval) => {
          const before = interval.nextId === undefined ? "to its end" : `before ${nameOf(interval.nextId)}`;
          const after = interval.previousId === undefined ? "from its start" : `after ${nameOf(interval.previousId)}`;
          const fits = interval.matches.map(({ name, ms }) => `${name} (${showDuration(ms)})`).join(", ");
          return clean(
            `← ${showDuration(interval.durationMs)} ${SAID[interval.kind]} ${residual.name}, ${after} ${before}${fits === "" ? "" : `; fits ${fits}`}`,
          );
        }),
    )
    .join("\n");
}

const SAID: Readonly<Record<IntervalKind, string>> = {
  unattributed: "unattributed in",
  model_wait: "waiting for",
  streaming: "streaming from",
  runtime: "of the runtime in",
};

function firstTokenOf({ events }: OtlpSpan): { readonly firstTokenNs?: bigint } {
  const first = events.find(({ name }) => name === EVENT.firstToken);
  return first === undefined ? {} : { firstTokenNs: BigInt(first.timeUnixNano) };
}

function msOf(ns: bigint): number {
  return Number(ns) / 1e6;
}
