// Waiting for another holder: polled on an injected clock, bounded, stopped with the run.

import { describe, expect, it } from "vitest";
import type { Clock } from "../src/dispatch-body.ts";
import { claimOrWait } from "../src/dispatch-claim.ts";
import type { EffectClaim } from "../src/effect.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { storeResult } from "../src/effect-result.ts";
import { RunAborted } from "../src/errors.ts";

function clockAt(startMs: number, onSleep: (nowMs: number) => Promise<void> = async () => undefined) {
  const slept: number[] = [];
  let nowMs = startMs;
  const clock: Clock = {
    now: () => nowMs,
    sleep: async (ms) => {
      slept.push(ms);
      nowMs += ms;
      await onSleep(nowMs);
    },
  };
  return { clock, slept };
}

const claim: EffectClaim = {
  key: "k",
  owner: { threadId: "t", tool: "pay", toolCallId: "c" },
  argsFingerprint: "f",
  policy: "once",
  leaseMs: 1_000,
  nonce: "mine",
  holder: "me",
  execution: { runId: "r", deliveryId: "d", nodeAttempt: 1 },
};

describe("claimOrWait", () => {
  it("waits while another holder works and replays what it did (B01)", async () => {
    let settle = async (): Promise<void> => undefined;
    const { clock, slept } = clockAt(0, async (nowMs) => (nowMs >= 600 ? settle() : undefined));
    const ledger = new MemoryLedger({ now: clock.now });
    const other = await ledger.claim({ ...claim, nonce: "other" });
    settle = async () => {
      if ("fence" in other)
        await ledger.settle({ key: "k", fence: other.fence, outcome: "done", result: storeResult(1) });
    };
    const decision = await claimOrWait(ledger, claim, {
      clock,
      waitMaxMs: 10_000,
      pollMs: 250,
      check: () => undefined,
    });
    expect(decision.kind).toBe("replay");
    expect(slept).toEqual([250, 250, 250]);
  });

  it("looks again right after the other's lease, not a poll later", async () => {
    const { clock, slept } = clockAt(0);
    const ledger = new MemoryLedger({ now: clock.now });
    await ledger.claim({ ...claim, nonce: "other", leaseMs: 300 });
    const decision = await claimOrWait(ledger, claim, {
      clock,
      waitMaxMs: 10_000,
      pollMs: 250,
      check: () => undefined,
    });
    expect(decision.kind).toBe("unknown");
    expect(slept).toEqual([250, 51]);
  });

  it("gives up at its bound and says who is still running", async () => {
    const { clock } = clockAt(0);
    const ledger = new MemoryLedger({ now: clock.now });
    await ledger.claim({ ...claim, nonce: "other", holder: "host:9", leaseMs: 60_000 });
    const decision = await claimOrWait(ledger, claim, { clock, waitMaxMs: 1_000, pollMs: 250, check: () => undefined });
    expect(decision).toMatchObject({ kind: "still_running", holder: "host:9" });
    expect(clock.now()).toBe(1_000);
  });

  it("stops waiting when the run stops", async () => {
    const { clock } = clockAt(0);
    const ledger = new MemoryLedger({ now: clock.now });
    await ledger.claim({ ...claim, nonce: "other", leaseMs: 60_000 });
    const check = (): void => {
      if (clock.now() > 500) throw new RunAborted("t", "pay");
    };
    await expect(claimOrWait(ledger, claim, { clock, waitMaxMs: 10_000, pollMs: 250, check })).rejects.toMatchObject({
      code: "RUN_ABORTED",
    });
  });
});
