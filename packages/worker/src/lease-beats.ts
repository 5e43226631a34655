// Rounds of beats: leases whose beats are due within a small window beat together, so that ten of them are one call to SQS.
import type { Clock } from "./lease.ts";

interface Due {
  readonly at: number;
  readonly beat: () => void;
}

/** A beat may be sent earlier than it is due by this share of the visibility, never later: 2 s of 60. */
const WINDOW_SHARE = 1 / 30;

/**
 * Decides only when: each lease sends its own beat and gets its own answer, and the settler puts what is sent at the same
 * moment into one ChangeMessageVisibilityBatch. Bounded by the worker's deliveries, each of which has at most one beat here.
 */
export class BeatRounds {
  readonly #clock: Clock;
  readonly #windowMs: number;
  readonly #due = new Set<Due>();
  #cancelTimer: () => void = () => {};
  #wakesAt = Number.POSITIVE_INFINITY;

  constructor(clock: Clock, visibilityMs: number) {
    this.#clock = clock;
    this.#windowMs = visibilityMs * WINDOW_SHARE;
  }

  /** Calls `beat` once, `ms` from now or with a round shortly before. The returned function takes it out again. */
  after(ms: number, beat: () => void): () => void {
    const due = { at: this.#clock.now() + ms, beat };
    this.#due.add(due);
    if (due.at < this.#wakesAt) this.#wakeAt(due.at);
    return () => {
      this.#due.delete(due);
      // A timer for nobody is not waited for; one for others stays.
      if (this.#due.size === 0) this.#sleep();
    };
  }

  #wakeAt(at: number): void {
    this.#cancelTimer();
    this.#wakesAt = at;
    this.#cancelTimer = this.#clock.after(Math.max(0, at - this.#clock.now()), () => this.#round());
  }

  #sleep(): void {
    this.#cancelTimer();
    this.#wakesAt = Number.POSITIVE_INFINITY;
  }

  #round(): void {
    this.#sleep();
    const until = this.#clock.now() + this.#windowMs;
    const round = [...this.#due].filter((due) => due.at <= until);
    for (const due of round) this.#due.delete(due);
    // Armed before the beats: one of them may be put back, and must find the timer of the others.
    const next = Math.min(...[...this.#due].map((due) => due.at));
    if (Number.isFinite(next)) this.#wakeAt(next);
    for (const due of round) due.beat();
  }
}
