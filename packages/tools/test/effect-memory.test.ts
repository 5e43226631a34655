// The memory ledger: the shared meaning, and its bound.

import { describe, expect, it } from "vitest";
import type { EffectClaim } from "../src/effect.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { describeLedger } from "./effect-suite.ts";

describeLedger("the memory ledger", {
  races: 20,
  claimers: 20,
  open: async () => {
    let nowMs = 1_000_000;
    const fences = new Map<string, string>();
    return {
      ledger: new MemoryLedger({ now: () => nowMs, currentFence: (threadId) => fences.get(threadId) }),
      advance: async (ms) => {
        nowMs += ms;
      },
      setThreadFence: async (threadId, fence) => {
        if (fence === undefined) fences.delete(threadId);
        else fences.set(threadId, fence);
      },
      counted: async () => undefined,
      close: async () => undefined,
    };
  },
});

describe("the bound of the memory ledger", () => {
  const claim = (key: string): EffectClaim => ({
    key,
    owner: { threadId: "t", tool: "pay", toolCallId: key },
    argsFingerprint: "f",
    policy: "once",
    leaseMs: 1_000,
    nonce: key,
    holder: "h",
    execution: { runId: "r", deliveryId: "d", nodeAttempt: 1 },
  });

  it("drops settled rows, oldest first, and counts them", async () => {
    const ledger = new MemoryLedger({ rowsMax: 2 });
    for (const key of ["a", "b"]) {
      const decision = await ledger.claim(claim(key));
      if ("fence" in decision) await ledger.settle({ key, fence: decision.fence, outcome: "failed", detail: "no" });
    }
    await ledger.claim(claim("c"));
    expect(await ledger.find("a")).toBeUndefined();
    expect(await ledger.find("b")).toBeDefined();
    expect(ledger.dropped).toBe(1);
  });

  it("never drops an open row: it refuses with LEDGER_FULL instead", async () => {
    const ledger = new MemoryLedger({ rowsMax: 1 });
    await ledger.claim(claim("a"));
    await expect(ledger.claim(claim("b"))).rejects.toMatchObject({ code: "LEDGER_FULL" });
  });
});
