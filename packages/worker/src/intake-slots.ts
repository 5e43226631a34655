// Slots: a receive is only sent for runs that can start at once, so nothing is buffered without a lease.
import { pause } from "./intake-pause.ts";

/**
 * A receive for one message costs as much as one for ten: with a slot free, others are waited for this long. Measured against
 * no wait at concurrency 50: `bench-worker-throughput.ts`. Never longer, or one slow run would hold the next receive back (Q05).
 */
const GATHER_MS = 20;

/** Free slots are counted down before a receive and up when a delivery ends. */
export class Slots {
  readonly #max: number;
  #used = 0;
  #waiter: (() => void) | undefined;

  constructor(max: number) {
    this.#max = max;
  }

  get used(): number {
    return this.#used;
  }

  /**
   * Waits until at least one slot is free, a little for more of them, and takes up to `wanted`. One caller at a time: the
   * poll loop.
   *
   * @returns how many were taken; zero when `signal` fired first
   */
  async take(wanted: number, signal: AbortSignal): Promise<number> {
    while (this.#used >= this.#max && !signal.aborted) await this.#freed(signal);
    if (this.#used > 0 && this.#max - this.#used < wanted) await pause(GATHER_MS, signal);
    if (signal.aborted) return 0;
    const taken = Math.min(wanted, this.#max - this.#used);
    this.#used += taken;
    return taken;
  }

  give(count: number): void {
    this.#used -= count;
    this.#waiter?.();
  }

  #freed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        signal.removeEventListener("abort", done);
        this.#waiter = undefined;
        resolve();
      };
      this.#waiter = done;
      signal.addEventListener("abort", done, { once: true });
    });
  }
}
