// The tail sampler's options with their defaults and limits, and the clock it goes by.

import { OptionInvalidError } from "./errors.ts";
import type { TailPolicy, TailVerdict } from "./tail-decision.ts";

export interface TailClock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Calls once after `delayMs`, without keeping the process alive; returns how to cancel. */
  after(delayMs: number, callback: () => void): () => void;
}

/** Told of each verdict with the age of its trace, for metrics. Runs on the caller's stack, so it must be quick. */
export type DecisionListener = (ageMs: number, verdict: TailVerdict) => void;

export interface TailOptions {
  /** Part of the uninteresting traces that is kept, 0 to 1. Default 0.05. */
  readonly share?: number;
  /** A trace this long is kept, and streams out from then on. Default 30,000. */
  readonly slowMs?: number;
  /** Another threshold for agents whose runs are long by nature, by `agent.name`. */
  readonly slowMsByAgent?: Readonly<Record<string, number>>;
  /** How long a trace waits for open children after its root ended. Default 5,000. */
  readonly graceMs?: number;
  /** Undecided traces held, and decided ones with open spans remembered. Default 2,000 each. */
  readonly maxTraces?: number;
  /** Spans of all undecided traces. Default 20,000. */
  readonly maxBufferedSpans?: number;
  /**
   * Memory of all undecided traces, estimated from above by their spans' attributes, events and links, at each span's start
   * and end. Default 67,108,864 (64 MiB).
   */
  readonly maxBufferedBytes?: number;
  /** Spans of one undecided trace. Default 5,000. */
  readonly maxSpansPerTrace?: number;
  /** Kept spans that wait for the exporter, beside the batch processor's own 15,360. Default 20,000. */
  readonly maxQueuedSpans?: number;
  /** The same estimate for the kept spans that wait, before they are gated and cut. Default 67,108,864 (64 MiB). */
  readonly maxQueuedBytes?: number;
  /** For one export. Default 10,000. */
  readonly exportTimeoutMs?: number;
  /** A batch that is not full leaves after this. Default 1,000. */
  readonly scheduledDelayMs?: number;
  /**
   * When a trace turns slow, or is undecided at shutdown, each span of it that is open leaves at once as an empty child of
   * itself: a run of hours is seen while it runs, and a process that dies has said what it was doing. Default false.
   */
  readonly snapshots?: boolean;
  /** Asked before the built-in rules, in order. Pure functions over an ended span. */
  readonly policies?: readonly TailPolicy[];
  readonly clock?: TailClock;
}

export type TailSettings = Required<Omit<TailOptions, "clock" | "slowMsByAgent">> & {
  readonly slowMsByAgent: ReadonlyMap<string, number>;
};

/** Throws `TRACING_OPTION_INVALID` where a value would turn a bound off. */
export function tailSettings(options: TailOptions): TailSettings {
  const share = options.share ?? 0.05;
  if (!(share >= 0 && share <= 1)) throw new OptionInvalidError("share", share, "0 to 1");
  const slowMsByAgent = new Map(Object.entries(options.slowMsByAgent ?? {}));
  for (const [agent, slowMs] of slowMsByAgent) positive(`slowMsByAgent.${agent}`, slowMs);
  return {
    share,
    slowMs: positive("slowMs", options.slowMs ?? 30_000),
    slowMsByAgent,
    graceMs: positive("graceMs", options.graceMs ?? 5_000),
    maxTraces: positive("maxTraces", options.maxTraces ?? 2_000),
    maxBufferedSpans: positive("maxBufferedSpans", options.maxBufferedSpans ?? 20_000),
    maxBufferedBytes: positive("maxBufferedBytes", options.maxBufferedBytes ?? 64 * 1_024 * 1_024),
    maxSpansPerTrace: positive("maxSpansPerTrace", options.maxSpansPerTrace ?? 5_000),
    maxQueuedSpans: positive("maxQueuedSpans", options.maxQueuedSpans ?? 20_000),
    maxQueuedBytes: positive("maxQueuedBytes", options.maxQueuedBytes ?? 64 * 1_024 * 1_024),
    exportTimeoutMs: positive("exportTimeoutMs", options.exportTimeoutMs ?? 10_000),
    scheduledDelayMs: positive("scheduledDelayMs", options.scheduledDelayMs ?? 1_000),
    snapshots: options.snapshots ?? false,
    policies: options.policies ?? [],
  };
}

export function systemClock(): TailClock {
  return {
    now: () => performance.now(),
    after: (delayMs, callback) => {
      const timer = setTimeout(callback, delayMs).unref();
      return () => clearTimeout(timer);
    },
  };
}

function positive(option: string, value: number): number {
  // 2^31 - 1 is where setTimeout turns into "at once".
  if (!(value >= 1 && value <= 2_147_483_647)) throw new OptionInvalidError(option, value, "1 to 2,147,483,647");
  return value;
}
