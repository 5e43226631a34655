// Proves the gate: side by side until one asks to be alone, nobody in while it is, one asker at a time, and a wait that ends.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Alone, IntakeGate } from "../src/intake-gate.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
});
afterEach(() => {
  vi.useRealTimers();
});

const never = new AbortController().signal;

function full(count: number): IntakeGate {
  const gate = new IntakeGate();
  for (let entered = 0; entered < count; entered += 1) expect(gate.enter()).toBe(true);
  return gate;
}

/** Fires on the fake clock. */
function after(ms: number): AbortSignal {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), ms);
  return controller.signal;
}

function watch<T>(promise: Promise<T>): { value: T | undefined } {
  const seen: { value: T | undefined } = { value: undefined };
  void promise.then((value) => {
    seen.value = value;
  });
  return seen;
}

const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);

function leaveAlone(alone: Alone | undefined): void {
  if (alone?.state !== "alone") throw new Error(`not alone but ${alone?.state}`);
  alone.leave();
}

test("the only one inside is alone at once", async () => {
  expect(await full(1).alone(never)).toMatchObject({ state: "alone" });
});

test("one that asks waits until the last of the others has left", async () => {
  const gate = full(3);
  const asked = watch(gate.alone(never));
  gate.leave();
  await settle();
  expect(asked.value).toBeUndefined();
  gate.leave();
  await settle();
  expect(asked.value).toMatchObject({ state: "alone" });
});

test("from the asking on nobody comes in, each is counted, and the leaving lets them in again", async () => {
  const gate = full(2);
  const asked = watch(gate.alone(never));
  expect(gate.enter()).toBe(false);
  gate.leave();
  await settle();
  expect(gate.enter()).toBe(false);
  expect(gate.turnedAway).toBe(2);
  leaveAlone(asked.value);
  expect(gate.enter()).toBe(true);
  expect(gate.turnedAway).toBe(2);
});

test("a second one that asks is told so at once: they would wait for each other", async () => {
  const gate = full(2);
  const first = watch(gate.alone(never));
  expect(await gate.alone(never)).toEqual({ state: "busy" });
  gate.leave();
  await settle();
  expect(first.value).toMatchObject({ state: "alone" });
});

test("the wait ends with its signal, says how many stayed, and opens the gate", async () => {
  const gate = full(3);
  const asked = watch(gate.alone(after(5_000)));
  await vi.advanceTimersByTimeAsync(4_999);
  expect(asked.value).toBeUndefined();
  await vi.advanceTimersByTimeAsync(1);
  expect(asked.value).toEqual({ state: "waited", others: 2 });
  expect(gate.enter()).toBe(true);
});

test("a receive waits for the gate to open, and no longer than the worker runs", async () => {
  const gate = full(1);
  const alone = await gate.alone(never);
  const opened = watch(gate.opened(never).then(() => "open"));
  const stopped = watch(gate.opened(after(1_000)).then(() => "stopped"));
  await vi.advanceTimersByTimeAsync(999);
  expect([opened.value, stopped.value]).toEqual([undefined, undefined]);
  await vi.advanceTimersByTimeAsync(1);
  expect([opened.value, stopped.value]).toEqual([undefined, "stopped"]);
  leaveAlone(alone);
  await settle();
  expect(opened.value).toBe("open");
});
