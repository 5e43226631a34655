// Counts operations that have begun and not ended, and lets a caller wait until there are none.

const NOTHING = Promise.resolve();

/** A counter and one shared promise: no set of promises, so its size does not grow with the work and nothing has to be dropped. */
export class InFlight {
  #count = 0;
  #idle: Promise<void> = NOTHING;
  #release: () => void = () => {};

  get count(): number {
    return this.#count;
  }

  /** Runs an operation and counts it until it has ended, however it ends. */
  async track<T>(run: () => Promise<T>): Promise<T> {
    if (this.#count === 0) {
      this.#idle = new Promise((resolve) => {
        this.#release = resolve;
      });
    }
    this.#count += 1;
    try {
      return await run();
    } finally {
      this.#count -= 1;
      if (this.#count === 0) this.#release();
    }
  }

  /** Resolves when nothing is in flight, including what began while we waited. */
  idle(): Promise<void> {
    return this.#count === 0 ? NOTHING : this.#drained();
  }

  async #drained(): Promise<void> {
    while (this.#count > 0) await this.#idle;
  }
}
