// Proves the deadline of a delivery: it fires once, not after a cancel, and counts anew after a wait.
import { expect, test } from "vitest";
import { startDeadline } from "../src/delivery-deadline.ts";
import type { Clock } from "../src/lease.ts";

function handClock(): Clock & { pass(ms: number): void } {
  let now = 0;
  let timers: { readonly at: number; readonly run: () => void }[] = [];
  return {
    now: () => now,
    after: (ms, run) => {
      const timer = { at: now + ms, run };
      timers = [...timers, timer];
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    pass: (ms) => {
      now += ms;
      const due = timers.filter(({ at }) => at <= now);
      timers = timers.filter(({ at }) => at > now);
      for (const timer of due) timer.run();
    },
  };
}

test("aborts with RUN_DEADLINE when its time is over", () => {
  const clock = handClock();
  const deadline = startDeadline(clock, 10);
  clock.pass(9_999);
  expect(deadline.signal.aborted).toBe(false);
  clock.pass(1);
  expect(deadline.signal.reason).toMatchObject({ code: "RUN_DEADLINE" });
});

test("counts anew from a restart, and a cancel ends that count too", () => {
  const clock = handClock();
  const deadline = startDeadline(clock, 10);
  clock.pass(9_000);
  deadline.restart();
  clock.pass(9_000);
  expect(deadline.signal.aborted).toBe(false);
  deadline.cancel();
  clock.pass(60_000);
  expect(deadline.signal.aborted).toBe(false);
});
