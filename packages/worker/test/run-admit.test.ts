// Proves the admission of an answer: its run has the thread already, so it never waits behind a later one.
import { describe, expect, test } from "vitest";
import type { AnswerRequest } from "../src/message.ts";
import type { RunStatus } from "../src/run.ts";
import { decideAnswer } from "../src/run-admit.ts";
import type { RunEvidence } from "../src/run-rows.ts";

const REQUEST: AnswerRequest = {
  kind: "answer",
  runId: "r1",
  threadId: "t1",
  agent: "support",
  interruptId: "i1",
  value: "yes",
  valueHash: "h",
};

function decide(run: Partial<RunEvidence["run"]>, others: Partial<RunEvidence> = {}): ReturnType<typeof decideAnswer> {
  return decideAnswer(REQUEST, {
    run: {
      runId: "r1",
      threadId: "t1",
      agent: "support",
      position: 1n,
      status: "interrupted",
      inputHash: "h1",
      graphFingerprint: undefined,
      firstCheckpointId: "c1",
      latestCheckpointId: "c3",
      latestStep: 3,
      lostDeliveries: 0,
      failedDeliveries: 0,
      isNew: false,
      ...run,
    },
    earlier: [],
    lease: undefined,
    lower: [],
    faultLimit: 5,
    ...others,
  });
}

describe("an answer", () => {
  test.each(["interrupted", "running", "queued"] as const)("to a run that is %s takes the thread", (status) => {
    expect(decide({ status })).toMatchObject({ state: "take", reopen: false, supersedes: [] });
  });

  const ended: readonly RunStatus[] = ["finished", "failed", "cancelled", "rejected", "parked", "abandoned"];
  test.each(ended)("to a run that is %s is settled: nobody can use it any more", (status) => {
    expect(decide({ status })).toEqual({ state: "settle", reason: `already ${status}` });
  });

  test("comes back when the thread's lease ends", () => {
    const lease = { runId: "r1", deliveryId: "d0", remainingMs: 9_000 };
    expect(decide({}, { lease })).toMatchObject({ state: "defer", afterMs: 9_000 });
  });

  test.each([{ threadId: "t2" }, { agent: "other" }])("to a run of another thread or agent is refused: %j", (run) => {
    expect(decide(run)).toMatchObject({ state: "refuse", code: "ANSWER_RUN_UNKNOWN" });
  });

  test("whose resume was lost or failed too often is refused, like the run itself would be", () => {
    expect(decide({ lostDeliveries: 3, failedDeliveries: 2 })).toMatchObject({ state: "refuse", code: "FAULT_LIMIT" });
    expect(decide({ lostDeliveries: 3, failedDeliveries: 1 })).toMatchObject({ state: "take" });
  });

  test("is refused for the wrong thread also when the run has ended", () => {
    expect(decide({ threadId: "t2", status: "finished" })).toMatchObject({ code: "ANSWER_RUN_UNKNOWN" });
  });
});
