// Proves the lease arithmetic: a lease ends before its visibility does, and waits stay inside their bounds.
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  backoffMs,
  beatDelayMs,
  leaseLengthMs,
  leaseMarginMs,
  visibilityBeforeWallMs,
  WALL_HANDOVER,
  WALL_MS,
} from "../src/lease-time.ts";

const share = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });

test("a lease leaves five seconds of a long visibility unused", () => {
  expect(leaseLengthMs(60_000, 0)).toBe(55_000);
  expect(leaseMarginMs(43_200_000)).toBe(5_000);
});

test("a short visibility gives up a fifth of itself instead of five seconds", () => {
  expect(leaseMarginMs(2_000)).toBe(400);
  expect(leaseLengthMs(2_000, 0)).toBe(1_600);
});

test("the time since the send of the request is taken off the lease", () => {
  expect(leaseLengthMs(60_000, 30_000)).toBe(25_000);
});

test("a request that took longer than the visibility leaves no lease, never a negative one", () => {
  expect(leaseLengthMs(60_000, 60_000)).toBe(0);
  expect(leaseLengthMs(60_000, 900_000)).toBe(0);
});

test("for any visibility a redelivery by expiry finds a dead lease", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1_000, max: 43_200_000 }),
      fc.integer({ min: 0, max: 100_000 }),
      (visibility, gone) => {
        const lease = leaseLengthMs(visibility, gone);
        expect(lease).toBeGreaterThanOrEqual(0);
        if (lease > 0) expect(gone + lease).toBeLessThan(visibility);
      },
    ),
  );
});

test("beats are due after four to five fifteenths of the visibility, so that two may fail before the lease ends", () => {
  expect(beatDelayMs(60_000, 0)).toBe(20_000);
  expect(beatDelayMs(60_000, 0.5)).toBe(18_000);
  fc.assert(
    fc.property(fc.integer({ min: 2_000, max: 43_200_000 }), share, (visibility, random) => {
      const delay = beatDelayMs(visibility, random);
      expect(delay).toBeGreaterThan(visibility * 0.26);
      expect(delay).toBeLessThanOrEqual(visibility / 3);
      // The second beat is sent inside the lease of the receive even when both took the longest.
      expect(2 * delay).toBeLessThan(leaseLengthMs(visibility, 0));
    }),
  );
});

test("a backoff doubles with each failure and stops at its cap", () => {
  const options = { baseMs: 500, maxMs: 30_000 };
  expect([1, 2, 3, 6, 7, 1_000_000].map((failures) => backoffMs(failures, 1, options))).toEqual([
    1_000, 2_000, 4_000, 30_000, 30_000, 30_000,
  ]);
});

test("a backoff has full jitter: anywhere between nothing and its ceiling", () => {
  const options = { baseMs: 500, maxMs: 30_000 };
  expect(backoffMs(3, 0, options)).toBe(0);
  expect(backoffMs(3, 0.25, options)).toBe(1_000);
  fc.assert(
    fc.property(fc.nat(), share, (failures, random) => {
      const wait = backoffMs(failures, random, options);
      expect(wait).toBeGreaterThanOrEqual(0);
      expect(wait).toBeLessThanOrEqual(options.maxMs);
    }),
  );
});

test("a visibility is whole while the twelve hours are far, and ends five seconds before them when they are near (Q16)", () => {
  expect(visibilityBeforeWallMs(60_000, 0)).toBe(60_000);
  expect(visibilityBeforeWallMs(300_000, WALL_MS - 60_000)).toBe(55_000);
  expect(visibilityBeforeWallMs(300_000, WALL_MS - 60_001)).toBe(55_000);
  expect(visibilityBeforeWallMs(300_000, WALL_MS - 59_999)).toBe(54_000);
  expect(visibilityBeforeWallMs(60_000, WALL_MS + 1)).toBe(0);
});

test("no visibility is ever asked for beyond the twelve hours, and the hand-over comes before its force and both before them (Q16)", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1_000, max: WALL_MS }),
      fc.double({ min: 0, max: 60_000_000, noNaN: true }),
      (wanted, since) => {
        const asked = visibilityBeforeWallMs(wanted, since);
        expect(asked).toBeGreaterThanOrEqual(0);
        expect(asked).toBeLessThanOrEqual(wanted);
        if (asked > 0) expect(since + asked).toBeLessThan(WALL_MS);
      },
    ),
  );
  expect(WALL_HANDOVER.askMs).toBeLessThan(WALL_HANDOVER.forceMs);
  expect(WALL_HANDOVER.forceMs).toBeLessThan(WALL_MS);
});
