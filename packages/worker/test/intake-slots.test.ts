// Proves the slots: never more taken than there are, a waiting poll woken by a free one, and a stop that ends the wait.
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { Slots } from "../src/intake-slots.ts";

const never = new AbortController().signal;
/** Time stands still, so that every receive follows right after the one before. */
const still = (): number => 0;

test("a receive takes what is free, up to what it wants", async () => {
  const slots = new Slots(12, still);
  expect(await slots.take(10, never)).toBe(10);
  expect(await slots.take(10, never)).toBe(2);
  expect(slots.used).toBe(12);
});

test("a receive waits while nothing is free, and goes on with the first slot given back", async () => {
  const slots = new Slots(2, still);
  await slots.take(2, never);
  let taken: number | undefined;
  const waiting = slots.take(10, never).then((count) => {
    taken = count;
  });
  await Promise.resolve();
  expect(taken).toBeUndefined();
  slots.give(1);
  await waiting;
  expect(taken).toBe(1);
  expect(slots.used).toBe(2);
});

test("a receive waits a moment for as many as it wants, and not longer once they are free", async () => {
  const slots = new Slots(20, still);
  await slots.take(10, never);
  await slots.take(10, never);
  let taken: number | undefined;
  const waiting = slots.take(10, never).then((count) => {
    taken = count;
  });
  slots.give(4);
  for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
  expect(taken).toBeUndefined();
  slots.give(6);
  // In this very turn of the event loop: no timer is waited for.
  for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
  expect(taken).toBe(10);
  await waiting;
});

test("a receive right after the last one waits for more slots for 20 ms, a later one for 2", async () => {
  vi.useFakeTimers();
  try {
    const slots = new Slots(2, Date.now);
    for (const waitMs of [20, 2]) {
      slots.give(slots.used);
      await slots.take(2, never);
      await vi.advanceTimersByTimeAsync(20 - waitMs);
      let taken: number | undefined;
      const waiting = slots.take(2, never).then((count) => {
        taken = count;
      });
      slots.give(1);
      await vi.advanceTimersByTimeAsync(waitMs - 1);
      expect(taken).toBeUndefined();
      await vi.advanceTimersByTimeAsync(1);
      expect(taken).toBe(1);
      await waiting;
    }
  } finally {
    vi.useRealTimers();
  }
});

test("a stop ends the wait with nothing taken", async () => {
  const slots = new Slots(1, still);
  const stop = new AbortController();
  await slots.take(1, stop.signal);
  const waiting = slots.take(10, stop.signal);
  stop.abort();
  expect(await waiting).toBe(0);
  expect(slots.used).toBe(1);
});

test("nothing is taken after a stop, even when slots are free", async () => {
  const stop = new AbortController();
  stop.abort();
  const slots = new Slots(5, still);
  expect(await slots.take(10, stop.signal)).toBe(0);
  expect(slots.used).toBe(0);
});

test("slots given back while nobody waits are there for the next receive", async () => {
  const slots = new Slots(3, still);
  await slots.take(3, never);
  slots.give(2);
  expect(await slots.take(10, never)).toBe(2);
});

test("whatever is taken and given, the slots in use stay between none and all", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 20 }),
      fc.array(fc.integer({ min: 1, max: 10 })),
      async (max, wishes) => {
        const slots = new Slots(max, still);
        for (const wish of wishes) {
          if (slots.used === max) slots.give(Math.min(wish, max));
          const taken = await slots.take(wish, never);
          expect(taken).toBeGreaterThanOrEqual(1);
          expect(taken).toBeLessThanOrEqual(wish);
          expect(slots.used).toBeLessThanOrEqual(max);
        }
      },
    ),
  );
});
