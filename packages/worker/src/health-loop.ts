// How late the event loop comes round: a timer of our own, and the worst it was late by in the last seconds.
import type { Clock } from "./lease.ts";

const BEAT_MS = 500;
/** The worst is forgotten after one to two of these, so that one long block fails one probe and not a row of them. */
const HALF_WINDOW_MS = 5_000;

export class LoopLag {
  readonly #clock: Clock;
  #cancel: () => void = () => {};
  #expectedAt: number;
  #halfSince: number;
  #worst = 0;
  #worstBefore = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#halfSince = clock.now();
    this.#expectedAt = clock.now() + BEAT_MS;
    this.#arm();
  }

  /** Worst delay of the last 5 to 10 s, the one going on included. */
  worstMs(): number {
    // A probe that is served right after a block comes before the timer that would have noted it.
    return Math.max(this.#worst, this.#worstBefore, this.#clock.now() - this.#expectedAt);
  }

  stop(): void {
    this.#cancel();
  }

  #arm(): void {
    this.#expectedAt = this.#clock.now() + BEAT_MS;
    this.#cancel = this.#clock.after(BEAT_MS, () => this.#beat());
  }

  #beat(): void {
    const now = this.#clock.now();
    const late = now - this.#expectedAt;
    if (now - this.#halfSince >= HALF_WINDOW_MS) {
      this.#worstBefore = this.#worst;
      this.#worst = 0;
      this.#halfSince = now;
    }
    this.#worst = Math.max(this.#worst, late);
    this.#arm();
  }
}
