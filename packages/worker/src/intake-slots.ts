// Slots: a receive is only sent for runs that can start at once, so nothing is buffered without a lease.
/**
 * A receive for one message costs as much as one for ten, so that receives which follow each other closer than this wait for
 * more slots, and no longer than until this has passed: fifty calls a second at most. A worker with few or long runs waits
 * for two milliseconds, in which those come that end together. Measured against no wait at concurrency 50: `bench-worker-throughput.ts`. Never longer, or one slow run would hold the
 * next receive back (Q05).
 */
const GATHER_MS = 20;
const GATHER_MS_MIN = 2;

/** Free slots are counted down before a receive and up when a delivery ends. */
export class Slots {
  readonly #max: number;
  readonly #now: () => number;
  #used = 0;
  #takenAt = Number.NEGATIVE_INFINITY;
  #given: (() => void) | undefined;

  /** @param now milliseconds of a monotonic clock */
  constructor(max: number, now: () => number) {
    this.#max = max;
    this.#now = now;
  }

  get used(): number {
    return this.#used;
  }

  /**
   * Waits until at least one slot is free, a little for as many as `wanted`, and takes up to that.
   * One caller at a time: the poll loop.
   *
   * @returns how many were taken; zero when `signal` fired first
   */
  async take(wanted: number, signal: AbortSignal): Promise<number> {
    await this.#free(1, signal);
    const waitMs = Math.max(GATHER_MS_MIN, this.#takenAt + GATHER_MS - this.#now());
    await this.#free(Math.min(wanted, this.#max), signal, waitMs);
    if (signal.aborted) return 0;
    this.#takenAt = this.#now();
    const taken = Math.min(wanted, this.#max - this.#used);
    this.#used += taken;
    return taken;
  }

  give(count: number): void {
    this.#used -= count;
    this.#given?.();
  }

  /** Resolves when this many are free, when `signal` fires, or after `waitMs`. */
  #free(count: number, signal: AbortSignal, waitMs?: number): Promise<void> {
    return new Promise((resolve) => {
      const enough = (): boolean => this.#max - this.#used >= count;
      if (enough() || signal.aborted) return resolve();
      const done = (): void => {
        clearTimeout(timer);
        this.#given = undefined;
        signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = waitMs === undefined ? undefined : setTimeout(done, waitMs);
      this.#given = () => enough() && done();
      signal.addEventListener("abort", done, { once: true });
    });
  }
}
