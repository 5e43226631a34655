// The meaning of a claim, pure: what it does to the row it meets, and what it is told. `migrate-tools-effects.ts` says the same in SQL.
import type { ClaimDecision, EffectClaim, EffectRow, Fence } from "./effect.ts";

/** What a claim finds: the stored row, with the nonce of whoever holds it. */
export interface ClaimedRow extends EffectRow {
  readonly nonce: string;
}

/**
 * What the claim does to the row: `own` (this very claim was answered before), `take` (it becomes the holder),
 * `park` (nobody may send again: unknown), `keep` (only `seen` grows), `stale` (the claimant lost the thread).
 */
export type ClaimStep = "own" | "take" | "park" | "keep" | "stale";

export function stepOf(row: ClaimedRow, claim: EffectClaim, nowMs: number): ClaimStep {
  if (differenceOf(row, claim) !== undefined) return "keep";
  if (isNewer(row.threadFence, claim.execution.threadFence)) return "stale";
  if (row.state !== "reserved") return "keep";
  if (row.nonce === claim.nonce) return "own";
  const expired = row.leaseUntilMs <= nowMs;
  // A holder under an older thread fence may still be sending. Only a provider that honours the key makes that harmless.
  const dethroned = isNewer(claim.execution.threadFence, row.threadFence);
  if (mayResend(row, claim, nowMs) && (expired || dethroned)) return "take";
  if (!expired) return "keep";
  // Taken in order to look it up; "absent" does not license a resend (facts: 2 executions in 12 of 12 frozen holders).
  return row.policy === "lookup" && claim.policy === "lookup" ? "take" : "park";
}

/** Does the key belong to another call, or to other arguments of this call? */
export function differenceOf(row: EffectRow, claim: EffectClaim): "owner" | "arguments" | undefined {
  const was = row.owner.assistantMessageId;
  const is = claim.owner.assistantMessageId;
  if (row.owner.tool !== claim.owner.tool) return "owner";
  if (was !== undefined && is !== undefined && was !== is) return "owner";
  return row.argsFingerprint === claim.argsFingerprint ? undefined : "arguments";
}

// Both windows must be open: a tool that was redeployed with a shorter retention, or another policy, is believed.
function mayResend(row: EffectRow, claim: EffectClaim, nowMs: number): boolean {
  if (row.policy !== "keyed" || claim.policy !== "keyed") return false;
  const retentionMs = Math.min(row.retentionMs ?? 0, claim.retentionMs ?? 0);
  return row.firstClaimAtMs + retentionMs > nowMs;
}

function isNewer(a: Fence | bigint | undefined, b: Fence | bigint | undefined): boolean {
  return a !== undefined && b !== undefined && BigInt(a) > BigInt(b);
}

/** Why a parked row is unknown, in the words that the model and the operator read. */
export const PARKED_DETAIL =
  "An earlier execution of this call ended without a recorded outcome, and nothing allows sending it again.";

/** What a claimant is told, from the row as it stands after its claim. */
export interface ClaimView {
  readonly row: Pick<
    EffectRow,
    | "state"
    | "policy"
    | "fence"
    | "holder"
    | "seen"
    | "executions"
    | "firstClaimAtMs"
    | "result"
    | "effectRef"
    | "detail"
  >;
  readonly won: boolean;
  readonly stale: boolean;
  readonly differs: "owner" | "arguments" | undefined;
  readonly leaseLeftMs: number;
}

export function decisionOf(view: ClaimView): ClaimDecision {
  const { row } = view;
  const before = { seen: row.seen, firstClaimAtMs: row.firstClaimAtMs };
  if (view.stale) return { kind: "fenced" };
  if (view.differs !== undefined) return { ...before, kind: "mismatch", differs: view.differs };
  switch (row.state) {
    case "reserved":
      if (view.won) return { ...before, kind: wonKind(row), fence: row.fence };
      return { ...before, kind: "wait", untilMs: Math.max(0, view.leaseLeftMs), holder: row.holder };
    case "done": {
      const result = row.result ?? { kind: "value", json: "null" };
      return {
        ...before,
        kind: "replay",
        result,
        ...(row.effectRef === undefined ? {} : { effectRef: row.effectRef }),
      };
    }
    case "failed":
      return { ...before, kind: "replay_failure", detail: row.detail ?? "The call failed." };
    case "unknown":
      return { ...before, kind: "unknown", detail: row.detail ?? PARKED_DETAIL };
    default:
      return row.state satisfies never;
  }
}

function wonKind(row: ClaimView["row"]): "execute" | "resend" | "reconcile" {
  if (row.executions === 1) return "execute";
  return row.policy === "lookup" ? "reconcile" : "resend";
}
