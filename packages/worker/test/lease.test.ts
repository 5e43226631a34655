// Proves the lease of one delivery on a clock of its own: what keeps it, what loses it, and what it does afterwards.
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { WorkerError } from "../src/errors.ts";
import { Lease } from "../src/lease.ts";
import { BeatRounds } from "../src/lease-beats.ts";
import { FakeClock } from "./fake-clock.ts";

const failure = (name: string): Error => Object.assign(new Error(`SQS said ${name}`), { name });

/** Visibility 60 s: the lease runs 55 s; with random 0 a beat is due after 20 s and a failed one again after 3 s. */
const VISIBILITY_MS = 60_000;

let clock: FakeClock;
let sentAt: number[];
const extend = vi.fn<(visibilityMs: number) => Promise<void>>();
const renew = vi.fn<(leaseMs: number) => Promise<boolean>>();
const onLost = vi.fn<(error: WorkerError) => void>();
const onBeatFailed = vi.fn<(error: unknown) => void>();
const onWallNear = vi.fn<() => void>();
const unhandled: unknown[] = [];
const onUnhandled = (error: unknown): void => void unhandled.push(error);

beforeEach(() => {
  clock = new FakeClock();
  sentAt = [];
  unhandled.length = 0;
  extend.mockReset().mockImplementation(async () => void sentAt.push(clock.now()));
  renew.mockReset().mockResolvedValue(true);
  onLost.mockReset();
  onBeatFailed.mockReset();
  onWallNear.mockReset();
  process.on("unhandledRejection", onUnhandled);
});

afterEach(async () => {
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", onUnhandled);
  expect(unhandled).toEqual([]);
});

function started(random: () => number = () => 0, visibilityMs: number = VISIBILITY_MS): Lease {
  const parts = { visibilityMs, clock, random, beats: clock, extend, renew, onLost, onWallNear, onBeatFailed };
  const lease = new Lease(parts, 0);
  lease.start();
  return lease;
}

describe("while beats are accepted", () => {
  test("the lease lives for hours, one beat after the other (C01)", async () => {
    const lease = started();
    await clock.advance(4 * 3_600_000);
    expect(lease.isLive()).toBe(true);
    expect(sentAt.slice(0, 3)).toEqual([20_000, 40_000, 60_000]);
    expect(sentAt).toHaveLength(720);
    expect(onLost).not.toHaveBeenCalled();
  });

  test("the visibility is extended before the lease is renewed, so that the lease never outlives it", async () => {
    started();
    await clock.advance(20_000);
    const [extended] = extend.mock.invocationCallOrder;
    const [renewed] = renew.mock.invocationCallOrder;
    expect(extended).toBeLessThan(renewed ?? 0);
  });

  test("workers spread out: the random part makes a beat earlier, never later", async () => {
    started(() => 0.99);
    await clock.advance(20_000);
    expect(sentAt).toEqual([expect.closeTo(16_040)]);
  });

  test("the lease is renewed only for what is left of the visibility after a slow extension", async () => {
    extend.mockImplementationOnce(() => delayed(30_000));
    started();
    await clock.advance(50_000);
    expect(renew).toHaveBeenCalledExactlyOnceWith(25_000);
  });

  test("no beat begins while another is in flight", async () => {
    extend.mockImplementation(() => delayed(30_000));
    started();
    await clock.advance(49_999);
    expect(extend).toHaveBeenCalledTimes(1);
  });
});

test("after a slow admission the first beat is due as if the lease had begun with the receive", async () => {
  const parts = { visibilityMs: VISIBILITY_MS, clock, random: () => 0, beats: clock, extend, renew, onLost };
  const lease = new Lease({ ...parts, onWallNear, onBeatFailed }, -40_000);
  lease.start();
  await clock.advance(1);
  expect(sentAt).toEqual([0]);
  expect(lease.remainingMs()).toBe(54_999);
});

describe("the deadline", () => {
  test("counts from the receive before the first beat", async () => {
    extend.mockImplementation(() => new Promise(() => {}));
    const lease = started();
    await clock.advance(54_999);
    expect(lease.isLive()).toBe(true);
    expect(lease.remainingMs()).toBe(1);
    await clock.advance(1);
    expect(lease.isLive()).toBe(false);
    expect(lease.remainingMs()).toBe(0);
  });

  test("counts from the send of the last accepted beat, not from its answer (C11)", async () => {
    extend.mockImplementationOnce(() => delayed(30_000)).mockImplementation(() => new Promise(() => {}));
    const lease = started();
    await clock.advance(50_000);
    // Sent at 20 s, answered at 50 s: SQS may have counted from 20 s, so the lease ends at 75 s.
    expect(lease.remainingMs()).toBe(25_000);
    await clock.advance(24_999);
    expect(lease.isLive()).toBe(true);
    await clock.advance(1);
    expect(lease.isLive()).toBe(false);
    expect(onLost).toHaveBeenCalledTimes(1);
  });

  test("is not moved by a beat whose row could not be renewed", async () => {
    renew.mockRejectedValue(failure("connection refused"));
    const lease = started();
    await clock.advance(30_000);
    expect(lease.remainingMs()).toBe(25_000);
    await clock.advance(25_000);
    expect(onLost).toHaveBeenCalledTimes(1);
  });

  test("is noticed by isLive after a blocked event loop, before any timer could run", () => {
    const lease = started();
    clock.block(55_000);
    expect(lease.isLive()).toBe(false);
    expect(onLost).not.toHaveBeenCalled();
  });

  test("is declared once timers run again after a block, and the beat that was due is not sent any more", async () => {
    const lease = started();
    clock.block(70_000);
    await clock.advance(0);
    expect(lease.signal.aborted).toBe(true);
    expect(onLost).toHaveBeenCalledTimes(1);
    expect(extend).not.toHaveBeenCalled();
  });

  test("is declared also when its timer fires a fraction of a millisecond early, as Node's do", async () => {
    clock.firesEarlyMs = 0.5;
    extend.mockRejectedValue(failure("ThrottlingException"));
    const lease = started();
    await clock.advance(56_000);
    expect(lease.signal.aborted).toBe(true);
    expect(onLost).toHaveBeenCalledTimes(1);
  });
});

describe("a failed beat", () => {
  test("is tried again, and the lease goes on when a later one is accepted (C11, beats 2 and 3 fail)", async () => {
    const throttled = failure("ThrottlingException");
    extend
      .mockImplementationOnce(async () => void sentAt.push(clock.now()))
      .mockRejectedValueOnce(throttled)
      .mockRejectedValueOnce(throttled);
    const lease = started();
    await clock.advance(46_000);
    expect(sentAt).toEqual([20_000, 46_000]);
    expect(onBeatFailed.mock.calls).toEqual([[throttled], [throttled]]);
    expect(onLost).not.toHaveBeenCalled();
    expect(lease.remainingMs()).toBe(55_000);
  });

  test("aborts nothing before the deadline, and everything at it when all fail (C11, variant)", async () => {
    extend.mockRejectedValue(failure("ThrottlingException"));
    const lease = started();
    await clock.advance(54_999);
    expect(lease.signal.aborted).toBe(false);
    expect(lease.isLive()).toBe(true);
    await clock.advance(1);
    expect(lease.signal.aborted).toBe(true);
    expect(lease.isLive()).toBe(false);
    expect(onBeatFailed.mock.calls.length).toBeGreaterThan(5);
  });

  test("is repeated at a bounded rate, not in a hot loop", async () => {
    extend.mockRejectedValue(failure("ThrottlingException"));
    started();
    await clock.advance(55_000);
    expect(extend.mock.calls.length).toBeLessThanOrEqual(13);
  });
});

describe("a lost lease", () => {
  const gone = ["ReceiptHandleIsInvalid", "MessageNotInflight", "InvalidParameterValue"];
  test.each(gone)("is one event when SQS answers %s: no retry, no unhandled rejection (Q02)", async (name) => {
    extend.mockResolvedValueOnce().mockRejectedValue(failure(name));
    const lease = started();
    await clock.advance(40_000);
    expect(onLost).toHaveBeenCalledTimes(1);
    expect(onBeatFailed).not.toHaveBeenCalled();
    expect(lease.isLive()).toBe(false);
    await clock.advance(3_600_000);
    expect(onLost).toHaveBeenCalledTimes(1);
    expect(extend).toHaveBeenCalledTimes(2);
    expect(clock.pending).toBe(0);
  });

  test("is one event when another worker holds the thread", async () => {
    renew.mockResolvedValue(false);
    const lease = started();
    await clock.advance(3_600_000);
    expect(onLost).toHaveBeenCalledTimes(1);
    expect(onLost.mock.calls[0]?.[0].message).toContain("another worker holds the thread");
    expect(lease.isLive()).toBe(false);
    expect(extend).toHaveBeenCalledTimes(1);
  });

  test("aborts the run's signal with the error it reports", async () => {
    renew.mockResolvedValue(false);
    const lease = started();
    await clock.advance(20_000);
    const reason: unknown = lease.signal.reason;
    expect(reason).toBeInstanceOf(WorkerError);
    expect(reason).toMatchObject({ code: "LEASE_LOST" });
    expect(onLost).toHaveBeenCalledExactlyOnceWith(reason);
  });

  test("sends no beat any more after the deadline passed (Q02)", async () => {
    extend.mockRejectedValue(failure("ThrottlingException"));
    started();
    await clock.advance(55_000);
    const beats = extend.mock.calls.length;
    await clock.advance(3_600_000);
    expect(extend).toHaveBeenCalledTimes(beats);
    expect(clock.pending).toBe(0);
  });

  test("is not revived by a beat that was in flight when it was lost", async () => {
    extend.mockImplementationOnce(() => delayed(40_000));
    const lease = started();
    await clock.advance(61_000);
    expect(onLost).toHaveBeenCalledTimes(1);
    expect(lease.isLive()).toBe(false);
    expect(extend).toHaveBeenCalledTimes(1);
  });

  test("renews no row with a beat that was in flight when it was lost", async () => {
    extend.mockImplementationOnce(() => delayed(40_000));
    started();
    await clock.advance(61_000);
    expect(renew).not.toHaveBeenCalled();
    expect(clock.pending).toBe(0);
  });
});

describe("SQS's twelve hours", () => {
  const HOUR = 3_600_000;

  test("at 11 h 59 the extension is clamped to what remains of them (Q16)", async () => {
    started(() => 0, 300_000);
    await clock.advance(11 * HOUR + 59 * 60_000);
    const asked = extend.mock.calls.map(([visibilityMs], index) => ({ at: 100_000 * (index + 1), visibilityMs }));
    for (const { at, visibilityMs } of asked) expect(at + visibilityMs).toBeLessThan(12 * HOUR);
    expect(asked.at(-1)).toEqual({ at: 43_100_000, visibilityMs: 95_000 });
    expect(asked[0]).toEqual({ at: 100_000, visibilityMs: 300_000 });
  });

  test("every extension is whole seconds, and none is asked for when nothing remains (Q16)", async () => {
    const lease = started(() => 0.37);
    await clock.advance(13 * HOUR);
    expect(extend.mock.calls.every(([visibilityMs]) => visibilityMs > 0 && visibilityMs % 1000 === 0)).toBe(true);
    expect(lease.isLive()).toBe(false);
    expect(onLost).toHaveBeenCalledTimes(1);
    expect(clock.pending).toBe(0);
  });

  test("a run of 13 hours is asked to stop at its next checkpoint ten minutes before, once (C08)", async () => {
    const lease = started();
    await clock.advance(11 * HOUR + 50 * 60_000 - 1);
    expect(lease.wall.asked.aborted).toBe(false);
    await clock.advance(1);
    expect(lease.wall.asked.aborted).toBe(true);
    expect(lease.wall.forced.aborted).toBe(false);
    expect(lease.isLive()).toBe(true);
    expect(onLost).not.toHaveBeenCalled();
    expect(onWallNear).toHaveBeenCalledTimes(1);
  });

  test("one that does not stop is made to a minute before, with the lease still live to give the message back (C08)", async () => {
    const lease = started();
    await clock.advance(11 * HOUR + 59 * 60_000);
    expect(lease.wall.forced.aborted).toBe(true);
    expect(lease.isLive()).toBe(true);
    expect(lease.signal.aborted).toBe(false);
  });

  test("they are counted from the receive, not from the lease's start", async () => {
    const parts = { visibilityMs: VISIBILITY_MS, clock, random: () => 0, beats: clock, extend, renew, onLost };
    const lease = new Lease({ ...parts, onWallNear, onBeatFailed }, -40_000);
    lease.start();
    await clock.advance(11 * HOUR + 50 * 60_000 - 40_001);
    expect(lease.wall.asked.aborted).toBe(false);
    await clock.advance(1);
    expect(lease.wall.asked.aborted).toBe(true);
  });

  test("a delivery that has ended hears nothing of them", async () => {
    const lease = started();
    await lease.stop();
    await clock.advance(13 * HOUR);
    expect(onWallNear).not.toHaveBeenCalled();
    expect(clock.pending).toBe(0);
  });
});

describe("the last word on a message", () => {
  test("is the backoff's 40 s after a throw while a beat is due and another in flight (Q03)", async () => {
    const values: number[] = [];
    extend.mockImplementation(async (visibilityMs) => {
      await delayed(2_000);
      values.push(visibilityMs / 1000);
    });
    const lease = started();
    await clock.advance(20_500);
    // As delivery-run.ts does: the lease is stopped, then what becomes of the message is sent.
    const ended = lease.stop().then(() => values.push(40));
    await clock.advance(60_000);
    await ended;
    expect(values).toEqual([60, 40]);
  });
});

describe("leases that beat in rounds", () => {
  test("thirty leases take a third of a window's calls, and each is told its own answer (Q01, Q03)", async () => {
    const beats = new BeatRounds(clock, VISIBILITY_MS);
    const rounds = new Map<number, number[]>();
    const lost: number[] = [];
    const leases = Array.from({ length: 30 }, (_, index) => {
      const own = async (): Promise<void> => {
        rounds.set(clock.now(), [...(rounds.get(clock.now()) ?? []), index]);
        if (index === 7) throw failure("ReceiptHandleIsInvalid");
      };
      const random = (): number => index / 30;
      const parts = { visibilityMs: VISIBILITY_MS, clock, random, beats, extend: own, renew, onWallNear, onBeatFailed };
      const lease = new Lease({ ...parts, onLost: () => void lost.push(index) }, 0);
      lease.start();
      return lease;
    });
    await clock.advance(20_000);
    expect([...rounds.values()].flat()).toHaveLength(30);
    expect(rounds.size).toBe(2);
    expect(lost).toEqual([7]);
    expect(leases.filter((lease) => lease.isLive())).toHaveLength(29);
    await Promise.all(leases.map((lease) => lease.stop()));
    expect(clock.pending).toBe(0);
  });
});

describe("stop", () => {
  test("waits for a beat in flight, so that the delete is never overtaken by an extension (Q01)", async () => {
    extend.mockImplementationOnce(() => delayed(200));
    const lease = started();
    await clock.advance(20_000);
    let stopped = false;
    const stop = lease.stop().then(() => {
      stopped = true;
    });
    await clock.advance(199);
    expect(stopped).toBe(false);
    await clock.advance(1);
    await stop;
    expect(renew).toHaveBeenCalledTimes(1);
  });

  test("ends at once between two beats, and no beat follows (Q01)", async () => {
    const lease = started();
    await clock.advance(20_000);
    await lease.stop();
    await clock.advance(3_600_000);
    expect(extend).toHaveBeenCalledTimes(1);
    expect(onLost).not.toHaveBeenCalled();
  });

  test("leaves no timer behind, also when a beat was in flight", async () => {
    extend.mockImplementationOnce(() => delayed(200));
    const lease = started();
    await clock.advance(20_000);
    const stop = lease.stop();
    await clock.advance(200);
    await stop;
    expect(clock.pending).toBe(0);
  });

  test("resolves although the beat in flight fails, and reports no loss for a message about to be deleted", async () => {
    extend.mockImplementationOnce(async () => {
      await delayed(200);
      throw failure("ReceiptHandleIsInvalid");
    });
    const lease = started();
    await clock.advance(20_000);
    const stop = lease.stop();
    await clock.advance(200);
    await stop;
    expect(onLost).not.toHaveBeenCalled();
    expect(lease.signal.aborted).toBe(false);
  });

  test("may be called before the first beat and twice", async () => {
    const lease = started();
    await lease.stop();
    await lease.stop();
    expect(extend).not.toHaveBeenCalled();
  });
});

function delayed(ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}
