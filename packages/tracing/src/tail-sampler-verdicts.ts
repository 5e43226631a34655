// What was decided about traces that are gone, for spans of them that end late. Bounded, at the same cost however full.

import type { SamplingReason } from "./names.ts";

const KEPT_MEMORY = 10_000;
const DROPPED_MEMORY = 50_000;

export class VerdictMemory {
  readonly #kept = new Map<string, SamplingReason>();
  // The map's own order is no use: it looks for its first key among the holes of thousands that went, 0.3 us a span.
  readonly #order: string[] = [];
  #oldest = 0;
  // Two generations: the older one is forgotten when the younger is full.
  #dropped = new Set<string>();
  #droppedBefore = new Set<string>();

  keep(traceId: string, reason: SamplingReason): void {
    if (!this.#kept.has(traceId)) {
      const oldest = this.#order[this.#oldest];
      if (oldest !== undefined) this.#kept.delete(oldest);
      this.#order[this.#oldest] = traceId;
      this.#oldest = (this.#oldest + 1) % KEPT_MEMORY;
    }
    this.#kept.set(traceId, reason);
  }

  drop(traceId: string): void {
    this.#dropped.add(traceId);
    if (this.#dropped.size >= DROPPED_MEMORY) {
      this.#droppedBefore = this.#dropped;
      this.#dropped = new Set();
    }
  }

  /** A kept local root of a trace speaks for all. */
  of(traceId: string): SamplingReason | "dropped" | undefined {
    const reason = this.#kept.get(traceId);
    if (reason !== undefined) return reason;
    return this.#dropped.has(traceId) || this.#droppedBefore.has(traceId) ? "dropped" : undefined;
  }
}
