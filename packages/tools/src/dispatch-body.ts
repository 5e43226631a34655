// Runs a tool's body once: under its timeout and the run's signal, and waits, bounded, for one that goes on after either fired.
/** Time, injected. */
export interface Clock {
  now(): number;
  /** Rejects when the signal fires first. Must not keep the process alive. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  // By hand: the promise of node:timers builds an AbortError, with its stack, for every sleep that is cut short, and each call has one.
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const stop = (): void => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", stop);
        resolve();
      }, ms);
      timer.unref();
      signal?.addEventListener("abort", stop, { once: true });
    }),
};

/** Why the timers of a body that ended are let go. One for all: nobody reads it, and an abort without a reason builds its own. */
const BODY_ENDED = new Error("The tool's body has ended");

export type StoppedBy = "timeout" | "run";

/** How a body ended by itself; `stoppedBy` when its signal had fired before. */
export type BodyEnd =
  | { readonly kind: "returned"; readonly value: unknown; readonly stoppedBy?: StoppedBy }
  | { readonly kind: "threw"; readonly error: unknown; readonly stoppedBy?: StoppedBy };

export type BodyResult =
  | BodyEnd
  /** Still going when the patience was over; `later` is its end, whenever that comes. */
  | { readonly kind: "abandoned"; readonly stoppedBy: StoppedBy; readonly later: Promise<BodyEnd> };

export interface BodyRequest {
  readonly run: (signal: AbortSignal) => Promise<unknown>;
  readonly timeoutMs: number;
  /** How long a body may go on after its signal fired, before its outcome is called unknown. */
  readonly graceMs: number;
  readonly runSignals: readonly AbortSignal[];
  readonly clock: Clock;
}

export async function runBody(request: BodyRequest): Promise<BodyResult> {
  const { clock, graceMs } = request;
  const done = new AbortController();
  const stop = new AbortController();
  let stoppedBy: StoppedBy | undefined;
  const stopFor = (reason: StoppedBy): void => {
    stoppedBy ??= reason;
    stop.abort(
      new DOMException(reason === "timeout" ? "The tool's time is over" : "The run was stopped", "AbortError"),
    );
  };
  for (const signal of request.runSignals) {
    if (signal.aborted) stopFor("run");
    else signal.addEventListener("abort", () => stopFor("run"), { once: true, signal: done.signal });
  }
  void clock.sleep(request.timeoutMs, done.signal).then(
    () => stopFor("timeout"),
    () => undefined,
  );
  const by = (): { stoppedBy?: StoppedBy } => (stoppedBy === undefined ? {} : { stoppedBy });
  const body: Promise<BodyEnd> = start(request.run, stop.signal)
    .then(
      (value): BodyEnd => ({ kind: "returned", value, ...by() }),
      (error: unknown): BodyEnd => ({ kind: "threw", error, ...by() }),
    )
    .finally(() => done.abort(BODY_ENDED));
  const patience = whenAborted(stop.signal).then(() => clock.sleep(graceMs, done.signal));
  const ended = await Promise.race([body, patience.then(() => undefined).catch(() => body)]);
  return ended ?? { kind: "abandoned", stoppedBy: stoppedBy ?? "timeout", later: body };
}

// A body that throws before its first await must end like any other.
async function start(run: BodyRequest["run"], signal: AbortSignal): Promise<unknown> {
  return run(signal);
}

function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
