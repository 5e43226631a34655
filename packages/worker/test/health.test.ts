// Proves what the probes say, and why, from what the worker did: each reason alone, an outage that ends, a poll that hangs.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  decideLive,
  decideReady,
  HEALTH_LIMITS,
  type Health,
  type LiveEvidence,
  type ReadyEvidence,
} from "../src/health.ts";
import { LeaseWatch } from "../src/health-leases.ts";
import { type ReceiveFailure, receiveBackoffMs } from "../src/intake-failure.ts";
import { PollHealth, type PollState } from "../src/intake-poll.ts";

const WAIT_MS = 20_000;
const answered = new PollHealth(() => 0);
answered.sent();
answered.answered([]);
const FINE: PollState = answered.state();

const live = (evidence: Partial<LiveEvidence>): Health =>
  decideLive({ nowMs: 0, draining: false, poll: FINE, loopLagMs: 0, leaseOverdueMs: 0, ...evidence }, WAIT_MS);
const ready = (evidence: Partial<ReadyEvidence>): Health =>
  decideReady({ nowMs: 0, draining: false, poll: FINE, database: { state: "reachable" }, ...evidence }, WAIT_MS);

/** The poll loop of a worker on a clock of its own: what the intake tells at each change. */
class Loop {
  now = 0;
  readonly poll = new PollHealth(() => this.now);

  answer(afterMs = 0): void {
    this.poll.sent();
    this.now += afterMs;
    this.poll.answered([]);
  }

  /** @returns the wait before the next receive */
  fail(error: Error, afterMs = 0): number {
    this.poll.sent();
    this.now += afterMs;
    return this.poll.failed(error, 0.5).retryInMs;
  }

  live(): Health {
    return live({ nowMs: this.now, poll: this.poll.state() });
  }

  ready(): Health {
    return ready({ nowMs: this.now, poll: this.poll.state() });
  }
}

const named = (name: string): Error => Object.assign(new Error("no"), { name });
const STUCK = named("PollStuckError");

describe("liveness", () => {
  test("passes with nothing to say against it", () => {
    expect(live({})).toEqual({ status: "pass", reasons: [] });
  });

  test("falls when the event loop was blocked longer than probes are waited for", () => {
    expect(live({ loopLagMs: HEALTH_LIMITS.loopLagMs }).status).toBe("pass");
    expect(live({ loopLagMs: 6_100 })).toEqual({ status: "fail", reasons: ["the event loop was blocked for 6 s"] });
  });

  test("falls when a run does not let go of a lease that ended, though it was told", () => {
    expect(live({ leaseOverdueMs: HEALTH_LIMITS.leaseOverdueMs }).status).toBe("pass");
    expect(live({ leaseOverdueMs: 121_000 }).reasons).toEqual(["a run has not let go 121 s after its lease ended"]);
  });

  test("Q13: one receive that never answers is cut and forgotten; liveness falls only when it repeats", () => {
    const loop = new Loop();
    loop.answer();
    loop.fail(STUCK, WAIT_MS + 5_000);
    expect(loop.live().status).toBe("pass");
    loop.fail(STUCK, WAIT_MS + 5_000);
    expect(loop.live().status).toBe("pass");
    loop.fail(STUCK, WAIT_MS + 5_000);
    expect(loop.live().reasons).toEqual(["3 receives in a row got no answer at all and were cut"]);
    loop.answer();
    expect(loop.live().status).toBe("pass");
  });

  test("Q13: a refusal between two stuck receives says that connections live", () => {
    const loop = new Loop();
    for (const error of [STUCK, STUCK, named("ExpiredToken"), STUCK, STUCK]) loop.fail(error, 1_000);
    expect(loop.live().status).toBe("pass");
  });

  test("falls when a receive outlives the watchdog itself", () => {
    const loop = new Loop();
    loop.poll.sent();
    loop.now += WAIT_MS + HEALTH_LIMITS.pollSilentMs;
    expect(loop.live().status).toBe("pass");
    loop.now += 1_000;
    expect(loop.live().reasons).toEqual(["a receive of 20 s has been open for 81 s"]);
  });

  test("does not ask dependencies: an outage of SQS for an hour restarts nobody", () => {
    const loop = new Loop();
    for (let minute = 0; minute < 60; minute += 1) loop.fail(named("ExpiredToken"), 60_000);
    expect(loop.live().status).toBe("pass");
  });

  test("is not judged by the poll loop while draining: that has ended", () => {
    const loop = new Loop();
    for (let times = 0; times < 5; times += 1) loop.fail(STUCK);
    expect(live({ draining: true, poll: loop.poll.state() }).status).toBe("pass");
    expect(live({ draining: true, loopLagMs: 60_000 }).status).toBe("fail");
  });
});

describe("readiness", () => {
  test("passes when SQS and PostgreSQL have answered", () => {
    expect(ready({})).toEqual({ status: "pass", reasons: [] });
  });

  test("waits for the first answered receive", () => {
    const loop = new Loop();
    expect(loop.ready().reasons).toEqual(["no receive has been answered yet"]);
    loop.answer(3_000);
    expect(loop.ready().status).toBe("pass");
  });

  test("Q12: 400 ExpiredToken for 60 s: unready within seconds, ready again by itself with the first answer", () => {
    const loop = new Loop();
    loop.answer();
    const said: string[] = [];
    while (loop.now < 60_000) {
      loop.now += loop.fail(named("ExpiredToken"));
      said.push(loop.ready().reasons.join());
    }
    expect(said.slice(0, 3)).toEqual(["", "", "3 receives in a row failed, the last by auth"]);
    expect(said.slice(2).every((reason) => reason.includes("failed"))).toBe(true);
    expect(said.length).toBeLessThanOrEqual(20);
    loop.answer();
    expect(loop.ready()).toEqual({ status: "pass", reasons: [] });
  });

  test("stays through hours without a receive while all slots are busy", () => {
    const loop = new Loop();
    loop.answer();
    loop.now += 3 * 3_600_000;
    expect(loop.ready().status).toBe("pass");
  });

  test("falls when an open receive is much later than its wait time", () => {
    const loop = new Loop();
    loop.answer();
    loop.poll.sent();
    loop.now += WAIT_MS + HEALTH_LIMITS.answerMs + 1_000;
    expect(loop.ready().reasons).toEqual(["no receive has been answered for 36 s"]);
  });

  test("falls while draining, whatever else is fine, and does not blame the poll loop for having ended", () => {
    const loop = new Loop();
    for (let times = 0; times < 5; times += 1) loop.fail(STUCK);
    expect(ready({ draining: true, poll: loop.poll.state() }).reasons).toEqual(["draining"]);
  });

  test("names the database beside the queue when both are away", () => {
    const loop = new Loop();
    loop.answer();
    for (let times = 0; times < 4; times += 1) loop.fail(named("ECONNREFUSED"));
    const database = { state: "unreachable", reason: "no answer within 2000 ms" } as const;
    expect(ready({ nowMs: loop.now, poll: loop.poll.state(), database }).reasons).toEqual([
      "4 receives in a row failed, the last by network",
      "database: no answer within 2000 ms",
    ]);
  });

  test("whatever fails and for how long, the first answer makes it ready", () => {
    const failure = fc.constantFrom<ReceiveFailure>(
      "auth",
      "throttle",
      "network",
      "queue_gone",
      "kms",
      "stuck",
      "other",
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(failure, fc.nat(600_000)), { maxLength: 30 }), (failures) => {
        const loop = new Loop();
        for (const [kind, ms] of failures) {
          loop.fail(named(kind), ms);
          loop.now += receiveBackoffMs(kind, 3, 0.5);
        }
        loop.answer();
        expect(loop.ready().status).toBe("pass");
        expect(loop.live().status).toBe("pass");
      }),
    );
  });
});

describe("the watched leases", () => {
  test("the oldest age is of those in work; what let go counts no more", () => {
    const watch = new LeaseWatch();
    const first = watch.add({ deadline: 55_000 }, 0);
    watch.add({ deadline: 85_000 }, 30_000);
    expect(watch.oldestAgeMs(40_000)).toBe(40_000);
    first();
    expect(watch.oldestAgeMs(40_000)).toBe(10_000);
  });

  test("C11: a lease whose beats all failed is overdue from its deadline on, one that was renewed is not", () => {
    const watch = new LeaseWatch();
    const lease = { deadline: 55_000 };
    const done = watch.add(lease, 0);
    expect(watch.overdueMs(50_000)).toBe(0);
    lease.deadline = 75_000;
    expect(watch.overdueMs(60_000)).toBe(0);
    expect(watch.overdueMs(200_000)).toBe(125_000);
    done();
    expect(watch.overdueMs(200_000)).toBe(0);
  });
});
