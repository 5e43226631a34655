// Proves the redelivery cause: identity beats counting, a missing count is never a one, and each earlier end has its name.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type CauseEvidence, redeliveryCause } from "../src/delivery-cause.ts";
import type { DeliveryOutcome, EarlierDelivery } from "../src/run.ts";

const OUTCOMES: readonly DeliveryOutcome[] = [
  "finished",
  "interrupted",
  "failed",
  "failed_retry",
  "handback",
  "deferred",
  "not_yet",
  "waiting",
  "settled",
  "refused",
  "returned",
  "parked",
  "lease_lost",
  "lost",
];

function earlier(sqsMessageId: string, outcome: DeliveryOutcome | undefined): EarlierDelivery {
  return {
    deliveryId: `d-${sqsMessageId}-${outcome ?? "open"}`,
    sqsMessageId,
    receiveCount: 1,
    outcome,
    traceId: "0af7651916cd43dd8448eb211c80319c",
    rootSpanId: "b7ad6b7169203331",
    startedAtMs: 0,
  };
}

function evidence(changes: Partial<CauseEvidence>): CauseEvidence {
  return { sqsMessageId: "m1", receiveCount: 1, earlier: [], reopened: false, ...changes };
}

describe("a first delivery", () => {
  test("has no cause and is not redelivered", () => {
    expect(redeliveryCause(evidence({}))).toEqual({ cause: "none", redelivered: false, unseenReceives: 0 });
  });

  test("without a count stays a first delivery, with the unseen receives unknown rather than none (C06)", () => {
    expect(redeliveryCause(evidence({ receiveCount: undefined }))).toEqual({
      cause: "none",
      redelivered: false,
      unseenReceives: undefined,
    });
  });

  test("that SQS counts as the third was received before and never started: two unseen receives (C04)", () => {
    expect(redeliveryCause(evidence({ receiveCount: 3 }))).toEqual({
      cause: "phantom_receive",
      redelivered: true,
      unseenReceives: 2,
    });
  });
});

describe("after an earlier delivery of the same message", () => {
  test.each([
    ["lost", "visibility_expired"],
    ["handback", "handback"],
    ["failed_retry", "failed_retry"],
    ["deferred", "deferred"],
    ["not_yet", "not_yet"],
    ["returned", "not_yet"],
    ["lease_lost", "lease_lost"],
  ] as const)("that ended as %s the cause is %s", (outcome, cause) => {
    const result = redeliveryCause(evidence({ receiveCount: 2, earlier: [earlier("m1", outcome)] }));
    expect(result).toEqual({ cause, redelivered: true, unseenReceives: 0 });
  });

  test.each(["finished", "interrupted", "failed", "settled", "refused", "parked"] as const)(
    "that ended for good as %s its delete was not seen: the visibility expired",
    (outcome) => {
      const result = redeliveryCause(evidence({ receiveCount: 2, earlier: [earlier("m1", outcome)] }));
      expect(result.cause).toBe("visibility_expired");
    },
  );

  test("that ended for good, an uncounted delivery has a cause nobody knows", () => {
    const result = redeliveryCause(evidence({ receiveCount: undefined, earlier: [earlier("m1", "finished")] }));
    expect(result).toEqual({ cause: "unknown", redelivered: true, unseenReceives: undefined });
  });

  test("that has not ended, the cause is unknown until somebody buries it", () => {
    const result = redeliveryCause(evidence({ receiveCount: 2, earlier: [earlier("m1", undefined)] }));
    expect(result.cause).toBe("unknown");
  });

  test("the latest one names the cause", () => {
    const rows = [earlier("m1", "lost"), earlier("m1", "deferred"), earlier("m1", "handback")];
    expect(redeliveryCause(evidence({ receiveCount: 4, earlier: rows })).cause).toBe("handback");
  });

  test("receives between the rows are counted as unseen, whatever the cause is", () => {
    const result = redeliveryCause(evidence({ receiveCount: 5, earlier: [earlier("m1", "lost")] }));
    expect(result).toEqual({ cause: "visibility_expired", redelivered: true, unseenReceives: 3 });
  });

  test("a repeated count does not make the unseen receives negative", () => {
    const rows = [earlier("m1", "lost"), earlier("m1", "lost")];
    expect(redeliveryCause(evidence({ receiveCount: 2, earlier: rows })).unseenReceives).toBe(0);
  });
});

describe("under another message id", () => {
  test("the run was enqueued twice, although both messages were received once (C14)", () => {
    const result = redeliveryCause(
      evidence({ sqsMessageId: "m2", receiveCount: 1, earlier: [earlier("m1", "finished")] }),
    );
    expect(result).toEqual({ cause: "enqueued_twice", redelivered: true, unseenReceives: 0 });
  });

  test("enqueued twice stays the cause when SQS counts the second message twice as well", () => {
    const result = redeliveryCause(evidence({ sqsMessageId: "m2", receiveCount: 2, earlier: [earlier("m1", "lost")] }));
    expect(result).toMatchObject({ cause: "enqueued_twice", unseenReceives: 1 });
  });

  test("a run that had ended and was reopened by it was redriven", () => {
    const result = redeliveryCause(
      evidence({
        sqsMessageId: "m2",
        earlier: [earlier("m1", "failed_retry"), earlier("m1", "parked")],
        reopened: true,
      }),
    );
    expect(result).toMatchObject({ cause: "redrive", redelivered: true });
  });

  test("the second delivery of a redriven message has the cause of the first one's end, not the redrive again", () => {
    const rows = [earlier("m1", "parked"), earlier("m2", "handback")];
    const result = redeliveryCause(evidence({ sqsMessageId: "m2", receiveCount: 2, earlier: rows }));
    expect(result.cause).toBe("handback");
  });

  test("a run that had only waited its turn and was re-sent by us is no duplicate", () => {
    const result = redeliveryCause(evidence({ sqsMessageId: "m2", earlier: [earlier("m1", "waiting")] }));
    expect(result).toEqual({ cause: "none", redelivered: false, unseenReceives: 0 });
  });

  test("our own re-send that SQS counts twice was received before and never started (C04)", () => {
    const result = redeliveryCause(
      evidence({ sqsMessageId: "m2", receiveCount: 2, earlier: [earlier("m1", "waiting")] }),
    );
    expect(result).toEqual({ cause: "phantom_receive", redelivered: true, unseenReceives: 1 });
  });

  test("receives of the first message are not held against the second", () => {
    const rows = [earlier("m1", "lost"), earlier("m1", "finished")];
    expect(redeliveryCause(evidence({ sqsMessageId: "m2", receiveCount: 1, earlier: rows })).unseenReceives).toBe(0);
  });
});

describe("whatever the rows and the count say", () => {
  const anything = fc.record({
    sqsMessageId: fc.constantFrom("m1", "m2", "m3"),
    receiveCount: fc.option(fc.integer({ min: 1, max: 1_000 }), { nil: undefined }),
    earlier: fc.array(
      fc
        .tuple(fc.constantFrom("m1", "m2", "m3"), fc.option(fc.constantFrom(...OUTCOMES), { nil: undefined }))
        .map(([id, outcome]) => earlier(id, outcome)),
      { maxLength: 8 },
    ),
    reopened: fc.boolean(),
  });

  test("unseen receives are never negative, and unknown exactly without a count", () => {
    fc.assert(
      fc.property(anything, (given) => {
        const { unseenReceives } = redeliveryCause(given);
        if (given.receiveCount === undefined) expect(unseenReceives).toBeUndefined();
        else expect(unseenReceives).toBeGreaterThanOrEqual(0);
      }),
    );
  });

  test("a count above one is always a redelivery, with a cause", () => {
    fc.assert(
      fc.property(anything, fc.integer({ min: 2, max: 1_000 }), (given, receiveCount) => {
        const { redelivered, cause } = redeliveryCause({ ...given, receiveCount });
        expect(redelivered).toBe(true);
        expect(cause).not.toBe("none");
      }),
      { numRuns: 2_000 },
    );
  });

  test("a first delivery of a fresh message on a fresh run is never one", () => {
    fc.assert(
      fc.property(fc.constantFrom(1, undefined), (receiveCount) => {
        expect(redeliveryCause(evidence({ receiveCount })).redelivered).toBe(false);
      }),
    );
  });
});
