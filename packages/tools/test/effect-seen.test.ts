// Counting repeats in memory: together, bounded, and honest about what was lost.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SeenCounts } from "../src/effect-seen.ts";

describe("SeenCounts", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("writes the repeats of a moment together, once", async () => {
    const writes: (readonly [readonly string[], readonly number[]])[] = [];
    const counts = new SeenCounts({ write: async (keys, times) => void writes.push([keys, times]), delayMs: 200 });
    for (const key of ["a", "b", "a"]) counts.add(key);
    expect(counts.pending("a")).toBe(2);
    await vi.advanceTimersByTimeAsync(199);
    expect(writes).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(writes).toEqual([
      [
        ["a", "b"],
        [2, 1],
      ],
    ]);
    expect(counts.pending("a")).toBe(0);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(writes).toHaveLength(1);
  });

  it("begins no second write while one is under way, and loses nothing that comes meanwhile", async () => {
    const written: number[] = [];
    let release: () => void = () => undefined;
    const write = async (_keys: readonly string[], times: readonly number[]): Promise<void> => {
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      written.push(...times);
    };
    const counts = new SeenCounts({ write, delayMs: 10 });
    counts.add("a");
    await vi.advanceTimersByTimeAsync(10);
    counts.add("a");
    await vi.advanceTimersByTimeAsync(100);
    release();
    await vi.advanceTimersByTimeAsync(10);
    release();
    await counts.flush();
    expect(written).toEqual([1, 1]);
  });

  it("keeps a bounded number of keys, and counts what it dropped and what could not be written", async () => {
    const write = async (): Promise<void> => {
      throw new Error("the pool has ended");
    };
    const counts = new SeenCounts({ write, keysMax: 1 });
    for (const key of ["a", "b", "a"]) counts.add(key);
    expect(counts.dropped).toBe(1);
    await counts.flush();
    expect(counts.dropped).toBe(3);
  });

  it("has nothing to flush when nothing was counted", async () => {
    const write = vi.fn(async () => undefined);
    await new SeenCounts({ write }).flush();
    expect(write).not.toHaveBeenCalled();
  });
});
