// The node bodies of one drive: LangGraph gives up on an aborted body at once, and the body may go on. Here it is waited for.

/** Bounded by the graph's own concurrency: a body leaves when it has ended. */
export class NodeBodies {
  readonly #running = new Set<Promise<unknown>>();

  readonly add = (body: Promise<unknown>): void => {
    const settled = body.then(
      () => {},
      () => {},
    );
    this.#running.add(settled);
    void settled.then(() => this.#running.delete(settled));
  };

  get running(): number {
    return this.#running.size;
  }

  /** Resolves when no body runs, or when `signal` fires. @returns how many still run */
  async ended(signal: AbortSignal): Promise<number> {
    const given = new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener("abort", () => resolve(), { once: true });
    });
    while (this.#running.size > 0 && !signal.aborted) await Promise.race([Promise.all(this.#running), given]);
    return this.#running.size;
  }
}
