// The effect ledger in Postgres: one round trip a claim, one a settlement, all times on the server's clock.
import type {
  ClaimDecision,
  Echo,
  EchoQuery,
  EffectClaim,
  EffectRow,
  Fence,
  Ledger,
  OpenExecution,
  RecordedPolicy,
  SettleAnswer,
  Settlement,
  StoredResult,
} from "./effect.ts";
import { decisionOf } from "./effect-decide.ts";
import { getLarge, putLarge, type ResultStore } from "./effect-result-store.ts";
import { claimValues, claimViewOf, clean, type RawClaim, type RawRow, rowOf, settleValues } from "./effect-rows.ts";
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
    const answered = await first<{ readonly answer: string }>(this.#db, CLAIM_SQL, claimValues(claim));
    // The shape is the function's.
    const raw: RawClaim = answered === undefined ? { step: "fenced" } : JSON.parse(answered.answer);
    if (raw.step === "fenced") return { kind: "fenced" };
    if (raw.step === "new") {
      const { fence, firstClaimAtMs } = raw;
      return { kind: "execute", fence, firstClaimAtMs, seen: 1 };
    }
    if (raw.step === "keep") this.#seen.add(claim.key);
    const decision = decisionOf(claimViewOf(raw, this.#seen.pending(claim.key)));
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
    const echo = (await first<{ readonly echo: string | null }>(this.#db, FIND_ECHO_SQL, values))?.echo;
    // The shape is the function's.
    return typeof echo === "string" ? (JSON.parse(echo) as Echo) : undefined;
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
