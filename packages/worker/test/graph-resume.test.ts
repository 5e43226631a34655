// Proves the resume decision, a test for each branch; above all that it never guesses "fresh".
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type AnswerEvidence,
  decideResume,
  type GraphFit,
  type Head,
  type ResumeEvidence,
} from "../src/graph-resume.ts";

const NOW = 1_700_000_000_000;

const OWN: Head = {
  checkpointId: "c3",
  parentCheckpointId: "c2",
  runId: "r1",
  source: "loop",
  step: 3,
  writtenAtMs: NOW - 1_000,
  openTasks: 1,
  pendingInterruptIds: [],
};
const FOREIGN: Head = { ...OWN, checkpointId: "c9", parentCheckpointId: "c8", runId: "r0", step: 9 };
const INCOMPATIBLE: GraphFit = { fit: "incompatible", from: "aaaa", to: "bbbb", missing: ["review"] };

function decide(changes: Partial<ResumeEvidence>): ReturnType<typeof decideResume> {
  return decideResume({
    runId: "r1",
    firstCheckpointId: "c1",
    latestCheckpointId: "c3",
    head: OWN,
    graph: { fit: "same" },
    nowMs: NOW,
    ...changes,
  });
}

const answer = (recorded: AnswerEvidence["recorded"], interruptId = "i1"): AnswerEvidence => ({
  interruptId,
  recorded,
});
const asking: Head = { ...OWN, pendingInterruptIds: ["i1"] };

describe("a thread without a checkpoint", () => {
  test("is begun by a run that has none either", () => {
    expect(decide({ head: undefined, firstCheckpointId: undefined, latestCheckpointId: undefined })).toMatchObject({
      state: "fresh",
    });
  });

  test("is not begun again by a run that wrote one: somebody deleted the thread", () => {
    expect(decide({ head: undefined })).toMatchObject({ state: "refused", code: "HEAD_NOT_OWN", again: "never" });
  });

  test("has no question that an answer could be for", () => {
    const decision = decide({ head: undefined, firstCheckpointId: undefined, answer: answer("no") });
    expect(decision).toMatchObject({ state: "refused", code: "ANSWER_UNKNOWN_INTERRUPT", again: "never" });
  });
});

describe("a head of another run", () => {
  test("is where a run without a checkpoint begins", () => {
    expect(decide({ head: FOREIGN, firstCheckpointId: undefined })).toMatchObject({ state: "fresh" });
  });

  test("of a stock saver, without a run id, is where it begins as well", () => {
    const head = { ...FOREIGN, runId: undefined };
    expect(decide({ head, firstCheckpointId: undefined })).toMatchObject({ state: "fresh" });
  });

  test("stops a run that has checkpoints, naming the checkpoint and its owner", () => {
    const decision = decide({ head: FOREIGN });
    expect(decision).toMatchObject({ state: "refused", code: "HEAD_NOT_OWN", again: "never" });
    expect(decision.reason).toContain("c9");
    expect(decision.reason).toContain("run r0");
  });

  test("without a run id stops it too", () => {
    const decision = decide({ head: { ...FOREIGN, runId: undefined } });
    expect(decision).toMatchObject({ state: "refused", code: "HEAD_NOT_OWN", again: "never" });
  });

  test("takes no answer of a run that has not begun", () => {
    const decision = decide({ head: FOREIGN, firstCheckpointId: undefined, answer: answer("no") });
    expect(decision).toMatchObject({ state: "refused", code: "ANSWER_UNKNOWN_INTERRUPT" });
  });

  test("takes no answer of a run that has checkpoints below it", () => {
    expect(decide({ head: FOREIGN, answer: answer("no") })).toMatchObject({ state: "refused", code: "HEAD_NOT_OWN" });
  });
});

describe("an update on the thread", () => {
  const update: Head = { ...FOREIGN, runId: undefined, source: "update", parentCheckpointId: "c3" };

  test("right above the run's latest checkpoint is resumed", () => {
    expect(decide({ head: update })).toMatchObject({ state: "resume", step: 9 });
  });

  test("above anything else is refused, never begun afresh", () => {
    const decision = decide({ head: { ...update, parentCheckpointId: "c7" } });
    expect(decision).toMatchObject({ state: "refused", code: "HEAD_NOT_OWN" });
  });

  test("without a parent is not taken for ours because the run has no latest checkpoint", () => {
    const decision = decide({ head: { ...update, parentCheckpointId: undefined }, latestCheckpointId: undefined });
    expect(decision).toMatchObject({ state: "refused", code: "HEAD_NOT_OWN" });
  });

  test("a loop checkpoint in its place is no update, and refused", () => {
    const decision = decide({ head: { ...update, source: "loop" } });
    expect(decision).toMatchObject({ state: "refused", code: "HEAD_NOT_OWN" });
  });
});

describe("the run's own head", () => {
  test("with open tasks is resumed from its step, unpinned (B03)", () => {
    expect(decide({})).toEqual({ state: "resume", step: 3, reason: "1 open task(s) after step 3" });
  });

  test("is resumed although the row does not know of a first checkpoint yet", () => {
    expect(decide({ firstCheckpointId: undefined, latestCheckpointId: undefined })).toMatchObject({ state: "resume" });
  });

  test("without open tasks means the run had finished before its row could say so", () => {
    expect(decide({ head: { ...OWN, openTasks: 0 } })).toMatchObject({ state: "finished" });
  });

  test("with a pending question is waiting for a human, and nothing is invoked", () => {
    const decision = decide({ head: { ...asking, openTasks: 1 } });
    expect(decision).toEqual({ state: "interrupted", reason: "waits for 1 answer(s)" });
  });
});

describe("a head from the future", () => {
  test.each([1, 10_000, 10_001])("of %i ms is not resumed yet, and says for how long", (skew) => {
    const decision = decide({ head: { ...OWN, writtenAtMs: NOW + skew } });
    expect(decision).toMatchObject({ state: "not_yet", waitMs: skew });
  });

  test("written in this very millisecond is resumed", () => {
    expect(decide({ head: { ...OWN, writtenAtMs: NOW } })).toMatchObject({ state: "resume" });
  });

  test("holds back a fresh run of the thread as well: its checkpoints would sort before the head", () => {
    const decision = decide({ head: { ...FOREIGN, writtenAtMs: NOW + 5 }, firstCheckpointId: undefined });
    expect(decision).toMatchObject({ state: "not_yet", waitMs: 5 });
  });

  test("with an unreadable time is resumed rather than held back for ever", () => {
    expect(decide({ head: { ...OWN, writtenAtMs: Number.NaN } })).toMatchObject({ state: "resume" });
  });
});

describe("a changed graph", () => {
  const compatible: GraphFit = { fit: "compatible", from: "aaaa", to: "bbbb" };

  test("in which every pending node still exists resumes and says so", () => {
    const decision = decide({ graph: compatible });
    expect(decision).toMatchObject({ state: "resume", step: 3 });
    for (const word of ["aaaa", "bbbb", "changed"]) expect(decision.reason).toContain(word);
  });

  test("in which a pending node is gone gives the message back and names the node", () => {
    const decision = decide({ graph: INCOMPATIBLE });
    expect(decision).toMatchObject({ state: "refused", code: "GRAPH_CHANGED", again: "returned" });
    expect(decision.reason).toContain("review");
  });

  test("does not make an unfinished run finished because the gone node leaves no task", () => {
    const decision = decide({ graph: INCOMPATIBLE, head: { ...OWN, openTasks: 0 } });
    expect(decision).toMatchObject({ state: "refused", code: "GRAPH_CHANGED", again: "returned" });
  });

  test("keeps an answer until a graph that knows the asking node is back", () => {
    const decision = decide({ graph: INCOMPATIBLE, head: asking, answer: answer("no") });
    expect(decision).toMatchObject({ state: "refused", code: "GRAPH_CHANGED", again: "returned" });
  });

  test("does not finish a run by an answer that was used before, when the gone node leaves no task", () => {
    const decision = decide({ graph: INCOMPATIBLE, head: { ...OWN, openTasks: 0 }, answer: answer("same") });
    expect(decision).toMatchObject({ state: "refused", code: "GRAPH_CHANGED", again: "returned" });
  });
});

describe("a human answer", () => {
  test("to the pending question is used", () => {
    const decision = decide({ head: asking, answer: answer("no") });
    expect(decision).toEqual({ state: "answer", step: 3, reason: "answered" });
  });

  test("that comes again while its question is still pending is used: it was recorded and then lost", () => {
    const decision = decide({ head: asking, answer: answer("same") });
    expect(decision).toMatchObject({ state: "answer", reason: "answered before, still pending" });
  });

  test("that comes again with nothing pending continues the unfinished run", () => {
    expect(decide({ answer: answer("same") })).toMatchObject({ state: "resume", step: 3 });
  });

  test("that comes again after the run's end settles it as finished", () => {
    const decision = decide({ head: { ...OWN, openTasks: 0 }, answer: answer("same") });
    expect(decision).toMatchObject({ state: "finished" });
  });

  test("that comes again while the next question is pending never answers that one", () => {
    const decision = decide({ head: { ...OWN, pendingInterruptIds: ["i2"] }, answer: answer("same") });
    expect(decision).toMatchObject({ state: "settled" });
  });

  test.each([asking, OWN, { ...OWN, openTasks: 0 }])(
    "with another value than the recorded one is refused (%#)",
    (head) => {
      const decision = decide({ head, answer: answer("other") });
      expect(decision).toMatchObject({ state: "refused", code: "ANSWER_CONFLICT", again: "never" });
    },
  );

  test.each([OWN, { ...OWN, openTasks: 0 }, { ...OWN, pendingInterruptIds: ["i2"] }])(
    "to a question nobody asked is refused (%#)",
    (head) => {
      const decision = decide({ head, answer: answer("no") });
      expect(decision).toMatchObject({ state: "refused", code: "ANSWER_UNKNOWN_INTERRUPT", again: "never" });
    },
  );

  test("to one of several pending questions is used for that one", () => {
    const head = { ...OWN, pendingInterruptIds: ["i0", "i1"] };
    expect(decide({ head, answer: answer("no") })).toMatchObject({ state: "answer" });
  });
});

describe("whatever a thread looks like", () => {
  const id = fc.constantFrom("c1", "c2", "c3", "c9");
  const head: fc.Arbitrary<Head> = fc.record({
    checkpointId: id,
    parentCheckpointId: fc.option(id, { nil: undefined }),
    runId: fc.constantFrom("r1", "r0", undefined),
    source: fc.constantFrom("input", "loop", "update", "fork"),
    step: fc.integer({ min: -1, max: 50 }),
    writtenAtMs: fc.integer({ min: NOW - 20_000, max: NOW + 20_000 }),
    openTasks: fc.nat(3),
    pendingInterruptIds: fc.subarray(["i1", "i2"]),
  });
  const fits: readonly GraphFit[] = [{ fit: "same" }, { fit: "compatible", from: "a", to: "b" }, INCOMPATIBLE];
  const graph = fc.constantFrom(...fits);
  const begun = fc.record({
    firstCheckpointId: fc.constantFrom("c1", undefined),
    latestCheckpointId: fc.option(id, { nil: undefined }),
    head: fc.option(head, { nil: undefined }),
    graph,
    answer: fc.option(
      fc.record({
        interruptId: fc.constantFrom("i1", "i2", "i3"),
        recorded: fc.constantFrom("no" as const, "same" as const, "other" as const),
      }),
      { nil: undefined },
    ),
  });

  function decided(given: typeof begun extends fc.Arbitrary<infer T> ? T : never): ReturnType<typeof decideResume> {
    const { answer: recorded, ...others } = given;
    return decide({ ...others, ...(recorded === undefined ? {} : { answer: recorded }) });
  }

  test("a run that has a checkpoint is never begun afresh", () => {
    fc.assert(
      fc.property(begun, (given) => {
        const own = given.firstCheckpointId !== undefined || given.head?.runId === "r1";
        if (own) expect(decided(given).state).not.toBe("fresh");
      }),
      { numRuns: 2_000 },
    );
  });

  test("an answer begins nothing, and without one nothing is answered or settled", () => {
    fc.assert(
      fc.property(begun, (given) => {
        const { state } = decided(given);
        if (given.answer !== undefined) expect(state).not.toBe("fresh");
        else expect(["answer", "settled"]).not.toContain(state);
      }),
      { numRuns: 2_000 },
    );
  });

  test("an answer is used only for the question it names, while that is pending on this run's head", () => {
    fc.assert(
      fc.property(begun, (given) => {
        if (decided(given).state !== "answer") return;
        expect(given.head?.pendingInterruptIds).toContain(given.answer?.interruptId);
        expect(given.answer?.recorded).not.toBe("other");
      }),
      { numRuns: 2_000 },
    );
  });

  test("a head that something other than this run wrote, no update of it, is never resumed", () => {
    fc.assert(
      fc.property(begun, (given) => {
        const foreign = given.head !== undefined && given.head.runId !== "r1" && given.head.source !== "update";
        if (foreign) expect(["resume", "answer", "finished", "interrupted"]).not.toContain(decided(given).state);
      }),
      { numRuns: 2_000 },
    );
  });

  test("every decision has a reason", () => {
    fc.assert(
      fc.property(begun, (given) => {
        expect(decided(given).reason).not.toBe("");
      }),
    );
  });
});
