// One signal of several: the first reason wins, and a source that lives on keeps nothing of the work that is over.
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { firstOf, onFirst, Stop } from "../src/signals.ts";

test("fires with the first source and its reason, and leaves the others", () => {
  const [first, second] = [new AbortController(), new AbortController()];
  const { signal } = firstOf([first.signal, second.signal]);
  expect(signal.aborted).toBe(false);
  second.abort("second");
  first.abort("first");
  expect(signal.reason).toBe("second");
  expect(getEventListeners(first.signal, "abort")).toHaveLength(0);
});

test("has fired already when a source has", () => {
  const source = AbortSignal.abort("before");
  expect(firstOf([new AbortController().signal, source]).signal.reason).toBe("before");
});

test("a stop fires once, with its first reason, for real signals beside it", () => {
  const [stop, other] = [new Stop(), new AbortController()];
  const { signal } = firstOf([other.signal, stop]);
  const reasons: unknown[] = [];
  const heard: unknown[] = [];
  const release = onFirst([stop], (reason) => reasons.push(reason));
  onFirst([stop], (reason) => heard.push(reason))();
  expect([stop.aborted, stop.reason]).toEqual([false, undefined]);
  stop.abort("lost");
  stop.abort("late");
  const unheard = new Stop();
  unheard.abort("unheard");
  unheard.abort("late");
  expect([unheard.aborted, unheard.reason]).toEqual([true, "unheard"]);
  release();
  onFirst([other.signal, stop], (reason) => reasons.push(reason));
  expect([stop.aborted, stop.reason, signal.reason]).toEqual([true, "lost", "lost"]);
  expect([reasons, heard]).toEqual([["lost", "lost"], []]);
  expect(getEventListeners(other.signal, "abort")).toHaveLength(0);
});

test("a source that lives as long as the worker keeps nothing of a thousand deliveries that are over", () => {
  const drain = new AbortController();
  for (let delivery = 0; delivery < 1_000; delivery += 1) firstOf([drain.signal]).release();
  expect(getEventListeners(drain.signal, "abort")).toHaveLength(0);
  // What AbortSignal.any leaves behind stands at a symbol of the source's.
  const kept = Object.getOwnPropertySymbols(drain.signal).map((key) => Reflect.get(drain.signal, key) as unknown);
  expect(kept.filter((value) => value instanceof Set && value.size > 0)).toEqual([]);
});
