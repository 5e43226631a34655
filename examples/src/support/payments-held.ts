// Replies that are being held after a commit, and the long poll that waits for one: the moment to kill a worker.

/** One held reply. It is listed only after the charge is committed, answered on record and written to the request log. */
export type HeldReply = {
  /** Rises by one with each held reply; pass the last one seen as `after`. */
  readonly seq: number;
  readonly requestId: string;
  readonly chargeId: string | null;
  readonly customer: string;
  readonly idempotencyKey: string | null;
  readonly state: "holding" | "released" | "client_gone";
};

export type HeldQuery = {
  readonly after: number;
  readonly customer: string | null;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
};

export type HeldAnswer =
  | { readonly state: "answered"; readonly held: readonly HeldReply[] }
  | { readonly state: "too_many_waiters" };

export type HeldCounters = {
  readonly seen: number;
  readonly dropped: number;
  readonly waiters: number;
  readonly refused: number;
};

const REPLIES_MAX = 1_000;
const WAITERS_MAX = 100;

export class HeldReplies {
  readonly #replies = new Map<number, HeldReply>();
  readonly #waiters = new Set<() => void>();
  #seen = 0;
  #dropped = 0;
  #refused = 0;

  /** Announces a held reply and wakes every waiter. */
  hold(reply: Omit<HeldReply, "seq" | "state">): number {
    this.#seen += 1;
    this.#replies.set(this.#seen, { ...reply, seq: this.#seen, state: "holding" });
    // Sequence numbers are dense, so the oldest one kept is known without asking the map.
    if (this.#replies.delete(this.#seen - REPLIES_MAX)) this.#dropped += 1;
    for (const wake of this.#waiters) wake();
    return this.#seen;
  }

  /** Says how the hold ended. */
  end(seq: number, state: "released" | "client_gone"): void {
    const reply = this.#replies.get(seq);
    if (reply !== undefined) this.#replies.set(seq, { ...reply, state });
  }

  /** Held replies later than `after`, ended ones included: a client that was killed at once must not be missed. */
  list(after: number, customer: string | null): readonly HeldReply[] {
    return [...this.#replies.values()].filter(
      (reply) => reply.seq > after && (customer === null || reply.customer === customer),
    );
  }

  /** Resolves as soon as the list is not empty; with an empty list after `timeoutMs` or when the signal aborts. */
  async wait(query: HeldQuery): Promise<HeldAnswer> {
    const held = this.list(query.after, query.customer);
    if (held.length > 0 || query.timeoutMs <= 0 || query.signal.aborted) return { state: "answered", held };
    if (this.#waiters.size >= WAITERS_MAX) {
      this.#refused += 1;
      return { state: "too_many_waiters" };
    }
    await this.#answered(query);
    return { state: "answered", held: this.list(query.after, query.customer) };
  }

  counters(): HeldCounters {
    return { seen: this.#seen, dropped: this.#dropped, waiters: this.#waiters.size, refused: this.#refused };
  }

  /** One timer and two listeners for the whole wait, all taken away at its end; a wake for somebody else keeps waiting. */
  async #answered(query: HeldQuery): Promise<void> {
    await new Promise<void>((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.#waiters.delete(wake);
        query.signal.removeEventListener("abort", finish);
        resolve();
      };
      const wake = (): void => {
        if (this.list(query.after, query.customer).length > 0) finish();
      };
      const timer = setTimeout(finish, query.timeoutMs);
      this.#waiters.add(wake);
      query.signal.addEventListener("abort", finish, { once: true });
    });
  }
}
