// A clock for the health tests: time passes when told to, timers run in their order, and a blocked loop lets none of them run.
import type { Clock } from "../src/lease.ts";

export class HealthClock implements Clock {
  time = 0;
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
      const due = this.#timers.filter(({ at }) => at <= end).sort((one, other) => one.at - other.at)[0];
      if (due === undefined) break;
      this.time = Math.max(this.time, due.at);
      this.#timers = this.#timers.filter((other) => other !== due);
      due.run();
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.time = Math.max(this.time, end);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
