// Signals of one delivery: one that fires with the first of several and lets go of them, and one that costs nothing until it fires.

/** As much of an AbortSignal as we look at. Nodes, tools and platform functions are given real ones only (`firstOf`). */
export interface StopSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

/**
 * Controller and signal in one, without an EventTarget: a delivery has five, and nearly none of them ever fires
 * (signals.test.ts: it fires once, beside real signals).
 */
export class Stop implements StopSignal {
  readonly #listeners = new Set<() => void>();
  #fired: { readonly reason: unknown } | undefined;

  get aborted(): boolean {
    return this.#fired !== undefined;
  }

  get reason(): unknown {
    return this.#fired?.reason;
  }

  /** Only the first call does anything. */
  abort(reason?: unknown): void {
    if (this.#fired !== undefined) return;
    this.#fired = { reason };
    for (const listener of this.#listeners) listener();
    this.#listeners.clear();
  }

  addEventListener(_type: "abort", listener: () => void): void {
    if (this.#fired === undefined) this.#listeners.add(listener);
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }
}

export interface FirstOf {
  /** Aborted with the reason of whichever fired first. */
  readonly signal: AbortSignal;
  /** Call it when the work is over: nothing of it stays behind at signals that live as long as the worker. */
  release(): void;
}

/**
 * What `AbortSignal.any` does, with an end. On Node 20 each call of that leaves a weak reference at every source for as long as
 * the source lives, even when the result is gone: five a delivery at a drain's signals were 6 KB a run for ever (signals.test.ts
 * and `npm run drill -- soak`).
 */
export function firstOf(sources: readonly StopSignal[]): FirstOf {
  const first = new AbortController();
  const release = onFirst(sources, (reason) => first.abort(reason));
  return { signal: first.signal, release };
}

/** Calls `run` once, with the reason of the first that fires or has fired. @returns lets go of all of them */
export function onFirst(sources: readonly StopSignal[], run: (reason: unknown) => void): () => void {
  const release = (): void => {
    for (const source of sources) source.removeEventListener("abort", fire);
  };
  const fire = (): void => {
    release();
    run(sources.find((source) => source.aborted)?.reason);
  };
  if (sources.some((source) => source.aborted)) fire();
  else for (const source of sources) source.addEventListener("abort", fire);
  return release;
}
