// What goes into the ledger's statements and what comes out, as plain values: columns and parameters on one side, the port's types
// on the other.
import type { EffectClaim, EffectRow, EffectState, RecordedPolicy, Settlement, StoredResult } from "./effect.ts";
import type { ClaimStep, ClaimView } from "./effect-decide.ts";

export interface RawRow {
  readonly key: string;
  readonly thread_id: string;
  readonly assistant_message_id: string | null;
  readonly position: number | null;
  readonly tool: string;
  readonly tool_call_id: string;
  readonly args_fingerprint: string;
  readonly identity_fingerprint: string | null;
  readonly policy: RecordedPolicy;
  readonly retention_ms: number | null;
  readonly state: EffectState;
  readonly fence: string;
  readonly thread_fence: string | null;
  readonly holder: string;
  readonly seen: number;
  readonly executions: number;
  readonly lease_until_ms: number;
  readonly first_claim_at_ms: number;
  readonly result: string | null;
  readonly result_sha256: string | null;
  readonly result_bytes: number | null;
  readonly result_ref: string | null;
  readonly effect_ref: string | null;
  readonly detail: string | null;
  readonly evidence: string | null;
  readonly provider_request_id: string | null;
}

/** What `claim_effect` answers, as JSON. */
export type RawClaim = RawNewClaim | RawKnownClaim | { readonly step: "fenced" };

interface RawNewClaim {
  readonly step: "new";
  readonly fence: string;
  readonly firstClaimAtMs: number;
}

/** The key had a row already; this is how it stands after the claim. */
interface RawKnownClaim extends RawResult {
  readonly step: ClaimStep;
  readonly differs: "owner" | "arguments" | null;
  readonly state: EffectState;
  readonly policy: RecordedPolicy;
  readonly fence: string;
  readonly holder: string;
  readonly seen: number;
  readonly executions: number;
  readonly firstClaimAtMs: number;
  readonly leaseLeftMs: number;
  readonly effectRef: string | null;
  readonly detail: string | null;
}

// Postgres text cannot hold NUL; what is only evidence is stored with a replacement mark instead of failing (E01).
export function clean(text: string): string;
export function clean(text: string | undefined): string | null;
export function clean(text: string | undefined): string | null {
  return text === undefined ? null : text.replaceAll("\0", "\uFFFD");
}

export function claimValues(claim: EffectClaim): unknown[] {
  const { owner, execution } = claim;
  return [
    claim.key,
    owner.threadId,
    clean(owner.assistantMessageId),
    owner.position ?? null,
    clean(owner.tool),
    clean(owner.toolCallId),
    claim.argsFingerprint,
    claim.identityFingerprint ?? null,
    claim.policy,
    claim.retentionMs === undefined ? null : Math.trunc(claim.retentionMs),
    claim.nonce,
    execution.threadFence === undefined ? null : String(execution.threadFence),
    execution.fencedThreadId ?? owner.threadId,
    clean(claim.holder),
    Math.trunc(claim.leaseMs),
    clean(execution.runId),
    clean(execution.deliveryId),
    execution.receiveCount ?? null,
    execution.nodeAttempt,
  ];
}

export function settleValues(settlement: Settlement, result: StoredResult | undefined): unknown[] {
  const done = settlement.outcome === "done" ? settlement : undefined;
  const inline = result?.kind === "value" ? result.json : null;
  const large = result?.kind === "too_large" ? result : undefined;
  return [
    settlement.key,
    settlement.fence,
    settlement.outcome,
    inline,
    large?.sha256 ?? null,
    large?.bytes ?? null,
    clean(large?.ref),
    clean(done?.effectRef),
    settlement.outcome === "done" ? null : clean(settlement.detail),
    clean(settlement.evidence),
    clean(settlement.providerRequestId),
  ];
}

/** `pendingSeen`: repeats of the key that were counted and are not in its row yet. */
export function claimViewOf(raw: RawKnownClaim, pendingSeen: number): ClaimView {
  const { step, differs, leaseLeftMs } = raw;
  return {
    row: {
      state: raw.state,
      policy: raw.policy,
      fence: raw.fence,
      holder: raw.holder,
      seen: raw.seen + pendingSeen,
      executions: raw.executions,
      firstClaimAtMs: raw.firstClaimAtMs,
      ...optional("result", resultOf(raw)),
      ...optional("effectRef", raw.effectRef),
      ...optional("detail", raw.detail),
    },
    won: step === "take" || step === "own",
    stale: step === "stale",
    differs: differs ?? undefined,
    leaseLeftMs,
  };
}

export function rowOf(raw: RawRow): EffectRow {
  const result = resultOf(raw);
  return {
    key: raw.key,
    owner: {
      threadId: raw.thread_id,
      ...optional("assistantMessageId", raw.assistant_message_id),
      ...optional("position", raw.position),
      tool: raw.tool,
      toolCallId: raw.tool_call_id,
    },
    argsFingerprint: raw.args_fingerprint,
    ...optional("identityFingerprint", raw.identity_fingerprint),
    policy: raw.policy,
    ...optional("retentionMs", raw.retention_ms),
    state: raw.state,
    fence: raw.fence,
    ...optional("threadFence", raw.thread_fence),
    holder: raw.holder,
    leaseUntilMs: raw.lease_until_ms,
    firstClaimAtMs: raw.first_claim_at_ms,
    seen: raw.seen,
    executions: raw.executions,
    ...optional("result", result),
    ...optional("effectRef", raw.effect_ref),
    ...optional("detail", raw.detail),
    ...optional("evidence", raw.evidence),
    ...optional("providerRequestId", raw.provider_request_id),
  };
}

type RawResult = Pick<RawRow, "result" | "result_sha256" | "result_bytes" | "result_ref">;

function resultOf(raw: RawResult): StoredResult | null {
  if (raw.result !== null) return { kind: "value", json: raw.result };
  if (raw.result_sha256 === null || raw.result_bytes === null) return null;
  const { result_sha256: sha256, result_bytes: bytes } = raw;
  return { kind: "too_large", sha256, bytes, ...optional("ref", raw.result_ref) };
}

// exactOptionalPropertyTypes: an absent property is not the same as an undefined one.
function optional<K extends string, V>(key: K, value: V | null): { readonly [P in K]?: V } {
  // A computed key widens to string; the type above says what it is.
  return value === null ? {} : ({ [key]: value } as { [P in K]: V });
}
