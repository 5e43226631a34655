// The effect ledger in memory: for tests and single-process use. Same meaning as Postgres, gone with the process.
import type {
  ClaimDecision,
  Echo,
  EchoQuery,
  EffectClaim,
  EffectOwner,
  EffectRow,
  Fence,
  Ledger,
  OpenExecution,
  SettleAnswer,
  Settlement,
  StoredResult,
} from "./effect.ts";
import { type ClaimedRow, decisionOf, differenceOf, PARKED_DETAIL, stepOf } from "./effect-decide.ts";
import { ToolsError } from "./errors.ts";

export interface MemoryLedgerOptions {
  readonly now?: () => number;
  /** Settled rows are dropped, oldest first, above this many; open and unknown ones never are. Default 10,000. */
  readonly rowsMax?: number;
  /** The current fence of a thread, when somebody leases threads. Without it no claim is fenced by a lease. */
  readonly currentFence?: (threadId: string) => Fence | undefined;
}

interface Execution {
  readonly deliveryId: string;
  readonly fence: Fence;
  readonly startedAtMs: number;
  readonly nodeAttempt: number;
  outcome: Settlement["outcome"] | undefined;
  late: boolean;
}

interface Entry {
  row: ClaimedRow;
  readonly executions: Execution[];
}

export class MemoryLedger implements Ledger {
  readonly #entries = new Map<string, Entry>();
  /** Entries of each thread and tool, in the order of their first claims: an echo is looked for at every fresh call. */
  readonly #byTool = new Map<string, Set<Entry>>();
  readonly #now: () => number;
  readonly #rowsMax: number;
  readonly #currentFence: (threadId: string) => Fence | undefined;
  #fences = 0n;
  #dropped = 0;

  constructor(options: MemoryLedgerOptions = {}) {
    this.#now = options.now ?? Date.now;
    this.#rowsMax = options.rowsMax ?? 10_000;
    this.#currentFence = options.currentFence ?? (() => undefined);
  }

  /** How many settled rows the bound has dropped: each could no longer be replayed. */
  get dropped(): number {
    return this.#dropped;
  }

  async claim(claim: EffectClaim): Promise<ClaimDecision> {
    if (this.#isFenced(claim)) return { kind: "fenced" };
    const entry = this.#entries.get(claim.key);
    const nowMs = this.#now();
    if (entry === undefined) return this.#open(claim, nowMs);
    const differs = differenceOf(entry.row, claim);
    const step = stepOf(entry.row, claim, nowMs);
    const seen = step === "own" ? entry.row.seen : entry.row.seen + 1;
    entry.row = { ...entry.row, seen };
    if (step === "take") this.#take(entry, claim, nowMs);
    if (step === "park") entry.row = { ...entry.row, state: "unknown", detail: PARKED_DETAIL };
    const won = step === "take" || step === "own";
    const leaseLeftMs = entry.row.leaseUntilMs - nowMs;
    return decisionOf({ row: entry.row, won, stale: step === "stale", differs, leaseLeftMs });
  }

  async settle(settlement: Settlement): Promise<SettleAnswer> {
    const entry = this.#entries.get(settlement.key);
    const { outcome } = settlement;
    const open = entry?.row.state === "reserved" || entry?.row.state === "unknown" || entry?.row.state === outcome;
    const recorded = entry !== undefined && entry.row.fence === settlement.fence && open;
    const execution = entry?.executions.find((candidate) => candidate.fence === settlement.fence);
    if (execution !== undefined) {
      execution.outcome = outcome;
      execution.late = !recorded;
    }
    if (!recorded) return { recorded: false, late: true };
    entry.row = { ...entry.row, ...settledFields(settlement), state: outcome };
    return { recorded: true };
  }

  async release(claim: { readonly key: string; readonly fence: Fence }): Promise<{ readonly released: boolean }> {
    const row = this.#entries.get(claim.key)?.row;
    const released = row?.fence === claim.fence && row.state === "reserved" && row.executions === 1;
    if (released) this.#forget(claim.key);
    return { released };
  }

  async find(key: string): Promise<EffectRow | undefined> {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    const { nonce: _nonce, ...row } = entry.row;
    return row;
  }

  async findEcho(query: EchoQuery): Promise<Echo | undefined> {
    let found: { readonly row: ClaimedRow; readonly after: Echo["after"] } | undefined;
    // In the order of their first claims, so a later one of the same kind is the newer.
    for (const { row } of this.#byTool.get(toolOf(query.owner)) ?? []) {
      if (wishOf(row) !== wishOf(query) || !isEarlierOf(row, query)) continue;
      if (row.state === "unknown" || (row.state === "done" && found?.after !== "unknown"))
        found = { row, after: row.state };
    }
    return found && { toolCallId: found.row.owner.toolCallId, after: found.after };
  }

  async openExecutions(deliveryId: string): Promise<readonly OpenExecution[]> {
    const open: OpenExecution[] = [];
    for (const { row, executions } of this.#entries.values()) {
      for (const { fence, startedAtMs, nodeAttempt, ...execution } of executions) {
        if (execution.deliveryId !== deliveryId || execution.outcome !== undefined) continue;
        const { threadId, tool, toolCallId } = row.owner;
        open.push({ key: row.key, fence, threadId, tool, toolCallId, policy: row.policy, startedAtMs, nodeAttempt });
      }
    }
    return open;
  }

  #forget(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    const group = toolOf(entry.row.owner);
    const siblings = this.#byTool.get(group);
    siblings?.delete(entry);
    if (siblings?.size === 0) this.#byTool.delete(group);
  }

  #isFenced(claim: EffectClaim): boolean {
    const claimed = claim.execution.threadFence;
    const current = this.#currentFence(claim.execution.fencedThreadId ?? claim.owner.threadId);
    return claimed !== undefined && current !== undefined && String(claimed) !== current;
  }

  #open(claim: EffectClaim, nowMs: number): ClaimDecision {
    this.#makeRoom();
    const row: ClaimedRow = {
      key: claim.key,
      owner: claim.owner,
      argsFingerprint: claim.argsFingerprint,
      ...(claim.identityFingerprint === undefined ? {} : { identityFingerprint: claim.identityFingerprint }),
      policy: claim.policy,
      ...(claim.retentionMs === undefined ? {} : { retentionMs: claim.retentionMs }),
      ...this.#holderFields(claim, nowMs),
      firstClaimAtMs: nowMs,
      seen: 1,
      executions: 1,
    };
    const entry: Entry = { row, executions: [] };
    this.#entries.set(claim.key, entry);
    const group = toolOf(claim.owner);
    const siblings = this.#byTool.get(group);
    if (siblings === undefined) this.#byTool.set(group, new Set([entry]));
    else siblings.add(entry);
    this.#log(entry, claim, nowMs);
    return decisionOf({ row, won: true, stale: false, differs: undefined, leaseLeftMs: claim.leaseMs });
  }

  #take(entry: Entry, claim: EffectClaim, nowMs: number): void {
    entry.row = { ...entry.row, ...this.#holderFields(claim, nowMs), executions: entry.row.executions + 1 };
    this.#log(entry, claim, nowMs);
  }

  #holderFields(claim: EffectClaim, nowMs: number) {
    this.#fences += 1n;
    const { threadFence } = claim.execution;
    return {
      state: "reserved",
      nonce: claim.nonce,
      fence: this.#fences.toString(),
      ...(threadFence === undefined ? {} : { threadFence: String(threadFence) }),
      holder: claim.holder,
      leaseUntilMs: nowMs + claim.leaseMs,
    } as const;
  }

  #log(entry: Entry, claim: EffectClaim, startedAtMs: number): void {
    const { deliveryId, nodeAttempt } = claim.execution;
    entry.executions.push({
      deliveryId,
      nodeAttempt,
      fence: entry.row.fence,
      startedAtMs,
      outcome: undefined,
      late: false,
    });
  }

  #makeRoom(): void {
    if (this.#entries.size < this.#rowsMax) return;
    for (const [key, { row }] of this.#entries) {
      if (row.state !== "done" && row.state !== "failed") continue;
      this.#forget(key);
      this.#dropped += 1;
      return;
    }
    throw new ToolsError(
      "LEDGER_FULL",
      `All ${this.#rowsMax} rows of the memory ledger are open or unknown. Raise rowsMax, or use PostgresLedger.`,
    );
  }
}

function toolOf(owner: EffectOwner): string {
  return JSON.stringify([owner.threadId, owner.tool]);
}

/** What makes two calls the same wish. */
function wishOf({
  identityFingerprint,
  argsFingerprint,
}: Pick<EchoQuery, "identityFingerprint" | "argsFingerprint">): string {
  return identityFingerprint ?? argsFingerprint;
}

function isEarlierOf({ key, owner }: ClaimedRow, query: EchoQuery): boolean {
  const { assistantMessageId } = query.owner;
  if (key === query.key) return false;
  // Equal calls of one message are asked for together: none is the answer to another's outcome.
  return (
    assistantMessageId === undefined ||
    owner.assistantMessageId === undefined ||
    owner.assistantMessageId !== assistantMessageId
  );
}

function settledFields(settlement: Settlement): Partial<ClaimedRow> {
  const { providerRequestId, evidence } = settlement;
  return {
    ...(providerRequestId === undefined ? {} : { providerRequestId }),
    ...(evidence === undefined ? {} : { evidence }),
    ...(settlement.outcome === "done"
      ? {
          result: withoutText(settlement.result),
          ...(settlement.effectRef === undefined ? {} : { effectRef: settlement.effectRef }),
        }
      : { detail: settlement.detail }),
  };
}

// Its rows are bounded by number, so a large result must not stay.
function withoutText(result: StoredResult): StoredResult {
  if (result.kind === "value") return result;
  const { json: _json, ...large } = result;
  return large;
}
