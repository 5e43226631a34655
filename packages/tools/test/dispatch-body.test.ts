// One body under its timeout and the run's signal: how it may end.

import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { type BodyStop, type Clock, runBody, systemClock } from "../src/dispatch-body.ts";

/** Time stands still until it is moved. */
function stoppedClock() {
  let nowMs = 0;
  const sleepers = new Set<{ readonly atMs: number; readonly wake: () => void }>();
  const clock: Clock = {
    now: () => nowMs,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        const sleeper = { atMs: nowMs + ms, wake: resolve };
        sleepers.add(sleeper);
        signal?.addEventListener("abort", () => {
          sleepers.delete(sleeper);
          reject(signal.reason);
        });
      }),
  };
  const rest = async (): Promise<void> => {
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
  };
  const move = async (ms: number): Promise<void> => {
    await rest();
    nowMs += ms;
    for (const sleeper of [...sleepers]) if (sleeper.atMs <= nowMs) sleeper.wake();
    await rest();
  };
  return { clock, move, sleepers };
}

const never = (): Promise<never> => new Promise(() => undefined);

describe("runBody", () => {
  it("ends with the body's value and leaves no timer behind", async () => {
    const { clock, sleepers } = stoppedClock();
    expect(await runBody({ run: async () => 1, timeoutMs: 10, graceMs: 5, runSignals: [], clock })).toEqual({
      kind: "returned",
      value: 1,
    });
    await Promise.resolve();
    expect(sleepers.size).toBe(0);
  });

  it("fires the signal at the timeout and says so", async () => {
    const { clock, move } = stoppedClock();
    const run = ({ signal }: BodyStop) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const ending = runBody({ run, timeoutMs: 10, graceMs: 5, runSignals: [], clock });
    await move(9);
    await move(1);
    expect(await ending).toMatchObject({ kind: "threw", stoppedBy: "timeout" });
  });

  it("abandons a body that ignores its signal, after the grace and not before, and still brings its end", async () => {
    const { clock, move } = stoppedClock();
    let finish: (value: string) => void = () => undefined;
    const body = new Promise<string>((resolve) => {
      finish = resolve;
    });
    let ended: unknown;
    const ending = runBody({ run: () => body, timeoutMs: 10, graceMs: 5, runSignals: [], clock }).then((end) => {
      ended = end;
      return end;
    });
    await move(10);
    await move(4);
    expect(ended).toBeUndefined();
    await move(1);
    const end = await ending;
    expect(end).toMatchObject({ kind: "abandoned", stoppedBy: "timeout" });
    finish("late");
    expect(end.kind === "abandoned" && (await end.later)).toMatchObject({
      kind: "returned",
      value: "late",
      stoppedBy: "timeout",
    });
  });

  it("takes a body that throws before its first await, and one that is no promise, as they come", async () => {
    const { clock, sleepers } = stoppedClock();
    const error = new Error("at once");
    const run = (): never => {
      throw error;
    };
    const request = { timeoutMs: 10, graceMs: 5, runSignals: [], clock };
    expect(await runBody({ ...request, run })).toEqual({ kind: "threw", error });
    // As plain JavaScript may have it.
    expect(await runBody({ ...request, run: (() => 1) as never })).toEqual({ kind: "returned", value: 1 });
    await Promise.resolve();
    expect(sleepers.size).toBe(0);
  });

  it("shows a signal that has fired to a body that first looks afterwards", async () => {
    const { clock, move } = stoppedClock();
    let goOn: () => void = () => undefined;
    const run = async (stop: BodyStop) => {
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
      return [stop.signal.aborted, stop.signal.reason instanceof DOMException];
    };
    const ending = runBody({ run, timeoutMs: 10, graceMs: 5, runSignals: [], clock });
    await move(10);
    goOn();
    expect(await ending).toEqual({ kind: "returned", value: [true, true], stoppedBy: "timeout" });
  });

  it("stops with the run, whichever of its signals fires, also one that had fired before", async () => {
    const { clock, move } = stoppedClock();
    const stop = new AbortController();
    const ending = runBody({
      run: never,
      timeoutMs: 10_000,
      graceMs: 0,
      runSignals: [new AbortController().signal, stop.signal],
      clock,
    });
    stop.abort();
    await move(0);
    expect(await ending).toMatchObject({ kind: "abandoned", stoppedBy: "run" });
    const again = runBody({ run: never, timeoutMs: 10_000, graceMs: 0, runSignals: [stop.signal], clock });
    await move(0);
    expect(await again).toMatchObject({ kind: "abandoned", stoppedBy: "run" });
  });
});

describe("the system's clock", () => {
  it("sleeps no longer than asked, and lets go of the signal", async () => {
    const { signal } = new AbortController();
    await systemClock.sleep(1, signal);
    expect(getEventListeners(signal, "abort")).toEqual([]);
    await expect(systemClock.sleep(0)).resolves.toBeUndefined();
  });

  it("rejects with the signal's own reason, before and while it sleeps", async () => {
    const stop = new AbortController();
    const sleeping = systemClock.sleep(60_000, stop.signal);
    const reason = new Error("enough");
    stop.abort(reason);
    await expect(sleeping).rejects.toBe(reason);
    await expect(systemClock.sleep(60_000, stop.signal)).rejects.toBe(reason);
  });

  it("keeps no process alive", async () => {
    const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const before = timers();
    const stop = new AbortController();
    const sleeping = systemClock.sleep(60_000, stop.signal).catch(() => undefined);
    expect(timers()).toBe(before);
    stop.abort();
    await sleeping;
  });
});
