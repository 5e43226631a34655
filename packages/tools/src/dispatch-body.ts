// Runs a tool's body once: under its timeout and the run's signal, and waits, bounded, for one that goes on after either fired.
/** Time, injected. */
export interface Clock {
  now(): number;
  /** Rejects when the signal fires first. Must not keep the process alive. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls back once; what it returns takes that back. Must not keep the process alive. A clock without it is asked to sleep. */
  after?(ms: number, act: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  // By hand: the promise of node:timers builds an AbortError, with its stack, for every sleep that is cut short.
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
  // Every call has a timer that hardly ever fires: without a promise, a controller and its listeners it costs a tenth.
  after: (ms, act) => {
    const timer = setTimeout(act, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

export type StoppedBy = "timeout" | "run";

/** How a body ended by itself; `stoppedBy` when its signal had fired before. */
export type BodyEnd =
  | { readonly kind: "returned"; readonly value: unknown; readonly stoppedBy?: StoppedBy }
  | { readonly kind: "threw"; readonly error: unknown; readonly stoppedBy?: StoppedBy };

export type BodyResult =
  | BodyEnd
  /** Still going when the patience was over; `later` is its end, whenever that comes. */
  | { readonly kind: "abandoned"; readonly stoppedBy: StoppedBy; readonly later: Promise<BodyEnd> };

/** The signal is made when it is first asked for: it costs as much as ten promises, and many a body never looks at it. */
export interface BodyStop {
  readonly signal: AbortSignal;
}

export interface BodyRequest {
  readonly run: (stop: BodyStop) => Promise<unknown>;
  readonly timeoutMs: number;
  /** How long a body may go on after its signal fired, before its outcome is called unknown. */
  readonly graceMs: number;
  readonly runSignals: readonly AbortSignal[];
  readonly clock: Clock;
}

/** Never rejects. One promise for all of it: in Node each costs its hooks, and each call of a tool passes here. */
export function runBody(request: BodyRequest): Promise<BodyResult> {
  return new Promise((resolve) => {
    new RunningBody(request, resolve).start();
  });
}

class RunningBody {
  readonly #request: BodyRequest;
  readonly #resolve: (result: BodyResult) => void;
  // Its signal exists from the first look at it on.
  readonly #stop = new AbortController();
  readonly #timers: (() => void)[] = [];
  #stoppedBy: StoppedBy | undefined;
  /** Given once nobody waits any more for the body. */
  #late: ((end: BodyEnd) => void) | undefined;

  constructor(request: BodyRequest, resolve: (result: BodyResult) => void) {
    this.#request = request;
    this.#resolve = resolve;
  }

  start(): void {
    const { run, runSignals, clock, timeoutMs } = this.#request;
    for (const signal of runSignals) signal.addEventListener("abort", this.#stopForRun, { once: true });
    if (runSignals.some((signal) => signal.aborted)) this.#stopForRun();
    this.#timers.push(after(clock, timeoutMs, () => this.#stopFor("timeout")));
    bodyOf(run, this.#stop).then(
      (value) => this.#end({ kind: "returned", value }),
      (error: unknown) => this.#end({ kind: "threw", error }),
    );
  }

  readonly #stopForRun = (): void => this.#stopFor("run");

  #stopFor(reason: StoppedBy): void {
    if (this.#stoppedBy !== undefined) return;
    this.#stoppedBy = reason;
    const { clock, graceMs } = this.#request;
    this.#timers.push(after(clock, graceMs, () => this.#abandon(reason)));
    this.#stop.abort(
      new DOMException(reason === "timeout" ? "The tool's time is over" : "The run was stopped", "AbortError"),
    );
  }

  #abandon(stoppedBy: StoppedBy): void {
    const later = new Promise<BodyEnd>((resolve) => {
      this.#late = resolve;
    });
    this.#resolve({ kind: "abandoned", stoppedBy, later });
  }

  #end(end: BodyEnd): void {
    for (const cancel of this.#timers) cancel();
    for (const signal of this.#request.runSignals) signal.removeEventListener("abort", this.#stopForRun);
    const told = this.#stoppedBy === undefined ? end : { ...end, stoppedBy: this.#stoppedBy };
    if (this.#late === undefined) this.#resolve(told);
    else this.#late(told);
  }
}

// A body that throws before its first await ends like any other.
function bodyOf(run: BodyRequest["run"], stop: BodyStop): Promise<unknown> {
  try {
    return Promise.resolve(run(stop));
  } catch (error) {
    return Promise.reject(error);
  }
}

function after(clock: Clock, ms: number, act: () => void): () => void {
  if (clock.after !== undefined) return clock.after(ms, act);
  const cancelled = new AbortController();
  void clock.sleep(ms, cancelled.signal).then(act, () => undefined);
  return () => cancelled.abort();
}
