// A clock for tests: time passes when told to, timers run in their order, and a blocked loop lets none of them run.
import type { Clock } from "../src/lease.ts";

export class FakeClock implements Clock {
  time = 0;
  /** Node's timers cut fractions of a millisecond off, so they may fire before their time by the monotonic clock. */
  firesEarlyMs = 0;
  #timers: { readonly at: number; readonly run: () => void }[] = [];

  readonly now = (): number => this.time;

  readonly after = (ms: number, run: () => void): (() => void) => {
    const timer = { at: this.time + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  };

  get pending(): number {
    return this.#timers.length;
  }

  block(ms: number): void {
    this.time += ms;
  }

  async advance(ms: number): Promise<void> {
    const end = this.time + ms;
    for (;;) {
      const due = this.#timers
        .filter(({ at }) => at - this.firesEarlyMs <= end)
        .sort((one, other) => one.at - other.at)[0];
      if (due === undefined) break;
      this.time = Math.max(this.time, due.at - this.firesEarlyMs);
      this.#timers = this.#timers.filter((other) => other !== due);
      due.run();
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.time = Math.max(this.time, end);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
