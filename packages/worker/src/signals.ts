// One signal that fires with the first of several, and lets go of them when its work is over.

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
export function firstOf(sources: readonly AbortSignal[]): FirstOf {
  const first = new AbortController();
  const fire = (event: { readonly target: unknown }): void => {
    // Only sources are listened to.
    first.abort((event.target as AbortSignal).reason);
    release();
  };
  const release = (): void => {
    for (const source of sources) source.removeEventListener("abort", fire);
  };
  const fired = sources.find((source) => source.aborted);
  if (fired !== undefined) first.abort(fired.reason);
  else for (const source of sources) source.addEventListener("abort", fire, { once: true });
  return { signal: first.signal, release };
}
