// One timer for the earliest deadline of all traces: thousands of them cost no more than one.

import { context, ROOT_CONTEXT } from "@opentelemetry/api";
import type { TailClock } from "./tail-sampler-options.ts";

export class DeadlineTimer {
  readonly #clock: TailClock;
  readonly #due: () => void;
  #cancel: (() => void) | undefined;
  #atMs = Number.POSITIVE_INFINITY;

  /** `due` runs disarmed, and arms again for what is left. */
  constructor(clock: TailClock, due: () => void) {
    this.#clock = clock;
    this.#due = due;
  }

  /** A later deadline than the armed one changes nothing. */
  arm(atMs: number): void {
    if (atMs >= this.#atMs) return;
    this.#cancel?.();
    this.#atMs = atMs;
    // A timer armed in a run would run in, and keep alive, that run's context.
    context.with(ROOT_CONTEXT, () => {
      this.#cancel = this.#clock.after(Math.max(atMs - this.#clock.now(), 0), () => {
        this.#atMs = Number.POSITIVE_INFINITY;
        this.#due();
      });
    });
  }

  cancel(): void {
    this.#cancel?.();
  }
}
