// The way out of the tail sampler: kept spans wait in a bounded queue and go to one BatchSpanProcessor in chunks, never in a burst.

import { context, diag, ROOT_CONTEXT } from "@opentelemetry/api";
import { type ExportResult, ExportResultCode, suppressTracing } from "@opentelemetry/core";
import { BatchSpanProcessor, type ReadableSpan, type SpanExporter } from "@opentelemetry/sdk-trace-base";
import { ExportFailedError } from "./errors.ts";
import type { Gate } from "./gate.ts";
import type { SamplingReason } from "./names.ts";
import { bytesOf } from "./tail-sampler-bytes.ts";
import type { TailCounters } from "./tail-sampler-stats.ts";
import { ExportView } from "./tail-sampler-view.ts";

export interface ReleaseOptions {
  readonly exporter: SpanExporter;
  readonly gate: Gate;
  readonly counters: TailCounters;
  /** Kept spans that may wait in front of the batch processor. */
  readonly maxQueuedSpans: number;
  readonly maxQueuedBytes: number;
  readonly exportTimeoutMs: number;
  readonly scheduledDelayMs: number;
}

/** One burst past the batch processor's queue is lost without a word (2,560 of 5,000 arrived), so a chunk is one batch. */
const CHUNK = 512;
/** Its forceFlush sends all batches at once and OTLP allows 30 of them: 30 x 512. */
export const BATCH_QUEUE_MAX = 15_360;

export class ReleaseQueue {
  readonly #options: ReleaseOptions;
  readonly #batch: BatchSpanProcessor;
  // Side by side and not as objects, and emptied in place: a dead object of V8's old generation would still hold its span.
  #waiting: (ReadableSpan | undefined)[] = [];
  #reasons: (SamplingReason | undefined)[] = [];
  #bytes: number[] = [];
  #head = 0;
  #waitingBytes = 0;
  /** Spans the batch processor holds: handed over and not yet passed to the exporter. */
  #inBatch = 0;
  #pumping = false;

  constructor(options: ReleaseOptions) {
    this.#options = options;
    this.#batch = new BatchSpanProcessor(this.#countingExporter(), {
      maxQueueSize: BATCH_QUEUE_MAX,
      maxExportBatchSize: CHUNK,
      scheduledDelayMillis: options.scheduledDelayMs,
      // Ours fires first and is counted.
      exportTimeoutMillis: options.exportTimeoutMs + 1_000,
    });
  }

  get queued(): number {
    return this.#waiting.length - this.#head + this.#inBatch;
  }

  get valuesRedacted(): number {
    return this.#options.gate.masked();
  }

  get queuedBytes(): number {
    return this.#waitingBytes;
  }

  /**
   * Takes a kept span, or counts it as dropped when the queue is full. Never throws and exports nothing on the caller's stack.
   * `bytes`: what it was taken for while it was held, so that nothing is counted twice.
   */
  release(span: ReadableSpan, reason: SamplingReason | undefined, bytes = bytesOf(span)): void {
    const { counters, maxQueuedSpans, maxQueuedBytes } = this.#options;
    if (this.#waiting.length - this.#head >= maxQueuedSpans) {
      counters.spansDropped.queue_full += 1;
      return;
    }
    if (this.#waitingBytes + bytes > maxQueuedBytes) {
      counters.spansDropped.queue_bytes += 1;
      return;
    }
    counters.spansReleased += 1;
    this.#waitingBytes += bytes;
    this.#waiting.push(span);
    this.#reasons.push(reason);
    this.#bytes.push(bytes);
    this.#schedule();
  }

  /** Sends what was released until now. A failing exporter is counted, not thrown. */
  async flush(): Promise<void> {
    this.#handOver(CHUNK);
    while (this.#head < this.#waiting.length) {
      if (this.#inBatch >= BATCH_QUEUE_MAX - CHUNK) await this.#flushBatch();
      // Others get their turn between two chunks. Not behind the last: V8 would collect garbage while all of it is still held.
      await new Promise((resolve) => setImmediate(resolve));
      this.#handOver(CHUNK);
    }
    await this.#flushBatch();
  }

  async shutdown(): Promise<void> {
    await this.flush();
    await this.#batch
      .shutdown()
      .catch((error: unknown) => diag.warn("tracing: the exporter failed at shutdown", error));
  }

  /** Straight to the exporter: gated, no verdict, no queue. Rejects when they did not arrive. */
  async exportNow(spans: readonly ReadableSpan[]): Promise<void> {
    const views = spans.map((span) => new ExportView(span, this.#options.gate, undefined));
    for (let at = 0; at < views.length; at += CHUNK) await this.#send(views.slice(at, at + CHUNK));
  }

  #schedule(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    // Under the root context: an immediate armed in a run would carry that run's context, and keep it alive.
    context.with(ROOT_CONTEXT, () => setImmediate(() => this.#pump()));
  }

  #pump(): void {
    this.#pumping = false;
    this.#handOver(CHUNK);
    // A full batch processor calls again when its exporter takes the next batch.
    if (this.#head < this.#waiting.length && this.#inBatch < BATCH_QUEUE_MAX) this.#schedule();
  }

  #handOver(atMost: number): void {
    const { gate, counters } = this.#options;
    const until = Math.min(this.#head + Math.min(atMost, BATCH_QUEUE_MAX - this.#inBatch), this.#waiting.length);
    for (; this.#head < until; this.#head++) {
      const span = this.#waiting[this.#head];
      if (span === undefined) continue;
      this.#waiting[this.#head] = undefined;
      this.#waitingBytes -= this.#bytes[this.#head] ?? 0;
      try {
        const view = new ExportView(span, gate, this.#reasons[this.#head]);
        this.#inBatch += 1;
        this.#batch.onEnd(view);
      } catch (error) {
        counters.spansDropped.unreadable += 1;
        diag.warn("tracing: a span could not be prepared for export", error);
      }
    }
    // Compacted in steps, so that a long queue costs linear time.
    if (this.#head >= this.#waiting.length || this.#head >= 4 * CHUNK) {
      this.#waiting = this.#waiting.slice(this.#head);
      this.#reasons = this.#reasons.slice(this.#head);
      this.#bytes = this.#bytes.slice(this.#head);
      this.#head = 0;
    }
  }

  async #flushBatch(): Promise<void> {
    await this.#batch
      .forceFlush()
      .catch((error: unknown) => diag.warn("tracing: a flush did not reach the collector", error));
  }

  /** Counts what happens to each batch and turns a throwing exporter into a failed one. */
  #countingExporter(): SpanExporter {
    const { exporter, counters, exportTimeoutMs } = this.#options;
    return {
      export: (spans, done) => {
        this.#inBatch -= spans.length;
        if (this.#head < this.#waiting.length) this.#schedule();
        // Once: an answer after the time-out, or a second one, changes nothing.
        let settled = false;
        const settle = (result: ExportResult): void => {
          if (settled) return;
          settled = true;
          clearTimeout(timer);
          if (result.code === ExportResultCode.SUCCESS) counters.spansExported += spans.length;
          else counters.spansDropped.export_failed += spans.length;
          done(result);
        };
        const late = (): void =>
          settle({ code: ExportResultCode.FAILED, error: new Error("the exporter gave no answer in time") });
        const timer = setTimeout(late, exportTimeoutMs).unref();
        try {
          exporter.export(spans, settle);
        } catch (error) {
          settle({ code: ExportResultCode.FAILED, error: error instanceof Error ? error : new Error(String(error)) });
        }
      },
      shutdown: () => exporter.shutdown(),
      forceFlush: async () => exporter.forceFlush?.(),
    };
  }

  #send(spans: ReadableSpan[]): Promise<void> {
    const { exporter, counters, exportTimeoutMs } = this.#options;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new ExportFailedError("TRACING_EXPORT_TIMED_OUT", spans.length, undefined)),
        exportTimeoutMs,
      );
      const fail = (error: unknown): void => {
        clearTimeout(timer);
        counters.spansDropped.export_failed += spans.length;
        reject(new ExportFailedError("TRACING_EXPORT_FAILED", spans.length, error));
      };
      // The export's own HTTP request is not part of any trace.
      context.with(suppressTracing(ROOT_CONTEXT), () => {
        try {
          exporter.export(spans, (result) => {
            if (result.code !== ExportResultCode.SUCCESS) return fail(result.error);
            clearTimeout(timer);
            counters.spansExported += spans.length;
            resolve();
          });
        } catch (error) {
          fail(error);
        }
      });
    });
  }
}
