// Proves when a run works together with others, alone, or no more: one line of the decision a test (cases B09, C18).
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decideProgress, type LostDelivery, progressOf } from "../src/run-progress.ts";

const moved: LostDelivery = { progressed: true, alone: false };
const stuck: LostDelivery = { progressed: false, alone: false };
const stuckAlone: LostDelivery = { progressed: false, alone: true };
const movedAlone: LostDelivery = { progressed: true, alone: true };

describe("from the lost deliveries, most recent first", () => {
  test.each<[string, readonly LostDelivery[], string]>([
    ["none", [], "together"],
    ["one that progressed (B09)", [moved], "together"],
    ["each progressed (B09)", [moved, moved, moved, moved], "together"],
    ["the last progressed alone", [movedAlone, stuck], "together"],
    ["one without progress", [stuck], "alone"],
    ["the last without progress, after others that progressed", [stuck, moved, moved], "alone"],
    ["two without progress, none alone: killed again before it had the worker", [stuck, stuck], "alone"],
    ["alone and without progress, but before the last progress", [stuck, moved, stuckAlone], "alone"],
    ["lost again alone (C18)", [stuckAlone, stuck], "parked"],
    ["lost once more before it was parked", [stuck, stuckAlone, stuck], "parked"],
    ["lost alone, when an earlier one progressed", [stuckAlone, stuck, moved], "parked"],
  ])("%s", (_name, lost, state) => {
    expect(decideProgress(lost).state).toBe(state);
  });

  test("the reason counts what is without progress", () => {
    expect(decideProgress([stuckAlone, stuck, moved])).toEqual({
      state: "parked",
      code: "NO_PROGRESS",
      reason: "2 lost deliveries without a new checkpoint, one of them alone on its worker",
    });
    expect(decideProgress([stuck, moved])).toMatchObject({ reason: expect.stringContaining("after a lost delivery") });
    expect(decideProgress([stuck, stuck])).toMatchObject({
      reason: expect.stringContaining("after 2 lost deliveries"),
    });
  });

  test("it is parked for nothing but a delivery lost alone, with no progress since", () => {
    const delivery = fc.record({ progressed: fc.boolean(), alone: fc.boolean() });
    fc.assert(
      fc.property(fc.array(delivery, { maxLength: 8 }), (lost) => {
        const since = lost.findIndex(({ progressed }) => progressed);
        const last = since === -1 ? lost : lost.slice(0, since);
        expect(decideProgress(lost).state === "parked").toBe(last.some(({ alone }) => alone));
        expect(decideProgress(lost).state === "together").toBe(last.length === 0);
      }),
    );
  });
});

describe("a delivery progressed", () => {
  const run = { firstStep: -1, latestStep: 1, latestCheckpointId: "c3" };

  test("when a node's work is in a checkpoint it did not begin from", () => {
    expect(progressOf({ checkpointAtBegin: undefined, alone: false }, run)).toEqual(moved);
    expect(progressOf({ checkpointAtBegin: "c2", alone: true }, run)).toEqual(movedAlone);
  });

  test("not when the latest checkpoint is the one it began from", () => {
    expect(progressOf({ checkpointAtBegin: "c3", alone: true }, run)).toEqual(stuckAlone);
  });

  test.each([-1, 0])("not when only input and start are stored (step %i)", (latestStep) => {
    expect(progressOf({ checkpointAtBegin: undefined, alone: false }, { ...run, latestStep })).toEqual(stuck);
  });

  test("not by the steps of an earlier run of the thread", () => {
    const second = { firstStep: 7, latestStep: 8, latestCheckpointId: "c9" };
    expect(progressOf({ checkpointAtBegin: undefined, alone: false }, second)).toEqual(stuck);
    expect(progressOf({ checkpointAtBegin: undefined, alone: false }, { ...second, latestStep: 9 })).toEqual(moved);
  });

  test("not before the first checkpoint", () => {
    const none = { firstStep: undefined, latestStep: undefined, latestCheckpointId: undefined };
    expect(progressOf({ checkpointAtBegin: undefined, alone: false }, none)).toEqual(stuck);
  });
});
