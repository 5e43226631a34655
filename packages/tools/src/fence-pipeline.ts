// A fenced transaction in one round trip: what the saver writes is sent without waiting, and everything is answered at COMMIT.
import type { Duplex } from "node:stream";
import { withoutSpans } from "@reprise/tracing";
import type pg from "pg";
import { ASSERT_FENCE_SQL } from "./fence.ts";
import { answered, FencedClient, type QueryAnswer } from "./fence-client.ts";

/** Writes whose result nobody can need. Anything else waits for its rows, and for all that was sent before it. */
const WRITE = /^\s*(?:insert|update|delete)\b(?![\s\S]*\breturning\b)/i;

/** Whether this client sends a query while another is still unanswered (`new pg.Pool({ pipeline: true })`, pg 8.23). */
export function isPipelining(client: pg.PoolClient): boolean {
  return client.pipeline === true;
}

/**
 * BEGIN, the fence, the writes and COMMIT go out together; k + 4 round trips become one. A statement that fails aborts the
 * transaction, so that those behind it are refused and COMMIT ends it as a rollback, without an error of its own: the first
 * failure is what COMMIT rejects with. The fence therefore has to raise: a result of no rows would be seen after the commit.
 * Its statements but the COMMIT leave no spans of their own: they would all last as long as the round trip (fence-pool.test.ts),
 * and eighty of them cost a run more than anything else in its trace.
 */
export class PipelinedClient extends FencedClient {
  /** Bounded by the statements of one checkpoint. */
  #sent: QueryAnswer[] = [];
  #corked = false;

  override release(error?: Error | boolean): void {
    this.#uncork();
    super.release(error);
  }

  protected override statement(text: string, values?: unknown[]): QueryAnswer {
    const sent = this.#send(text, values);
    return this.open && WRITE.test(text) ? answered(text) : this.#read(sent);
  }

  protected override begin(): QueryAnswer {
    this.#cork();
    this.open = true;
    void this.#send("BEGIN");
    void this.#send(ASSERT_FENCE_SQL, [this.fence.threadId, String(this.fence.fence)]);
    return answered("BEGIN");
  }

  protected override async commit(): QueryAnswer {
    const marks = this.beforeCommit.map(({ text, values }) => this.#send(text, [...values]));
    // The one statement with a span of its own: it is answered last, so it lasts as long as the round trip.
    const commit = this.#awaited(this.client.query("COMMIT"));
    const failure = await this.#firstFailure();
    const ended = await commit.catch(() => undefined);
    // Answered at all, COMMIT has ended the transaction, one way or the other.
    this.open = ended === undefined;
    if (failure !== undefined) throw this.named(failure.reason);
    if (ended?.command !== "COMMIT") throw this.rolledBack();
    for (const [index, { onRows }] of this.beforeCommit.entries()) onRows?.((await marks[index])?.rows ?? []);
    return ended;
  }

  protected override async rollback(): QueryAnswer {
    if (!this.open) return answered("ROLLBACK");
    const rollback = this.#send("ROLLBACK");
    await this.#firstFailure();
    try {
      const answer = await rollback;
      this.open = false;
      return answer;
    } catch (error) {
      return this.breakWith(error);
    }
  }

  async #read(sent: QueryAnswer): QueryAnswer {
    const failure = await this.#firstFailure();
    if (failure !== undefined) throw this.named(failure.reason);
    return sent;
  }

  #send(text: string, values?: unknown[]): QueryAnswer {
    return this.#awaited(withoutSpans(() => this.client.query(text, values)));
  }

  #awaited(sent: QueryAnswer): QueryAnswer {
    // Looked at in #firstFailure; until then a rejection must not count as unhandled.
    sent.catch(() => undefined);
    this.#sent.push(sent);
    return sent;
  }

  /** Waits for all that was sent and finds the failure that made the others fail. */
  async #firstFailure(): Promise<PromiseRejectedResult | undefined> {
    this.#uncork();
    const outcomes = await Promise.allSettled(this.#sent.splice(0));
    return outcomes.find((outcome) => outcome.status === "rejected");
  }

  // One write to the socket: fewer system calls, and hardly a moment at which a frozen process holds the thread's row.
  #cork(): void {
    streamOf(this.client)?.cork();
    this.#corked = true;
  }

  #uncork(): void {
    if (this.#corked) streamOf(this.client)?.uncork();
    this.#corked = false;
  }
}

/** The socket of pg's client; of a client without one nothing is held back. */
function streamOf(client: pg.PoolClient): Pick<Duplex, "cork" | "uncork"> | undefined {
  // Typed as always there, and set by the constructor; a user's own client class may differ.
  return (client.connection as pg.Connection | undefined)?.stream;
}
