// What the time is that no child covers: a model's answer on its way, the runtime between two steps, or nobody's. Pure.

import { SPAN } from "./names.ts";
import type { Interval, ResidualSpan } from "./residual.ts";

/**
 * `model_wait`: a model was asked and has said nothing yet. `streaming`: it is answering, from its first token on. `runtime`: a short
 * gap of a delivery or its graph, between two steps, that fits no constant. `unattributed`: all others, the ones worth a look.
 */
export type IntervalKind = "model_wait" | "streaming" | "runtime" | "unattributed";

/** Longer ones are no bookkeeping: the checkpoints and queries between two steps have spans of their own. */
const RUNTIME_MS_MAX = 1_000;

const MODEL = SPAN.model("");
const DELIVERY = SPAN.process("");

/** Cuts a model's intervals where its first token came: waiting before and streaming after are two things. */
export function cutAtFirstToken(
  gaps: readonly Interval[],
  { firstTokenNs, startNs }: ResidualSpan,
): readonly Interval[] {
  if (firstTokenNs === undefined) return gaps;
  return gaps.flatMap((gap) =>
    gap.startNs < firstTokenNs && firstTokenNs < gap.endNs
      ? [
          part(gap, { ...gap, endNs: firstTokenNs, nextId: undefined }, startNs),
          part(gap, { ...gap, startNs: firstTokenNs, previousId: undefined }, startNs),
        ]
      : [gap],
  );
}

export function kindOf(span: ResidualSpan, gap: Pick<Interval, "startNs" | "durationMs">, fits: boolean): IntervalKind {
  if (span.firstTokenNs !== undefined) return gap.startNs < span.firstTokenNs ? "model_wait" : "streaming";
  // Without streaming a model's whole time is waiting; its client's retries would be children.
  if (span.name.startsWith(MODEL)) return fits ? "unattributed" : "model_wait";
  const runtime = span.name === SPAN.graphInvoke || span.name.startsWith(DELIVERY);
  return runtime && !fits && gap.durationMs < RUNTIME_MS_MAX ? "runtime" : "unattributed";
}

function part(whole: Interval, { startNs, endNs, previousId, nextId }: Interval, spanStartNs: bigint): Interval {
  return {
    position: whole.position,
    startNs,
    endNs,
    durationMs: Number(endNs - startNs) / 1e6,
    offsetMs: Number(startNs - spanStartNs) / 1e6,
    previousId,
    nextId,
  };
}
