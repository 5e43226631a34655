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

export interface BodyRequest {
  readonly run: (signal: AbortSignal) => Promise<unknown>;
  readonly timeoutMs: number;
  /** How long a body may go on after its signal fired, before its outcome is called unknown. */
  readonly graceMs: number;
  readonly runSignals: readonly AbortSignal[];
  readonly clock: Clock;
}

export async function runBody(request: BodyRequest): Promise<BodyResult> {
  const { clock, graceMs, runSignals } = request;
  const stop = new AbortController();
  let stoppedBy: StoppedBy | undefined;
  let loseHope: (value: undefined) => void = () => undefined;
  const hopeless = new Promise<undefined>((resolve) => {
    loseHope = resolve;
  });
  const timers: (() => void)[] = [];
  const stopFor = (reason: StoppedBy): void => {
    if (stoppedBy !== undefined) return;
    stoppedBy = reason;
    timers.push(after(clock, graceMs, () => loseHope(undefined)));
    stop.abort(
      new DOMException(reason === "timeout" ? "The tool's time is over" : "The run was stopped", "AbortError"),
    );
  };
  const stopForRun = (): void => stopFor("run");
  for (const signal of runSignals) signal.addEventListener("abort", stopForRun, { once: true });
  if (runSignals.some((signal) => signal.aborted)) stopForRun();
  timers.push(after(clock, request.timeoutMs, () => stopFor("timeout")));
  const by = (): { stoppedBy?: StoppedBy } => (stoppedBy === undefined ? {} : { stoppedBy });
  const letGo = (): void => {
    for (const cancel of timers) cancel();
    for (const signal of runSignals) signal.removeEventListener("abort", stopForRun);
  };
  const body = endOf(request.run, stop.signal, letGo).then((end): BodyEnd => ({ ...end, ...by() }));
  const ended = await Promise.race([body, hopeless]);
  return ended ?? { kind: "abandoned", stoppedBy: stoppedBy ?? "timeout", later: body };
}

// Async, so that a body that throws before its first await ends like any other.
async function endOf(run: BodyRequest["run"], signal: AbortSignal, letGo: () => void): Promise<BodyEnd> {
  try {
    return { kind: "returned", value: await run(signal) };
  } catch (error) {
    return { kind: "threw", error };
  } finally {
    letGo();
  }
}

function after(clock: Clock, ms: number, act: () => void): () => void {
  if (clock.after !== undefined) return clock.after(ms, act);
  const cancelled = new AbortController();
  void clock.sleep(ms, cancelled.signal).then(act, () => undefined);
  return () => cancelled.abort();
}
