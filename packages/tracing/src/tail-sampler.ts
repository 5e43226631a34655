// The in-process tail sampler: holds the spans of undecided traces, decides at the first reason, sends kept ones on. Bounded everywhere.

import { type Context, diag } from "@opentelemetry/api";
import type { ReadableSpan, Span, SpanExporter, SpanProcessor } from "@opentelemetry/sdk-trace-base";
import type { Gate } from "./gate.ts";
import type { SamplingReason } from "./names.ts";
import { capVerdict, endedSpanReason, endVerdict, startedSpanReason, type TailVerdict } from "./tail-decision.ts";
import { bytesOf, grownBytes } from "./tail-sampler-bytes.ts";
import {
  type DecisionListener,
  systemClock,
  type TailClock,
  type TailOptions,
  type TailSettings,
  tailSettings,
} from "./tail-sampler-options.ts";
import { ReleaseQueue } from "./tail-sampler-release.ts";
import { snapshotOf } from "./tail-sampler-snapshot.ts";
import { type CapKind, newCounters, type TailCounters, type TailStats } from "./tail-sampler-stats.ts";
import { dueAtMs, slowMsOf, summaryOf } from "./tail-sampler-summary.ts";
import { DeadlineTimer } from "./tail-sampler-timer.ts";
import { isLocalRoot, LiveTraces, LocalTrace } from "./tail-sampler-trace.ts";

/**
 * Register it as the only processor of its exporter, with `KeepRecordingSampler`. It owns its BatchSpanProcessor: sibling
 * processors shut down in parallel, and the batch must close after the last verdict.
 *
 * A trace here is a local trace: its root has no parent or a remote one. It is decided once, by the first of: a span that
 * ended with an error; a doubtful effect; the graph of a redelivered message starting; still open (or ended) past the slow
 * threshold; complete (then the share decides, by run id); a cap; shutdown. Nothing is held longer than the slow threshold.
 * None of its methods throws: the SDK guards no processor, so a throw here would become the caller's.
 */
export class TailSamplingProcessor implements SpanProcessor {
  readonly #settings: TailSettings;
  readonly #clock: TailClock;
  readonly #counters: TailCounters = newCounters();
  readonly #live = new LiveTraces();
  readonly #release: ReleaseQueue;
  readonly #timer: DeadlineTimer;
  #buffered = 0;
  #bufferedBytes = 0;
  #resource: ReadableSpan["resource"] | undefined;
  #closed = false;
  #decided: DecisionListener = () => {};

  constructor(exporter: SpanExporter, gate: Gate, options: TailOptions = {}) {
    this.#settings = tailSettings(options);
    this.#clock = options.clock ?? systemClock();
    this.#timer = new DeadlineTimer(this.#clock, () => this.#guarded(() => this.#due()));
    this.#release = new ReleaseQueue({ exporter, gate, counters: this.#counters, ...this.#settings });
  }

  onStart(span: Span, _parent: Context): void {
    this.#guarded(() => this.#started(span));
  }

  onEnd(span: ReadableSpan): void {
    this.#guarded(() => this.#ended(span));
  }

  /** Sends what is kept so far. Undecided traces stay undecided: a flush is no reason to keep or to drop. */
  async forceFlush(): Promise<void> {
    await this.#release.flush();
  }

  /** Keeps what is undecided (`shutdown`), exports its ended spans, counts the open ones, closes the exporter. */
  async shutdown(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer.cancel();
    // First these: what is decided below joins them.
    for (const trace of this.#live.decided) this.#counters.spansDropped.open_at_shutdown += trace.open;
    for (const trace of [...this.#live.undecided]) {
      this.#counters.spansDropped.open_at_shutdown += trace.open;
      const complete = trace.rootEndedAtMs !== undefined || summaryOf(trace, this.#settings).poll;
      this.#decide(trace, complete ? endVerdict(summaryOf(trace, this.#settings)) : { keep: true, reason: "shutdown" });
    }
    await this.#release.shutdown();
  }

  /** Past the sampler but not past the gate, for spans that were decided elsewhere (obituaries). Rejects with a `TracingError`. */
  async exportNow(spans: readonly ReadableSpan[]): Promise<void> {
    await this.#release.exportNow(spans);
  }

  onDecision(listener: DecisionListener): void {
    this.#decided = (ageMs, verdict) => this.#guarded(() => listener(ageMs, verdict));
  }

  /** The resource of this process, once a span was started; obituaries are sent under it. */
  resource(): ReadableSpan["resource"] | undefined {
    return this.#resource;
  }

  stats(): TailStats {
    return {
      ...structuredClone(this.#counters),
      valuesRedacted: this.#release.valuesRedacted,
      undecidedTraces: this.#live.undecided.size,
      decidedTraces: this.#live.decided.size,
      bufferedSpans: this.#buffered,
      bufferedBytes: this.#bufferedBytes,
      queuedSpans: this.#release.queued,
      queuedBytes: this.#release.queuedBytes,
    };
  }

  #started(span: Span): void {
    if (this.#closed) return;
    this.#resource ??= span.resource;
    const trace = isLocalRoot(span) ? this.#opened(span) : this.#live.ofStarted(span);
    if (trace !== undefined) this.#joined(span, trace);
    // A local parent nobody has seen: its trace is over and remembered, or it began before this processor did.
    else if (this.#live.remembered(span.spanContext().traceId) === undefined) this.#joined(span, this.#opened(span));
  }

  #opened(root: Span): LocalTrace {
    const trace = new LocalTrace(root, this.#clock.now());
    this.#live.add(trace);
    this.#live.own(root, trace);
    if (this.#live.undecided.size > this.#settings.maxTraces) this.#forceOldest("traces");
    this.#timer.arm(trace.startedAtMs + slowMsOf(trace, this.#settings));
    return trace;
  }

  #joined(span: Span, trace: LocalTrace): void {
    trace.open += 1;
    if (trace.verdict !== undefined) return;
    const bytes = bytesOf(span);
    trace.started.push(span);
    trace.startedBytes.push(bytes);
    this.#buffered += 1;
    const reason = startedSpanReason(span.name, trace.root.attributes);
    if (reason !== undefined) this.#decide(trace, { keep: true, reason });
    else if (trace.started.length > this.#settings.maxSpansPerTrace) this.#force(trace, "spans_per_trace");
    else if (this.#buffered > this.#settings.maxBufferedSpans) this.#forceOldest("buffered_spans");
    this.#grew(trace, bytes);
  }

  /** One trace that alone holds a quarter of the memory leaves before others do; then the oldest, one a turn, so that it ends. */
  #grew(trace: LocalTrace, bytes: number): void {
    if (trace.verdict !== undefined) return;
    trace.bytes += bytes;
    this.#bufferedBytes += bytes;
    const { maxBufferedBytes } = this.#settings;
    if (this.#bufferedBytes <= maxBufferedBytes) return;
    if (trace.bytes * 4 > maxBufferedBytes) this.#force(trace, "buffered_bytes");
    while (this.#bufferedBytes > maxBufferedBytes && this.#live.undecided.size > 0) this.#forceOldest("buffered_bytes");
  }

  #ended(span: ReadableSpan): void {
    if (this.#closed) {
      this.#counters.spansDropped.after_shutdown += 1;
      return;
    }
    const trace = this.#live.ofEnded(span);
    if (trace === undefined) {
      this.#endedLate(span);
      return;
    }
    const isRoot = span.spanContext().spanId === trace.rootSpanId;
    trace.open -= 1;
    if (isRoot) trace.rootEndedAtMs = this.#clock.now();
    // Counted before the verdict, which may release it; the bound on it is for what is still held after it.
    const grown = trace.verdict === undefined ? grownBytes(span, trace) : 0;
    this.#judgeEnded(span, trace, isRoot);
    if (trace.rootEndedAtMs === undefined || trace.open > 0) {
      if (trace.rootEndedAtMs !== undefined && isRoot) this.#timer.arm(trace.rootEndedAtMs + this.#settings.graceMs);
      if (trace.verdict === undefined) this.#grew(trace, grown);
      return;
    }
    if (trace.verdict === undefined) this.#decide(trace, endVerdict(summaryOf(trace, this.#settings)));
    this.#live.remove(trace);
  }

  #judgeEnded(span: ReadableSpan, trace: LocalTrace, isRoot: boolean): void {
    const { verdict } = trace;
    if (verdict === undefined) {
      const reason = this.#reasonOf(span);
      if (reason !== undefined) this.#decide(trace, { keep: true, reason });
      return;
    }
    if (verdict.keep) {
      this.#release.release(span, isRoot ? verdict.reason : undefined);
      return;
    }
    // A cap dropped it before anything had happened: an error later still brings the rest back.
    const reason = verdict.why === "cap" ? this.#reasonOf(span) : undefined;
    if (reason === undefined) {
      this.#counters.spansDropped.sampled_out += 1;
      return;
    }
    trace.verdict = { keep: true, reason };
    this.#counters.broughtBack += 1;
    this.#release.release(span, isRoot ? reason : undefined);
  }

  #endedLate(span: ReadableSpan): void {
    const remembered = this.#live.remembered(span.spanContext().traceId);
    if (remembered === undefined || remembered === "dropped") {
      this.#counters.spansDropped.late += 1;
      return;
    }
    this.#counters.lateSpansKept += 1;
    // The root of a long trace that the bound on decided traces had pushed out.
    this.#release.release(span, isLocalRoot(span) ? remembered : undefined);
  }

  #reasonOf(span: ReadableSpan): SamplingReason | undefined {
    try {
      for (const policy of this.#settings.policies) {
        const reason = policy(span);
        if (reason !== undefined) return reason;
      }
    } catch (error) {
      this.#counters.policyErrors += 1;
      diag.warn("tracing: a sampling policy threw; the trace is kept", error);
      return "error";
    }
    return endedSpanReason(span);
  }

  /** The one place where a verdict falls: what was held is released or forgotten, what is still open follows as it ends. */
  #decide(trace: LocalTrace, verdict: TailVerdict): void {
    const { started: held, startedBytes: heldBytes, lostSight } = trace;
    trace.verdict = verdict;
    this.#decided(this.#clock.now() - trace.startedAtMs, verdict);
    trace.started = [];
    trace.startedBytes = [];
    this.#buffered -= held.length;
    this.#bufferedBytes -= trace.bytes;
    trace.bytes = 0;
    this.#live.undecided.delete(trace);
    this.#live.decided.add(trace);
    this.#boundDecided();
    if (verdict.keep) {
      this.#counters.kept[verdict.reason] += 1;
      for (const [at, span] of held.entries()) {
        const bytes = lostSight ? undefined : heldBytes[at];
        if (span.ended) this.#release.release(span, span === trace.root ? verdict.reason : undefined, bytes);
        else if (this.#settings.snapshots && (verdict.reason === "slow" || verdict.reason === "shutdown")) {
          this.#counters.snapshots += 1;
          this.#release.release(snapshotOf(span), undefined);
        }
      }
    } else {
      this.#counters.dropped[verdict.why] += 1;
      for (const span of held) if (span.ended) this.#counters.spansDropped.sampled_out += 1;
    }
    // Once these arrays have proved long-lived, V8 makes them in its old generation, where a dead one still holds what it held.
    held.length = 0;
  }

  #force(trace: LocalTrace, cap: CapKind): void {
    this.#counters.forcedByCap[cap] += 1;
    this.#decide(trace, capVerdict(summaryOf(trace, this.#settings)));
  }

  #forceOldest(cap: CapKind): void {
    const [oldest] = this.#live.undecided;
    if (oldest !== undefined) this.#force(oldest, cap);
  }

  /** Decided traces that never end are forgotten, oldest first; their verdict is remembered for spans that end after all. */
  #boundDecided(): void {
    if (this.#live.decided.size <= this.#settings.maxTraces) return;
    // One more than before at the most: it is asked at every verdict.
    const [oldest] = this.#live.decided;
    if (oldest !== undefined) this.#live.remove(oldest);
  }

  #due(): void {
    const now = this.#clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const trace of [...this.#live.undecided]) {
      const dueAt = dueAtMs(trace, this.#settings);
      if (dueAt > now) next = Math.min(next, dueAt);
      else this.#decideDue(trace);
    }
    for (const trace of [...this.#live.decided]) {
      // Never-ended children do not pin a trace whose root is over.
      if (trace.rootEndedAtMs === undefined) continue;
      const dueAt = trace.rootEndedAtMs + this.#settings.graceMs;
      if (dueAt > now) next = Math.min(next, dueAt);
      else this.#live.remove(trace);
    }
    // At most twenty looks a second, however many deadlines there are.
    if (next !== Number.POSITIVE_INFINITY) this.#timer.arm(Math.max(next, now + 50));
  }

  #decideDue(trace: LocalTrace): void {
    const summary = summaryOf(trace, this.#settings);
    const slow = trace.rootEndedAtMs === undefined && !summary.poll;
    this.#decide(trace, slow ? { keep: true, reason: "slow" } : endVerdict(summary));
    if (trace.rootEndedAtMs !== undefined) this.#live.remove(trace);
  }

  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      diag.error("tracing: the tail sampler failed on a span; the caller is not affected", error);
    }
  }
}
