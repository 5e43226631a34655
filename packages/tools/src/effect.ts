// Step 5 of 5 - effect: what one tool call did outside, under its key; the types and the ledger port.

/** How often a call may be sent, and what resolves an outcome nobody saw. `none` never reaches the ledger. */
export type EffectPolicy = "none" | "keyed" | "lookup" | "once";

/** The policies that the ledger records. */
export type RecordedPolicy = Exclude<EffectPolicy, "none">;

/** A fence as decimal text: a Postgres bigint that outlives JSON and JavaScript's 2^53. */
export type Fence = string;

/** The call that owns a key. A hit by another owner is a mismatch, not a replay (A01, A16). */
export interface EffectOwner {
  readonly threadId: string;
  /** Absent when the task's input did not carry the assistant message; then it is not compared. */
  readonly assistantMessageId?: string;
  /** Place in the assistant message. Evidence only: human review reorders calls, so it is never matched on. */
  readonly position?: number;
  readonly tool: string;
  readonly toolCallId: string;
}

/** Which execution asks: evidence for the diagnosis, plus the thread fence that the claim checks. */
export interface ExecutionEvidence {
  readonly runId: string;
  readonly deliveryId: string;
  readonly receiveCount?: number;
  /** LangGraph's count, 1-based, restarts in every process. */
  readonly nodeAttempt: number;
  /** The holder's fence on the thread. Absent when nobody leases threads (standalone use). */
  readonly threadFence?: bigint | string;
  /** The thread that fence is of, when a subagent works on a thread of its own. Default: the owner's thread. */
  readonly fencedThreadId?: string;
}

export interface EffectClaim {
  /** From `deriveKey`: 32 hex digits. */
  readonly key: string;
  readonly owner: EffectOwner;
  /** Hash of the model's arguments in canonical JSON, never of the built request (G03). */
  readonly argsFingerprint: string;
  /** Hash of what makes two calls the same wish, where the tool says so; else the arguments are that. For echoes only. */
  readonly identityFingerprint?: string;
  readonly policy: RecordedPolicy;
  /** How long the provider honours the key, from the first claim. Absent means unknown: then nothing is re-sent by itself. */
  readonly retentionMs?: number;
  /** How long others wait for this holder: tool timeout plus a margin. */
  readonly leaseMs: number;
  /** Fresh per dispatch. The same nonce again gets the same answer, so a lost database reply is harmless. */
  readonly nonce: string;
  /** Who holds the claim, for people: host and process. */
  readonly holder: string;
  readonly execution: ExecutionEvidence;
}

export type EffectState = "reserved" | "done" | "failed" | "unknown";

/**
 * What a ledger kept of a result. Larger ones are known by hash and length, and by their name in the run's result store where it
 * has one; the row is settled all the same.
 */
export type StoredResult =
  | { readonly kind: "value"; readonly json: string }
  | {
      readonly kind: "too_large";
      readonly sha256: string;
      readonly bytes: number;
      /** Its name in the ledger's result store. */
      readonly ref?: string;
      /** The whole text, on its way to the ledger. Never in a row, and never in an answer of the ledger. */
      readonly json?: string;
    };

interface SeenBefore {
  /**
   * How often the key was claimed, this time included. Repeats that change nothing are counted in memory and written a moment
   * later, so other processes may see fewer, never more; the repeats of the last moment of a process that dies are not counted.
   */
  readonly seen: number;
  readonly firstClaimAtMs: number;
}

/** A claim that was won: only these three may touch the world, and they settle with `fence`. */
export type WonDecision = SeenBefore & {
  readonly kind: "execute" | "resend" | "reconcile";
  readonly fence: Fence;
};

export type ClaimDecision =
  | WonDecision
  | (SeenBefore & { readonly kind: "replay"; readonly result: StoredResult; readonly effectRef?: string })
  | (SeenBefore & { readonly kind: "replay_failure"; readonly detail: string })
  /** Another holder is at it; its lease runs for `untilMs` more milliseconds. */
  | (SeenBefore & { readonly kind: "wait"; readonly untilMs: number; readonly holder: string })
  | (SeenBefore & { readonly kind: "unknown"; readonly detail: string })
  /** The key belongs to another call (`owner`), or to other arguments of this one (`arguments`, G01). */
  | (SeenBefore & { readonly kind: "mismatch"; readonly differs: "owner" | "arguments" })
  /** The claimant no longer owns the thread: nothing was written. */
  | { readonly kind: "fenced" };

/** How an execution ended. `fence` is the one its claim was given. */
export type Settlement = {
  readonly key: string;
  readonly fence: Fence;
  readonly providerRequestId?: string;
  /** Why this is known when not by the execution itself: what a lookup found, or what an operator saw. */
  readonly evidence?: string;
} & (
  | { readonly outcome: "done"; readonly result: StoredResult; readonly effectRef?: string }
  | { readonly outcome: "failed" | "unknown"; readonly detail: string }
);

/** `late`: another execution has taken over or settled since. Kept as proof of two executions, never applied. */
export type SettleAnswer = { readonly recorded: true } | { readonly recorded: false; readonly late: true };

export interface EffectRow {
  readonly key: string;
  readonly owner: EffectOwner;
  readonly argsFingerprint: string;
  readonly identityFingerprint?: string;
  readonly policy: RecordedPolicy;
  readonly retentionMs?: number;
  readonly state: EffectState;
  readonly fence: Fence;
  readonly threadFence?: Fence;
  readonly holder: string;
  readonly leaseUntilMs: number;
  readonly firstClaimAtMs: number;
  readonly seen: number;
  /** Claims won so far, first included; a reconcile counts. */
  readonly executions: number;
  readonly result?: StoredResult;
  readonly effectRef?: string;
  readonly detail?: string;
  readonly evidence?: string;
  readonly providerRequestId?: string;
}

/** An execution that its delivery never ended: what an obituary shows. */
export interface OpenExecution {
  readonly key: string;
  readonly fence: Fence;
  readonly threadId: string;
  readonly tool: string;
  readonly toolCallId: string;
  readonly policy: RecordedPolicy;
  readonly startedAtMs: number;
  readonly nodeAttempt: number;
}

/** Which earlier call a fresh one repeats. */
export interface EchoQuery {
  /** The fresh call's own key: never an echo of itself. */
  readonly key: string;
  readonly owner: EffectOwner;
  readonly argsFingerprint: string;
  readonly identityFingerprint?: string;
}

/** An earlier call of the same tool with the same arguments, or the same identity, on the same thread, from another message of the model. */
export interface Echo {
  readonly toolCallId: string;
  /** After `unknown` the model most likely asks for the same thing again; after `done` it may well be a second wish (A16). */
  readonly after: "unknown" | "done";
}

/**
 * The port. `test/effect-suite.ts` defines its meaning for every implementation.
 * Methods reject only when the store cannot be reached; every decision is a value.
 */
export interface Ledger {
  /** One round trip, always answered: see ClaimDecision. Safe to repeat with the same nonce. */
  claim(claim: EffectClaim): Promise<ClaimDecision>;
  /** Fenced, and safe to repeat: the same settlement twice is recorded once. */
  settle(settlement: Settlement): Promise<SettleAnswer>;
  /**
   * Withdraws a first claim whose body paused for a human before it touched the world, so that the resumed body may run.
   * Refused (`false`) once anybody else has claimed, or when this was not the first execution.
   */
  release(claim: { readonly key: string; readonly fence: Fence }): Promise<{ readonly released: boolean }>;
  find(key: string): Promise<EffectRow | undefined>;
  /** The newest earlier call that this one repeats, unknown ones first. Evidence for people; it decides nothing. */
  findEcho(query: EchoQuery): Promise<Echo | undefined>;
  /** Executions that a delivery opened and nobody ended. */
  openExecutions(deliveryId: string): Promise<readonly OpenExecution[]>;
}
