// Which parked messages may go back to their queue: a pure decision.
import { describe, expect, it } from "vitest";
import type { RunStatus } from "../src/run.ts";
import { decideRedrive, kindOf } from "../src/run-redrive.ts";

const parkedAt = new Date("2026-06-01T10:00:00Z");
const parked = (runStatus: RunStatus | null, redrivenAt: Date | null = null) => ({
  run_id: runStatus === null ? null : "r",
  run_status: runStatus,
  parked_at: parkedAt,
  redriven_at: redrivenAt,
  redriven_as: redrivenAt === null ? null : "m2",
});

describe("a parked message", () => {
  it.each(["failed", "parked", "abandoned"] as const)(
    "of a %s run is sent; the run's own message reopens it by itself",
    (status) => {
      expect(decideRedrive(parked(status), "run")).toEqual({ state: "send", reopen: false });
      expect(decideRedrive(parked(status), "answer")).toEqual({ state: "send", reopen: true });
    },
  );

  it("that names no run is sent as it is: a worker of another version may know it", () => {
    expect(decideRedrive(parked(null), "other")).toEqual({ state: "send", reopen: false });
  });

  it.each(["finished", "cancelled", "rejected"] as const)(
    "of a %s run is refused: a worker would only settle it",
    (status) => {
      expect(decideRedrive(parked(status), "run")).toMatchObject({ state: "refuse" });
      expect(decideRedrive(parked(status), "answer")).toMatchObject({ state: "refuse" });
    },
  );

  it.each(["queued", "running", "interrupted"] as const)("of a %s run is sent when it is an answer", (status) => {
    expect(decideRedrive(parked(status), "answer")).toEqual({ state: "send", reopen: false });
    expect(decideRedrive(parked(status), "run")).toMatchObject({ state: "refuse" });
  });

  it("is not sent twice, but again once it was parked again", () => {
    expect(decideRedrive(parked("parked", new Date("2026-06-01T11:00:00Z")), "run")).toMatchObject({
      state: "already",
    });
    expect(decideRedrive(parked("parked", new Date("2026-06-01T09:00:00Z")), "run")).toMatchObject({ state: "send" });
  });
});

it("tells a run's message from an answer, also inside SNS's envelope, and from anything else", () => {
  const base = { schema: 1, run_id: "r", thread_id: "t", agent: "a" };
  const of = (value: unknown) => kindOf(Buffer.from(JSON.stringify(value)));
  expect(of({ ...base, input: {} })).toBe("run");
  expect(of({ ...base, answer: { interrupt_id: "i", value: 1 } })).toBe("answer");
  expect(of({ Type: "Notification", Message: JSON.stringify({ ...base, input: {} }) })).toBe("run");
  expect(of({ ...base, schema: 99, input: {} })).toBe("other");
  expect(kindOf(Buffer.from([0xff, 0x00]))).toBe("other");
});
