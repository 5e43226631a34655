// The effect ledger in Postgres: one round trip a claim, one a settlement, all times on the server's clock.
import type {
  ClaimDecision,
  Echo,
  EchoQuery,
  EffectClaim,
  EffectRow,
  EffectState,
  Fence,
  Ledger,
  OpenExecution,
  RecordedPolicy,
  SettleAnswer,
  Settlement,
  StoredResult,
} from "./effect.ts";
import { type ClaimStep, type ClaimView, decisionOf } from "./effect-decide.ts";
import { getLarge, putLarge, type ResultStore } from "./effect-result-store.ts";
import { SeenCounts } from "./effect-seen.ts";
import {
  CLAIM_SQL,
  COUNT_SEEN_SQL,
  FIND_ECHO_SQL,
  FIND_SQL,
  OPEN_EXECUTIONS_SQL,
  RELEASE_SQL,
  SETTLE_SQL,
} from "./effect-sql.ts";
import type { Queryable } from "./fence.ts";

interface RawRow {
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

/** The out parameters of `claim_effect`. Only `r_step` is always there; the holder's are null when the row is the claimant's new one. */
interface RawClaim {
  readonly r_step: ClaimStep | "fenced";
  readonly r_differs: "owner" | "arguments" | null;
  readonly r_state: EffectState;
  readonly r_policy: RecordedPolicy;
  readonly r_fence: string;
  readonly r_holder: string | null;
  readonly r_seen: number;
  readonly r_executions: number;
  readonly r_first_claim_at_ms: number;
  readonly r_lease_left_ms: number | null;
  readonly r_result: string | null;
  readonly r_sha256: string | null;
  readonly r_bytes: number | null;
  readonly r_ref: string | null;
  readonly r_effect_ref: string | null;
  readonly r_detail: string | null;
}

interface RawEcho {
  readonly tool_call_id: string;
  readonly state: Echo["after"];
}

interface RawOpenExecution {
  readonly key: string;
  readonly fence: string;
  readonly thread_id: string;
  readonly tool: string;
  readonly tool_call_id: string;
  readonly policy: RecordedPolicy;
  readonly node_attempt: number;
  readonly started_at_ms: number;
}

export interface PostgresLedgerOptions {
  /** How long repeats that changed nothing are counted in memory before they are written together. Default 200 ms. */
  readonly countMs?: number;
  /** Keeps results above 64 KB, so that they can be replayed. Default none: then a replay says that the value is gone. */
  readonly results?: ResultStore;
}

/**
 * Needs `toolsMigrations`. Give it a pool, not a client inside a transaction: a claim must be committed when it returns,
 * with synchronous_commit on.
 */
export class PostgresLedger implements Ledger {
  readonly #db: Queryable;
  readonly #seen: SeenCounts;
  readonly #results: ResultStore | undefined;

  constructor(db: Queryable, options: PostgresLedgerOptions = {}) {
    this.#db = db;
    this.#results = options.results;
    const write = async (keys: readonly string[], counts: readonly number[]): Promise<void> => {
      await db.query(COUNT_SEEN_SQL, [keys, counts]);
    };
    this.#seen = new SeenCounts({ write, ...(options.countMs === undefined ? {} : { delayMs: options.countMs }) });
  }

  /** Repeats that were never written to `seen`: beyond the bound, or the database did not take them. */
  get seenDropped(): number {
    return this.#seen.dropped;
  }

  /** Writes the repeats that were counted in memory. Without it they are written `countMs` later. */
  async flush(): Promise<void> {
    await this.#seen.flush();
  }

  async claim(claim: EffectClaim): Promise<ClaimDecision> {
    const raw = await first<RawClaim>(this.#db, CLAIM_SQL, claimValues(claim));
    if (raw === undefined || raw.r_step === "fenced") return { kind: "fenced" };
    const step = raw.r_step;
    if (step === "keep") this.#seen.add(claim.key);
    const row = claimedRowOf(raw, claim.holder);
    const decision = decisionOf({
      row: { ...row, seen: row.seen + this.#seen.pending(claim.key) },
      won: step === "take" || step === "own",
      stale: step === "stale",
      differs: raw.r_differs ?? undefined,
      leaseLeftMs: raw.r_lease_left_ms ?? claim.leaseMs,
    });
    if (decision.kind !== "replay") return decision;
    return { ...decision, result: await getLarge(this.#results, decision.result) };
  }

  async settle(settlement: Settlement): Promise<SettleAnswer> {
    const result = settlement.outcome === "done" ? await this.#stored(settlement.key, settlement.result) : undefined;
    const raw = await first<{ readonly recorded: boolean }>(this.#db, SETTLE_SQL, settleValues(settlement, result));
    return raw?.recorded === true ? { recorded: true } : { recorded: false, late: true };
  }

  #stored(key: string, result: StoredResult): Promise<StoredResult> | StoredResult {
    return result.kind === "value" ? result : putLarge(this.#results, key, result);
  }

  async release(claim: { readonly key: string; readonly fence: Fence }): Promise<{ readonly released: boolean }> {
    const raw = await first<{ readonly key: string }>(this.#db, RELEASE_SQL, [claim.key, claim.fence]);
    return { released: raw !== undefined };
  }

  async find(key: string): Promise<EffectRow | undefined> {
    const raw = await first<RawRow>(this.#db, FIND_SQL, [key]);
    if (raw === undefined) return undefined;
    const row = rowOf(raw);
    const result = row.result && (await getLarge(this.#results, row.result));
    return { ...row, ...(result === undefined ? {} : { result }), seen: row.seen + this.#seen.pending(key) };
  }

  async findEcho({ key, owner, argsFingerprint, identityFingerprint }: EchoQuery): Promise<Echo | undefined> {
    const fingerprint = identityFingerprint ?? argsFingerprint;
    const values = [owner.threadId, clean(owner.tool), fingerprint, key, clean(owner.assistantMessageId)];
    const raw = await first<RawEcho>(this.#db, FIND_ECHO_SQL, values);
    return raw && { toolCallId: raw.tool_call_id, after: raw.state };
  }

  async openExecutions(deliveryId: string): Promise<readonly OpenExecution[]> {
    const answer = await this.#db.query(OPEN_EXECUTIONS_SQL, [deliveryId]);
    // The shape is the select list of the statement.
    return (answer.rows as unknown as readonly RawOpenExecution[]).map((raw) => ({
      key: raw.key,
      fence: raw.fence,
      threadId: raw.thread_id,
      tool: raw.tool,
      toolCallId: raw.tool_call_id,
      policy: raw.policy,
      startedAtMs: raw.started_at_ms,
      nodeAttempt: raw.node_attempt,
    }));
  }
}

async function first<Row>(db: Queryable, text: string, values: unknown[]): Promise<Row | undefined> {
  const answer = await db.query(text, values);
  // The caller names the row shape next to the statement it sends; pg cannot know it.
  return answer.rows[0] as unknown as Row | undefined;
}

// Postgres text cannot hold NUL; what is only evidence is stored with a replacement mark instead of failing (E01).
function clean(text: string): string;
function clean(text: string | undefined): string | null;
function clean(text: string | undefined): string | null {
  return text === undefined ? null : text.replaceAll("\0", "\uFFFD");
}

function claimValues(claim: EffectClaim): unknown[] {
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

function settleValues(settlement: Settlement, result: StoredResult | undefined): unknown[] {
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

function claimedRowOf(raw: RawClaim, claimant: string): ClaimView["row"] {
  const { r_result: result, r_sha256: result_sha256, r_bytes: result_bytes, r_ref: result_ref } = raw;
  return {
    state: raw.r_state,
    policy: raw.r_policy,
    fence: raw.r_fence,
    holder: raw.r_holder ?? claimant,
    seen: raw.r_seen,
    executions: raw.r_executions,
    firstClaimAtMs: raw.r_first_claim_at_ms,
    ...optional("result", resultOf({ result, result_sha256, result_bytes, result_ref })),
    ...optional("effectRef", raw.r_effect_ref),
    ...optional("detail", raw.r_detail),
  };
}

function rowOf(raw: RawRow): EffectRow {
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
