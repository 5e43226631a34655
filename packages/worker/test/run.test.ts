// Proves the admission, one test for each line of DESIGN "Admit".
import { describe, expect, test } from "vitest";
import {
  type AdmissionEvidence,
  type DeliveryOutcome,
  decideAdmission,
  type EarlierDelivery,
  type LowerRun,
  type RunRow,
  type RunStatus,
} from "../src/run.ts";

const ROW: RunRow = {
  runId: "r1",
  threadId: "t1",
  agent: "support",
  position: 2n,
  status: "queued",
  inputHash: "h1",
  graphFingerprint: undefined,
  firstCheckpointId: undefined,
  latestCheckpointId: undefined,
  latestStep: undefined,
  lostDeliveries: 0,
  failedDeliveries: 0,
  isNew: true,
};

interface Changes {
  readonly run?: Partial<RunRow>;
  readonly request?: Partial<AdmissionEvidence["request"]>;
  readonly earlier?: readonly EarlierDelivery[];
  readonly lease?: AdmissionEvidence["lease"];
  readonly lower?: readonly LowerRun[];
}

function admit({ run = {}, request = {}, ...others }: Changes): ReturnType<typeof decideAdmission> {
  return decideAdmission({
    earlier: [],
    lease: undefined,
    lower: [],
    ...others,
    run: { ...ROW, ...run },
    request: { inputHash: "h1", onBusy: "enqueue", supersede: false, ...request },
    sqsMessageId: "m1",
    faultLimit: 5,
  });
}

function earlier(sqsMessageId: string, outcome: DeliveryOutcome | undefined): EarlierDelivery {
  return {
    deliveryId: "d0",
    sqsMessageId,
    receiveCount: 1,
    outcome,
    traceId: "0af7651916cd43dd8448eb211c80319c",
    rootSpanId: "b7ad6b7169203331",
    startedAtMs: 0,
  };
}

const lease = (runId: string): NonNullable<AdmissionEvidence["lease"]> => ({
  runId,
  deliveryId: "d0",
  remainingMs: 12_345,
});
const lower = (status: LowerRun["status"], runId = "r0"): LowerRun => ({ runId, status });

describe("a free thread", () => {
  test("is taken", () => {
    expect(admit({})).toEqual({ state: "take", reopen: false, supersedes: [], reason: "free" });
  });

  test("is taken again for a run that is unfinished and held by nobody: it resumes (C13)", () => {
    const decision = admit({ run: { status: "running", isNew: false }, earlier: [earlier("m1", "lost")] });
    expect(decision).toMatchObject({ state: "take", reopen: false });
  });
});

describe("a run that has ended", () => {
  test.each(["finished", "cancelled", "rejected"] as const)("%s: the message is settled on sight (C13)", (status) => {
    expect(admit({ run: { status, isNew: false } })).toMatchObject({ state: "settle" });
  });

  test.each(["finished", "cancelled", "rejected"] as const)(
    "%s: settled under a new message id too: the producer's duplicate does nothing (C14)",
    (status) => {
      const decision = admit({ run: { status, isNew: false }, earlier: [earlier("m0", "finished")] });
      expect(decision).toMatchObject({ state: "settle", reason: `already ${status}` });
    },
  );

  test.each(["failed", "parked", "abandoned"] as const)("%s: reopened under a new message id, a redrive", (status) => {
    const decision = admit({ run: { status, isNew: false }, earlier: [earlier("m0", "parked")] });
    expect(decision).toMatchObject({ state: "take", reopen: true });
  });

  test.each(["failed", "parked", "abandoned"] as const)(
    "%s: reopened although its faults had reached the limit: they restart",
    (status) => {
      const decision = admit({ run: { status, isNew: false, lostDeliveries: 5 }, earlier: [earlier("m0", "parked")] });
      expect(decision).toMatchObject({ state: "take", reopen: true });
    },
  );

  test.each(["failed", "parked", "abandoned"] as const)("%s: settled under a message id it has seen", (status) => {
    const rows = [earlier("m0", "lost"), earlier("m1", "parked")];
    expect(admit({ run: { status, isNew: false }, earlier: rows })).toMatchObject({ state: "settle" });
  });

  test("waiting for a human: the request's message is settled, the answer comes in one of its own", () => {
    expect(admit({ run: { status: "interrupted", isNew: false } })).toMatchObject({ state: "settle" });
  });
});

describe("another input under the same run id", () => {
  const statuses: readonly RunStatus[] = ["queued", "running", "interrupted", "finished", "failed", "parked"];
  test.each(statuses)("is refused, also when the run is %s", (status) => {
    const decision = admit({ run: { status, isNew: false }, request: { inputHash: "h2" } });
    expect(decision).toMatchObject({ state: "refuse", code: "RUN_ID_REUSED" });
  });
});

describe("a live lease", () => {
  test("of this run: a second copy, given back for the remainder (C01)", () => {
    const decision = admit({ run: { status: "running", isNew: false }, lease: lease("r1") });
    expect(decision).toMatchObject({ state: "defer", afterMs: 12_345 });
  });

  test("of this run: given back under another message id too, so that the duplicate does nothing (C14)", () => {
    const decision = admit({
      run: { status: "running", isNew: false },
      earlier: [earlier("m0", undefined)],
      lease: lease("r1"),
    });
    expect(decision.state).toBe("defer");
  });

  test("of this run: a second copy never rejects the run that works, although a lower one was reopened meanwhile", () => {
    const decision = admit({
      run: { status: "running", isNew: false },
      request: { onBusy: "reject" },
      lease: lease("r1"),
      lower: [lower("queued")],
    });
    expect(decision.state).toBe("defer");
  });

  test("of a finished run does not keep its message alive", () => {
    expect(admit({ run: { status: "finished", isNew: false }, lease: lease("r1") }).state).toBe("settle");
  });

  test("of a later run on the same thread: given back for the remainder, never taken", () => {
    expect(admit({ lease: lease("r9") })).toMatchObject({ state: "defer", afterMs: 12_345 });
  });

  test("of a lower run: this one waits in its row instead of burning receives", () => {
    expect(admit({ lease: lease("r0"), lower: [lower("running")] })).toMatchObject({ state: "wait" });
  });
});

describe("a busy thread", () => {
  test.each(["queued", "running"] as const)("with a lower run %s: the run waits by default", (status) => {
    const decision = admit({ lower: [lower(status)] });
    expect(decision).toMatchObject({ state: "wait" });
    expect(decision.reason).toContain("r0");
  });

  test.each(["queued", "running"] as const)("with a lower run %s: refused when it asked for that", (status) => {
    const decision = admit({ lower: [lower(status)], request: { onBusy: "reject" } });
    expect(decision).toMatchObject({ state: "refuse", code: "THREAD_BUSY" });
  });

  test("with only later runs is not busy for this one: a run waits only for a lower position", () => {
    expect(admit({ lower: [] })).toMatchObject({ state: "take" });
  });
});

describe("a thread that waits for a human", () => {
  test("refuses plain input", () => {
    expect(admit({ lower: [lower("interrupted")] })).toMatchObject({ state: "refuse", code: "THREAD_AWAITS_ANSWER" });
  });

  test("refuses it also when another lower run is queued, since that one would be refused as well", () => {
    const decision = admit({ lower: [lower("interrupted"), lower("queued", "r0b")] });
    expect(decision).toMatchObject({ state: "refuse", code: "THREAD_AWAITS_ANSWER" });
  });

  test("is taken over by a run that says supersede, and the waiting run is named", () => {
    const decision = admit({ lower: [lower("interrupted")], request: { supersede: true } });
    expect(decision).toMatchObject({ state: "take", supersedes: ["r0"] });
  });

  test("is not taken over while another lower run works: supersede is about humans, not about turns", () => {
    const decision = admit({
      lower: [lower("interrupted"), lower("running", "r0b")],
      request: { supersede: true },
    });
    expect(decision).toMatchObject({ state: "wait" });
  });
});

describe("the fault limit", () => {
  test("stops a run whose lost and failed deliveries reach it together", () => {
    const decision = admit({ run: { status: "running", isNew: false, lostDeliveries: 3, failedDeliveries: 2 } });
    expect(decision).toMatchObject({ state: "refuse", code: "FAULT_LIMIT" });
    expect(decision.reason).toContain("3 lost and 2 failed");
  });

  test("lets a run go on below it", () => {
    const decision = admit({ run: { status: "running", isNew: false, lostDeliveries: 2, failedDeliveries: 2 } });
    expect(decision.state).toBe("take");
  });

  test("does not count deliveries that were deferred or handed back, however many there were", () => {
    const rows = Array.from({ length: 40 }, (_, index) => earlier("m1", index % 2 === 0 ? "deferred" : "handback"));
    expect(admit({ run: { status: "running", isNew: false }, earlier: rows }).state).toBe("take");
  });

  test("is not applied while somebody else holds the run", () => {
    const decision = admit({ run: { status: "running", isNew: false, lostDeliveries: 5 }, lease: lease("r1") });
    expect(decision.state).toBe("defer");
  });
});
