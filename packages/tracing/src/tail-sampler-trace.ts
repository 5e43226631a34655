// The live traces of a process, keyed by trace id and local root, with the memory of what was decided about those that are gone.

import type { ReadableSpan, Span } from "@opentelemetry/sdk-trace-base";
import type { SamplingReason } from "./names.ts";
import type { TailVerdict } from "./tail-decision.ts";
import { VerdictMemory } from "./tail-sampler-verdicts.ts";

/** A class: V8 makes literals that proved long-lived in its old generation, where a dead one still holds its root. */
export class LocalTrace {
  readonly traceId: string;
  readonly rootSpanId: string;
  /** Readable while it is open: the receive count and the run id are on it. */
  readonly root: ReadableSpan;
  readonly startedAtMs: number;
  /** Started spans, open ones too, until the verdict; empty afterwards. */
  started: Span[] = [];
  /** What each of them was taken for when it was last looked at, and their sum. */
  startedBytes: number[] = [];
  bytes = 0;
  /** An ended span was not found among the started ones: what stands for it above is what it had at its start. */
  lostSight = false;
  open = 0;
  verdict: TailVerdict | undefined;
  /** When the root ended, by the processor's clock. */
  rootEndedAtMs: number | undefined;

  constructor(root: Span, startedAtMs: number) {
    const { traceId, spanId } = root.spanContext();
    this.traceId = traceId;
    this.rootSpanId = spanId;
    this.root = root;
    this.startedAtMs = startedAtMs;
  }
}

/** A span that is not there (another process's, or none) or that another process owns makes its child a local root. */
export function isLocalRoot(span: ReadableSpan): boolean {
  return span.parentSpanContext === undefined || span.parentSpanContext.isRemote === true;
}

interface Shared {
  readonly traces: LocalTrace[];
  readonly owners: Map<string, LocalTrace>;
}

/**
 * Found by trace id alone while a trace id has one local root, which is nearly always: a map of spans cost three times as
 * much, and a parent that is a mere wrapper of a span context must not open a new local root (facts/tracing section 9, trap 1).
 * Only when a second local root appears (two deliveries in one process that continue the sender's trace) are spans told apart by id.
 */
export class LiveTraces {
  readonly #single = new Map<string, LocalTrace>();
  readonly #shared = new Map<string, Shared>();
  readonly #gone = new VerdictMemory();
  /** Both in order of start. */
  readonly undecided = new Set<LocalTrace>();
  readonly decided = new Set<LocalTrace>();

  add(trace: LocalTrace): void {
    this.undecided.add(trace);
    const first = this.#single.get(trace.traceId);
    const shared = this.#shared.get(trace.traceId) ?? (first === undefined ? undefined : share(first));
    if (shared === undefined) {
      this.#single.set(trace.traceId, trace);
      return;
    }
    this.#single.delete(trace.traceId);
    shared.traces.push(trace);
    this.#shared.set(trace.traceId, shared);
  }

  /** The local trace a started span with a local parent belongs to. */
  ofStarted(span: Span): LocalTrace | undefined {
    const { traceId, spanId } = span.spanContext();
    const single = this.#single.get(traceId);
    if (single !== undefined) return single;
    const shared = this.#shared.get(traceId);
    if (shared === undefined) return undefined;
    const trace = shared.owners.get(span.parentSpanContext?.spanId ?? "") ?? strayOwner(shared);
    if (trace !== undefined) shared.owners.set(spanId, trace);
    return trace;
  }

  ofEnded(span: ReadableSpan): LocalTrace | undefined {
    const { traceId, spanId } = span.spanContext();
    const single = this.#single.get(traceId);
    if (single !== undefined) return single;
    const shared = this.#shared.get(traceId);
    if (shared === undefined) return undefined;
    const trace = shared.owners.get(spanId);
    // The root's own entry stays: late children name it as parent.
    if (trace !== undefined && trace.rootSpanId !== spanId) shared.owners.delete(spanId);
    return trace ?? strayOwner(shared);
  }

  own(span: Span, trace: LocalTrace): void {
    this.#shared.get(trace.traceId)?.owners.set(span.spanContext().spanId, trace);
  }

  remove(trace: LocalTrace): void {
    this.undecided.delete(trace);
    this.decided.delete(trace);
    if (trace.verdict?.keep === true) this.#gone.keep(trace.traceId, trace.verdict.reason);
    else this.#gone.drop(trace.traceId);
    if (this.#single.delete(trace.traceId)) return;
    const shared = this.#shared.get(trace.traceId);
    if (shared === undefined) return;
    shared.traces.splice(shared.traces.indexOf(trace), 1);
    for (const [spanId, owner] of shared.owners) if (owner === trace) shared.owners.delete(spanId);
    if (shared.traces.length === 0) this.#shared.delete(trace.traceId);
  }

  /** What was decided about a trace that is gone. */
  remembered(traceId: string): SamplingReason | "dropped" | undefined {
    return this.#gone.of(traceId);
  }
}

function share(first: LocalTrace): Shared {
  const owners = new Map<string, LocalTrace>([[first.rootSpanId, first]]);
  for (const span of first.started) if (!span.ended) owners.set(span.spanContext().spanId, first);
  return { traces: [first], owners };
}

/** A span nobody can place, in a trace id with several local roots: with a kept one if there is one, for losing is worse. */
function strayOwner(shared: Shared): LocalTrace | undefined {
  return shared.traces.find((trace) => trace.verdict?.keep === true) ?? shared.traces.at(-1);
}
