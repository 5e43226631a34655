// Proves the rounds of beats: together when due together, never late, out again when told, and no timer for nobody.
import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Clock } from "../src/lease.ts";
import { BeatRounds } from "../src/lease-beats.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const clock: Clock = {
  now: () => Date.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

/** Visibility 60 s: the window is 2 s. */
function rounds(): BeatRounds {
  return new BeatRounds(clock, 60_000);
}

test("beats due within two seconds of sixty are sent together, at the first one's time", () => {
  const beats = rounds();
  const start = Date.now();
  const sent: number[] = [];
  for (const ms of [18_000, 19_999, 20_001]) beats.after(ms, () => sent.push(Date.now() - start));
  vi.advanceTimersByTime(30_000);
  expect(sent).toEqual([18_000, 18_000, 20_001]);
});

test("a beat that comes in earlier than the others is not kept waiting for them", () => {
  const beats = rounds();
  const start = Date.now();
  const sent: number[] = [];
  beats.after(20_000, () => sent.push(Date.now() - start));
  beats.after(5_000, () => sent.push(Date.now() - start));
  vi.advanceTimersByTime(20_000);
  expect(sent).toEqual([5_000, 20_000]);
});

test("a beat that was taken out is not sent, and the last one out leaves no timer", () => {
  const beats = rounds();
  const sent: string[] = [];
  const first = beats.after(10_000, () => sent.push("first"));
  const second = beats.after(10_000, () => sent.push("second"));
  first();
  vi.advanceTimersByTime(10_000);
  expect(sent).toEqual(["second"]);
  second();
  beats.after(10_000, () => sent.push("third"))();
  expect(vi.getTimerCount()).toBe(0);
});

test("a beat that puts itself back in its round is sent again later, not at once", () => {
  const beats = rounds();
  const start = Date.now();
  const sent: number[] = [];
  const beat = (): void => {
    sent.push(Date.now() - start);
    beats.after(1_000, beat);
  };
  beats.after(1_000, beat);
  vi.advanceTimersByTime(3_500);
  expect(sent).toEqual([1_000, 2_000, 3_000]);
});

test("whatever is due when, each beat is sent once, never late and at most a window early", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 60_000 }), { maxLength: 60 }), (delays) => {
      const beats = rounds();
      const start = Date.now();
      const sent = new Map<number, number[]>();
      delays.forEach((ms, index) => {
        beats.after(ms, () => sent.set(index, [...(sent.get(index) ?? []), Date.now() - start]));
      });
      vi.advanceTimersByTime(60_000);
      delays.forEach((ms, index) => {
        const times = sent.get(index) ?? [];
        expect(times).toHaveLength(1);
        expect(times[0]).toBeLessThanOrEqual(ms);
        expect(times[0]).toBeGreaterThanOrEqual(ms - 2_000);
      });
    }),
  );
});
