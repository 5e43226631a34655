// What the tail sampler counted: every verdict by reason, every span that did not arrive by cause.

import type { SamplingReason } from "./names.ts";

/** Why a span was not exported. All but the first mean that a bound or a failure took it. */
export type DropCause =
  /** The verdict on its trace was to drop. */
  | "sampled_out"
  /** Ended after its trace's verdict to drop. */
  | "late"
  /** More kept spans waited for the exporter than `maxQueuedSpans`. */
  | "queue_full"
  /** Or took more memory than `maxQueuedBytes`. */
  | "queue_bytes"
  /** The exporter refused, failed or threw. */
  | "export_failed"
  /** Still open at shutdown: only ended spans can be exported. */
  | "open_at_shutdown"
  | "after_shutdown"
  /** Its view could not be built. */
  | "unreadable";

export type CapKind = "traces" | "buffered_spans" | "buffered_bytes" | "spans_per_trace";

/** A snapshot; counters only grow, gauges say how it is now. */
export interface TailStats {
  readonly kept: Readonly<Record<SamplingReason, number>>;
  readonly dropped: Readonly<Record<"share" | "poll" | "cap", number>>;
  readonly spansReleased: number;
  readonly spansExported: number;
  readonly spansDropped: Readonly<Record<DropCause, number>>;
  readonly forcedByCap: Readonly<Record<CapKind, number>>;
  /** Traces that a cap had dropped and a later error or effect brought back, incomplete. */
  readonly broughtBack: number;
  readonly lateSpansKept: number;
  /** Of open spans, with the option `snapshots`; counted in `spansReleased` too. */
  readonly snapshots: number;
  readonly policyErrors: number;
  /** Secrets that the gate masked in what left, beyond those masked at their source. */
  readonly valuesRedacted: number;
  /** Gauges: undecided traces, decided traces with open spans, spans held undecided and their bytes, kept spans not yet taken by the exporter, bytes of those not yet in a batch. */
  readonly undecidedTraces: number;
  readonly decidedTraces: number;
  readonly bufferedSpans: number;
  readonly bufferedBytes: number;
  readonly queuedSpans: number;
  readonly queuedBytes: number;
}

type Writable<T> = {
  -readonly [K in keyof T]: T[K] extends Readonly<Record<infer R extends string, number>> ? Record<R, number> : T[K];
};

export type TailCounters = Writable<
  Omit<
    TailStats,
    | "valuesRedacted"
    | "undecidedTraces"
    | "decidedTraces"
    | "bufferedSpans"
    | "bufferedBytes"
    | "queuedSpans"
    | "queuedBytes"
  >
>;

export function newCounters(): TailCounters {
  return {
    kept: { error: 0, slow: 0, redelivered: 0, effect: 0, share: 0, cap: 0, shutdown: 0 },
    dropped: { share: 0, poll: 0, cap: 0 },
    spansReleased: 0,
    spansExported: 0,
    spansDropped: {
      sampled_out: 0,
      late: 0,
      queue_full: 0,
      queue_bytes: 0,
      export_failed: 0,
      open_at_shutdown: 0,
      after_shutdown: 0,
      unreadable: 0,
    },
    forcedByCap: { traces: 0, buffered_spans: 0, buffered_bytes: 0, spans_per_trace: 0 },
    broughtBack: 0,
    lateSpansKept: 0,
    snapshots: 0,
    policyErrors: 0,
  };
}
