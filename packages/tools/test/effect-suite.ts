// The meaning of the Ledger port, as tests: run over every implementation.

import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ClaimDecision, EffectClaim, Fence, Ledger, Settlement } from "../src/effect.ts";
import { deriveKey, fingerprintArgs } from "../src/key.ts";

export interface LedgerHarness {
  readonly ledger: Ledger;
  /** Makes every stored time this much older: leases run out and retentions pass without waiting. */
  advance(ms: number): Promise<void>;
  /** Says which fence of a thread is the current one; undefined releases the thread. */
  setThreadFence(threadId: string, fence: Fence | undefined): Promise<void>;
  /** Resolves when every claim so far is counted in its row. */
  counted(): Promise<void>;
  close(): Promise<void>;
}

export interface LedgerSuite {
  readonly open: () => Promise<LedgerHarness>;
  readonly races: number;
  readonly claimers: number;
}

const LEASE_MS = 30_000;
const DAY_MS = 86_400_000;

export function describeLedger(name: string, suite: LedgerSuite): void {
  describe(name, () => {
    let harness: LedgerHarness;
    let threadId: string;
    beforeEach(async () => {
      harness = await suite.open();
      threadId = `thread-${randomUUID()}`;
    });
    afterEach(() => harness.close());

    const claimOf = (
      changes: Partial<EffectClaim> & { threadFence?: string; deliveryId?: string } = {},
    ): EffectClaim => {
      const { threadFence, deliveryId, ...claim } = changes;
      return {
        key: deriveKey(threadId, "call-1"),
        owner: { threadId, assistantMessageId: "m1", position: 0, tool: "charge", toolCallId: "call-1" },
        argsFingerprint: fingerprintArgs({ amount: 1212 }),
        policy: "keyed",
        retentionMs: DAY_MS,
        leaseMs: LEASE_MS,
        nonce: randomUUID(),
        holder: "host:1",
        execution: {
          runId: "run-1",
          deliveryId: deliveryId ?? "delivery-1",
          receiveCount: 1,
          nodeAttempt: 1,
          ...(threadFence === undefined ? {} : { threadFence }),
        },
        ...claim,
      };
    };
    const claim = (changes?: Parameters<typeof claimOf>[0]): Promise<ClaimDecision> =>
      harness.ledger.claim(claimOf(changes));
    const won = async (changes?: Parameters<typeof claimOf>[0]): Promise<Fence> => {
      const decision = await claim(changes);
      if (!("fence" in decision)) throw new Error(`expected to win, got ${decision.kind}`);
      return decision.fence;
    };
    const done = (fence: Fence, json = '{"id":"ch_1"}'): Settlement => ({
      key: claimOf().key,
      fence,
      outcome: "done",
      result: { kind: "value", json },
      effectRef: "ch_1",
      providerRequestId: "req_1",
    });

    it("lets the first claim execute and the second wait for its lease", async () => {
      expect(await claim()).toMatchObject({ kind: "execute", seen: 1 });
      const second = await claim();
      expect(second).toMatchObject({ kind: "wait", seen: 2, holder: "host:1" });
      expect(second.kind === "wait" && second.untilMs).toBeGreaterThan(LEASE_MS - 5_000);
    });

    it("replays a settled effect and counts how often it was seen", async () => {
      const fence = await won();
      expect(await harness.ledger.settle(done(fence))).toEqual({ recorded: true });
      expect(await claim()).toMatchObject({
        kind: "replay",
        seen: 2,
        effectRef: "ch_1",
        result: { kind: "value", json: '{"id":"ch_1"}' },
      });
      expect(await harness.ledger.find(claimOf().key)).toMatchObject({
        state: "done",
        executions: 1,
        providerRequestId: "req_1",
        owner: { threadId, assistantMessageId: "m1", position: 0, tool: "charge", toolCallId: "call-1" },
      });
    });

    it("replays a failure as a failure, and the key rotates never by itself (G02)", async () => {
      const fence = await won();
      await harness.ledger.settle({ key: claimOf().key, fence, outcome: "failed", detail: "card declined" });
      expect(await claim()).toMatchObject({ kind: "replay_failure", detail: "card declined" });
      expect((await harness.ledger.find(claimOf().key))?.executions).toBe(1);
    });

    it("keeps an unknown outcome unknown for every later claim (G02)", async () => {
      const fence = await won();
      await harness.ledger.settle({ key: claimOf().key, fence, outcome: "unknown", detail: "timed out" });
      await harness.advance(LEASE_MS + 1);
      expect(await claim()).toMatchObject({ kind: "unknown", detail: "timed out" });
    });

    it("answers the same nonce again with the same decision, so a lost reply is harmless", async () => {
      const nonce = randomUUID();
      const first = await claim({ nonce });
      expect(await claim({ nonce })).toEqual(first);
      await harness.advance(LEASE_MS + 1);
      const taken = randomUUID();
      const second = await claim({ nonce: taken });
      expect(second.kind).toBe("resend");
      expect(await claim({ nonce: taken })).toEqual(second);
      expect(await claim({ nonce })).toMatchObject({ kind: "wait" });
    });

    it("lets a keyed call be sent again after the lease, inside the retention (B13)", async () => {
      const first = await won();
      await harness.advance(LEASE_MS + 1);
      const decision = await claim();
      expect(decision).toMatchObject({ kind: "resend", seen: 2 });
      expect("fence" in decision && decision.fence).not.toBe(first);
      expect((await harness.ledger.find(claimOf().key))?.executions).toBe(2);
    });

    it("never sends a keyed call again past its retention", async () => {
      await won();
      await harness.advance(DAY_MS + 1);
      expect(await claim()).toMatchObject({ kind: "unknown" });
      expect(await harness.ledger.find(claimOf().key)).toMatchObject({ state: "unknown", executions: 1 });
    });

    it("never sends a keyed call again when the retention is not known, by the row or by the claim", async () => {
      const { retentionMs: _unknown, ...claimWithout } = claimOf();
      await harness.ledger.claim(claimWithout);
      await harness.advance(LEASE_MS + 1);
      expect(await claim()).toMatchObject({ kind: "unknown" });
      const other = { key: deriveKey(threadId, "call-2") };
      await won(other);
      await harness.advance(LEASE_MS + 1);
      expect(await harness.ledger.claim({ ...claimWithout, ...other, nonce: randomUUID() })).toMatchObject({
        kind: "unknown",
      });
    });

    it("sends a lookup call to reconcile after the lease, and a once call to unknown (B13)", async () => {
      const lookup = { key: deriveKey(threadId, "lookup"), policy: "lookup" } as const;
      const once = { key: deriveKey(threadId, "once"), policy: "once" } as const;
      await won(lookup);
      await won(once);
      expect(await claim(lookup)).toMatchObject({ kind: "wait" });
      expect(await claim(once)).toMatchObject({ kind: "wait" });
      await harness.advance(LEASE_MS + 1);
      expect(await claim(lookup)).toMatchObject({ kind: "reconcile" });
      expect(await claim(once)).toMatchObject({ kind: "unknown" });
    });

    it("parks a row whose tool changed its policy since", async () => {
      await won({ policy: "once" });
      await harness.advance(LEASE_MS + 1);
      expect(await claim({ policy: "keyed" })).toMatchObject({ kind: "unknown" });
    });

    it("resends a keyed row of an older thread fence at once, and lets the other policies wait", async () => {
      const lookup = { key: deriveKey(threadId, "lookup"), policy: "lookup" } as const;
      const once = { key: deriveKey(threadId, "once"), policy: "once" } as const;
      await harness.setThreadFence(threadId, "7");
      for (const changes of [{}, lookup, once]) await won({ ...changes, threadFence: "7" });
      await harness.setThreadFence(threadId, "10");
      expect(await claim({ threadFence: "10" })).toMatchObject({ kind: "resend" });
      expect(await claim({ ...lookup, threadFence: "10" })).toMatchObject({ kind: "wait" });
      expect(await claim({ ...once, threadFence: "10" })).toMatchObject({ kind: "wait" });
      await harness.advance(LEASE_MS + 1);
      expect(await claim({ ...lookup, threadFence: "10" })).toMatchObject({ kind: "reconcile" });
      expect(await claim({ ...once, threadFence: "10" })).toMatchObject({ kind: "unknown" });
    });

    it("waits at once-only distance under an older fence when the retention has passed", async () => {
      await harness.setThreadFence(threadId, "1");
      await won({ threadFence: "1", retentionMs: 1, leaseMs: LEASE_MS });
      await harness.advance(2);
      await harness.setThreadFence(threadId, "2");
      expect(await claim({ threadFence: "2", retentionMs: 1 })).toMatchObject({ kind: "wait" });
    });

    it("does not resend under the same thread fence while the lease runs", async () => {
      await harness.setThreadFence(threadId, "3");
      await won({ threadFence: "3" });
      expect(await claim({ threadFence: "3" })).toMatchObject({ kind: "wait" });
    });

    it("refuses a claimant whose thread fence is not the current one, and writes nothing", async () => {
      await harness.setThreadFence(threadId, "5");
      expect(await claim({ threadFence: "4" })).toEqual({ kind: "fenced" });
      expect(await harness.ledger.find(claimOf().key)).toBeUndefined();
    });

    it("refuses a settlement with a stale fence as late, and keeps the newer truth", async () => {
      const stale = await won();
      await harness.advance(LEASE_MS + 1);
      const fresh = await won();
      expect(await harness.ledger.settle(done(stale, '"stale"'))).toEqual({ recorded: false, late: true });
      expect(await harness.ledger.settle(done(fresh, '"fresh"'))).toEqual({ recorded: true });
      expect(await claim()).toMatchObject({ kind: "replay", result: { json: '"fresh"' } });
    });

    it("lets a slow holder settle its own parked row", async () => {
      const fence = await won({ policy: "once" });
      await harness.advance(LEASE_MS + 1);
      expect(await claim({ policy: "once" })).toMatchObject({ kind: "unknown" });
      expect(await harness.ledger.settle(done(fence))).toEqual({ recorded: true });
      expect(await claim({ policy: "once" })).toMatchObject({ kind: "replay" });
    });

    it("records the same settlement twice as once, and refuses another one", async () => {
      const fence = await won();
      await harness.ledger.settle(done(fence));
      expect(await harness.ledger.settle(done(fence))).toEqual({ recorded: true });
      const failed: Settlement = { key: claimOf().key, fence, outcome: "failed", detail: "no" };
      expect(await harness.ledger.settle(failed)).toEqual({ recorded: false, late: true });
      expect(await claim()).toMatchObject({ kind: "replay" });
    });

    it("answers a settlement for a key nobody claimed as late", async () => {
      expect(await harness.ledger.settle(done("1"))).toEqual({ recorded: false, late: true });
    });

    it("refuses the same key with other arguments, and leaves the row alone (G01)", async () => {
      await won();
      const edited = { argsFingerprint: fingerprintArgs({ amount: 1300 }) };
      expect(await claim(edited)).toMatchObject({ kind: "mismatch", differs: "arguments" });
      await harness.advance(LEASE_MS + 1);
      expect(await claim(edited)).toMatchObject({ kind: "mismatch", differs: "arguments" });
      expect(await claim()).toMatchObject({ kind: "resend" });
    });

    it("refuses a key that another message's call owns, even with equal arguments (A16)", async () => {
      const fence = await won();
      await harness.ledger.settle(done(fence));
      const { owner } = claimOf();
      expect(await claim({ owner: { ...owner, assistantMessageId: "m2" } })).toMatchObject({
        kind: "mismatch",
        differs: "owner",
      });
      expect(await claim({ owner: { ...owner, tool: "refund" } })).toMatchObject({
        kind: "mismatch",
        differs: "owner",
      });
    });

    it("replays when only the position moved, or when the message is not known (human review reorders calls)", async () => {
      const fence = await won();
      await harness.ledger.settle(done(fence));
      const { assistantMessageId: _gone, ...owner } = claimOf().owner;
      expect(await claim({ owner: { ...claimOf().owner, position: 3 } })).toMatchObject({ kind: "replay" });
      expect(await claim({ owner })).toMatchObject({ kind: "replay" });
    });

    it("keeps NUL and lone surrogates of a result, and cleans them in details (E01)", async () => {
      const fence = await won();
      const json = JSON.stringify({ text: "a\0b\uD800c" });
      await harness.ledger.settle(done(fence, json));
      expect(await claim()).toMatchObject({ kind: "replay", result: { json } });
      const other = { key: deriveKey(threadId, "nul") };
      const second = await won(other);
      const failed = { ...other, fence: second, outcome: "failed", detail: "x\0y" } as const;
      expect(await harness.ledger.settle(failed)).toEqual({ recorded: true });
    });

    it("settles a result that is too large to keep, and says so on replay", async () => {
      const fence = await won();
      const result = { kind: "too_large", sha256: "ab", bytes: 70_000 } as const;
      await harness.ledger.settle({ key: claimOf().key, fence, outcome: "done", result });
      expect(await claim()).toMatchObject({ kind: "replay", result });
    });

    it("takes a lease of zero or less as run out already", async () => {
      await won({ leaseMs: 0 });
      expect(await claim({ leaseMs: -5 })).toMatchObject({ kind: "resend" });
      expect(await claim()).toMatchObject({ kind: "resend" });
    });

    it("lists what a delivery left open, first and later executions alike, and nothing that ended", async () => {
      const [d1, d2] = [randomUUID(), randomUUID()];
      await won({ deliveryId: d1 });
      const other = { key: deriveKey(threadId, "call-2") };
      const ended = await won({ ...other, deliveryId: d1 });
      await harness.ledger.settle({ ...done(ended), ...other });
      expect(await harness.ledger.openExecutions(d1)).toMatchObject([
        { tool: "charge", toolCallId: "call-1", policy: "keyed", nodeAttempt: 1, threadId },
      ]);
      await harness.advance(LEASE_MS + 1);
      const second = await won({ deliveryId: d2 });
      expect(await harness.ledger.openExecutions(d2)).toMatchObject([{ fence: second }]);
      await harness.ledger.settle(done(second));
      expect(await harness.ledger.openExecutions(d2)).toEqual([]);
      expect(await harness.ledger.openExecutions(d1)).toHaveLength(1);
    });

    it("ends an open execution by its late completion", async () => {
      const [d1, d2] = [randomUUID(), randomUUID()];
      const first = await won({ deliveryId: d1 });
      await harness.advance(LEASE_MS + 1);
      await won({ deliveryId: d2 });
      await harness.ledger.settle(done(first));
      expect(await harness.ledger.openExecutions(d1)).toEqual([]);
    });

    it("withdraws an untouched first claim, and nothing else", async () => {
      const key = claimOf().key;
      const fence = await won();
      expect(await harness.ledger.release({ key, fence })).toEqual({ released: true });
      const again = await won();
      expect(await harness.ledger.release({ key, fence })).toEqual({ released: false });
      await harness.advance(LEASE_MS + 1);
      const second = await won();
      expect(await harness.ledger.release({ key, fence: again })).toEqual({ released: false });
      expect(await harness.ledger.release({ key, fence: second })).toEqual({ released: false });
    });

    it(`gives exactly one of ${suite.claimers} claimers the execution, ${suite.races} times`, async () => {
      for (let race = 0; race < suite.races; race += 1) {
        const key = deriveKey(threadId, `race-${race}`);
        const decisions = await Promise.all(Array.from({ length: suite.claimers }, () => claim({ key })));
        const kinds = decisions.map((decision) => decision.kind);
        expect(kinds.filter((kind) => kind === "execute")).toHaveLength(1);
        expect(kinds.filter((kind) => kind === "wait")).toHaveLength(suite.claimers - 1);
        await harness.counted();
        expect(await harness.ledger.find(key)).toMatchObject({ seen: suite.claimers, executions: 1 });
      }
    });

    it("gives exactly one claimer the resend of a row whose lease ran out, time after time", async () => {
      for (let race = 0; race < 40; race += 1) {
        const key = deriveKey(threadId, `lost-${race}`);
        await won({ key, leaseMs: 0 });
        const decisions = await Promise.all(Array.from({ length: suite.claimers }, () => claim({ key })));
        expect(decisions.filter((decision) => decision.kind === "resend")).toHaveLength(1);
        expect((await harness.ledger.find(key))?.executions).toBe(2);
      }
    });

    describe("finding the call that a fresh one repeats", () => {
      const earlier = async (
        callId: string,
        outcome: "unknown" | "done" | "failed" | "open",
        changes: Parameters<typeof claimOf>[0] & { readonly messageId?: string; readonly tool?: string } = {},
      ): Promise<void> => {
        const { messageId = `m-${callId}`, tool = "charge", ...rest } = changes;
        const owner = { threadId, assistantMessageId: messageId, tool, toolCallId: callId };
        const key = deriveKey(threadId, callId);
        const fence = await won({ key, owner, ...rest });
        if (outcome === "open") return;
        const settlement = outcome === "done" ? { ...done(fence), key } : { key, fence, outcome, detail: "-" };
        await harness.ledger.settle(settlement);
      };
      const echo = (assistantMessageId?: string) => {
        const { argsFingerprint, owner } = claimOf();
        const { assistantMessageId: _own, ...rest } = owner;
        return harness.ledger.findEcho({
          key: deriveKey(threadId, "fresh"),
          argsFingerprint,
          owner: { ...rest, toolCallId: "fresh", ...(assistantMessageId === undefined ? {} : { assistantMessageId }) },
        });
      };

      it("names an equal call that ended unknown (B11)", async () => {
        await earlier("call-a", "unknown");
        expect(await echo("m-fresh")).toEqual({ toolCallId: "call-a", after: "unknown" });
        expect(await echo()).toEqual({ toolCallId: "call-a", after: "unknown" });
      });

      it("names an equal call that was done, apart from an unknown one (A16)", async () => {
        await earlier("call-a", "done");
        expect(await echo("m-fresh")).toEqual({ toolCallId: "call-a", after: "done" });
      });

      it("goes by the identity that the tool declared: a reworded memo is the same wish, another amount is not (B11)", async () => {
        const identity = (amount: number) => ({ identityFingerprint: fingerprintArgs({ amount }) });
        const reworded = (memo: string) => ({ argsFingerprint: fingerprintArgs({ amount: 5, memo }) });
        await earlier("call-a", "unknown", { ...reworded("rent"), ...identity(5) });
        await earlier("call-b", "unknown", { ...reworded("rent"), ...identity(6) });
        const query = {
          key: deriveKey(threadId, "fresh"),
          owner: { threadId, assistantMessageId: "m-fresh", tool: "charge", toolCallId: "fresh" },
          ...reworded("the rent"),
        };
        const echo = { toolCallId: "call-a", after: "unknown" };
        expect(await harness.ledger.findEcho({ ...query, ...identity(5) })).toEqual(echo);
        expect(await harness.ledger.findEcho(query)).toBeUndefined();
      });

      it("takes the newest, unknown ones first", async () => {
        for (const id of ["call-a", "call-b"]) await earlier(id, "unknown");
        for (const id of ["call-c", "call-d"]) await earlier(id, "done");
        expect(await echo("m-fresh")).toEqual({ toolCallId: "call-b", after: "unknown" });
      });

      it("takes the newest of those that were done", async () => {
        for (const id of ["call-a", "call-b"]) await earlier(id, "done");
        expect(await echo("m-fresh")).toEqual({ toolCallId: "call-b", after: "done" });
      });

      it("finds nothing in failed or open calls, other arguments, tools or threads, the same message, or itself", async () => {
        await earlier("call-a", "failed");
        await earlier("call-b", "open");
        await earlier("call-c", "unknown", { argsFingerprint: fingerprintArgs({ amount: 1 }) });
        await earlier("call-d", "unknown", { tool: "refund" });
        await earlier("call-e", "unknown", { messageId: "m-fresh" });
        await earlier("fresh", "unknown");
        const elsewhere = threadId;
        threadId = `thread-${randomUUID()}`;
        await earlier("call-f", "unknown");
        threadId = elsewhere;
        expect(await echo("m-fresh")).toBeUndefined();
      });
    });
  });
}
