// The gate of a worker: deliveries pass it side by side, until one asks to work alone and the others have left.

export type Alone =
  | { readonly state: "alone"; readonly leave: () => void }
  /** Another delivery is alone or waits for it: two that wait for each other would wait for ever. */
  | { readonly state: "busy" }
  /** The signal fired first; the gate is open again. */
  | { readonly state: "waited"; readonly others: number };

/** Counts who is inside. Closed from the moment one asks to be alone, so that the wait ends with those already here. */
export class IntakeGate {
  #inside = 0;
  #closed = false;
  #turnedAway = 0;
  /** At most two wait: the poll loop for the gate to open, and the one that asked for the others to leave. */
  readonly #waiters = new Set<() => void>();

  /** Messages that a poll brought while the gate was closed, and that were given back unrun. */
  get turnedAway(): number {
    return this.#turnedAway;
  }

  /** @returns false while the gate is closed: the message is to be given back */
  enter(): boolean {
    if (this.#closed) {
      this.#turnedAway += 1;
      return false;
    }
    this.#inside += 1;
    return true;
  }

  leave(): void {
    this.#inside -= 1;
    this.#wake();
  }

  /** Asked from inside: closes the gate, and resolves when the asker is the only one left or `signal` fires. */
  async alone(signal: AbortSignal): Promise<Alone> {
    if (this.#closed) return { state: "busy" };
    this.#closed = true;
    while (this.#inside > 1 && !signal.aborted) await this.#change(signal);
    if (!signal.aborted) return { state: "alone", leave: () => this.#open() };
    const others = this.#inside - 1;
    this.#open();
    return { state: "waited", others };
  }

  /** Resolves while the gate is open, or when `signal` fires. */
  async opened(signal: AbortSignal): Promise<void> {
    while (this.#closed && !signal.aborted) await this.#change(signal);
  }

  #open(): void {
    this.#closed = false;
    this.#wake();
  }

  #wake(): void {
    for (const wake of [...this.#waiters]) wake();
  }

  #change(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        signal.removeEventListener("abort", done);
        this.#waiters.delete(done);
        resolve();
      };
      this.#waiters.add(done);
      signal.addEventListener("abort", done, { once: true });
    });
  }
}
