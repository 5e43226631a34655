// The leases of this worker's deliveries while they are in work: how old the oldest is, and which outlived itself.

/** What is read of a lease. `lease.ts` has it. */
export interface WatchedLease {
  /** Monotonic time after which the message may be anybody's. */
  readonly deadline: number;
}

interface Held {
  readonly lease: WatchedLease;
  readonly sinceMs: number;
}

/** Bounded by the worker's slots: a delivery has one lease, and leaves when its run has let go. */
export class LeaseWatch {
  readonly #held = new Set<Held>();

  /** @returns to be called when the run has let go of everything */
  add(lease: WatchedLease, sinceMs: number): () => void {
    const held = { lease, sinceMs };
    this.#held.add(held);
    return () => {
      this.#held.delete(held);
    };
  }

  oldestAgeMs(nowMs: number): number {
    return worst(this.#held, (held) => nowMs - held.sinceMs);
  }

  /** How long ago the first of the dead leases ended; 0 when all are alive. */
  overdueMs(nowMs: number): number {
    return worst(this.#held, (held) => nowMs - held.lease.deadline);
  }
}

function worst(held: ReadonlySet<Held>, value: (one: Held) => number): number {
  let most = 0;
  for (const one of held) most = Math.max(most, value(one));
  return most;
}
