// Proves how the event loop's lag is measured: on a clock of its own, with a loop that is blocked.
import { expect, test } from "vitest";
import { LoopLag } from "../src/health-loop.ts";
import { FakeClock } from "./fake-clock.ts";

test("a loop that comes round in time has no lag", async () => {
  const clock = new FakeClock();
  const lag = new LoopLag(clock);
  await clock.advance(30_000);
  expect(lag.worstMs()).toBe(0);
});

test("a blocked loop is seen by the first probe after it, and forgotten within 11 s", async () => {
  const clock = new FakeClock();
  const lag = new LoopLag(clock);
  await clock.advance(1_000);
  clock.block(7_000);
  expect(lag.worstMs()).toBe(6_500);
  await clock.advance(1_000);
  expect(lag.worstMs()).toBe(6_500);
  await clock.advance(4_000);
  expect(lag.worstMs()).toBe(6_500);
  await clock.advance(7_000);
  expect(lag.worstMs()).toBe(0);
});

test("it leaves no timer behind", () => {
  const clock = new FakeClock();
  const lag = new LoopLag(clock);
  lag.stop();
  expect(clock.pending).toBe(0);
});
