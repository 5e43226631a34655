// A fenced transaction in one round trip: what the saver writes is sent without waiting, and everything is answered at COMMIT.
import type { Duplex } from "node:stream";
import { withoutSpans } from "@reprise/tracing";
import type pg from "pg";
import { FenceLost, ToolsError } from "./errors.ts";
import { ASSERT_FENCE_SQL, type FenceRef, isFenceLostError } from "./fence.ts";
import type { FencedStatement } from "./fence-pool.ts";

type QueryAnswer = Promise<pg.QueryResult>;

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
 * Its statements leave no spans of their own: they would all last as long as the round trip, which is the saver's span
 * (fence-pool.test.ts), and eighty of them cost a run more than anything else in its trace.
 */
export class PipelinedClient {
  readonly #client: pg.PoolClient;
  readonly #fence: FenceRef;
  readonly #beforeCommit: readonly FencedStatement[];
  /** Bounded by the statements of one checkpoint. */
  #sent: QueryAnswer[] = [];
  #open = false;
  #corked = false;
  #broken: Error | undefined;

  constructor(client: pg.PoolClient, fence: FenceRef, beforeCommit: readonly FencedStatement[]) {
    this.#client = client;
    this.#fence = fence;
    this.#beforeCommit = beforeCommit;
  }

  query(text: string, values?: unknown[]): QueryAnswer {
    if (text === "BEGIN") return this.#begin();
    if (text === "COMMIT") return this.#commit();
    if (text === "ROLLBACK") return this.#rollback();
    const sent = this.#send(text, values);
    return this.#open && WRITE.test(text) ? answered(text) : this.#read(sent);
  }

  release(error?: Error | boolean): void {
    this.#uncork();
    // Given back inside a transaction it would hand somebody else our locks: close it instead.
    const unfinished = this.#open ? new Error("released inside a transaction") : undefined;
    this.#client.release(error ?? this.#broken ?? unfinished);
  }

  #begin(): QueryAnswer {
    this.#cork();
    this.#open = true;
    void this.#send("BEGIN");
    void this.#send(ASSERT_FENCE_SQL, [this.#fence.threadId, String(this.#fence.fence)]);
    return answered("BEGIN");
  }

  async #commit(): QueryAnswer {
    const marks = this.#beforeCommit.map(({ text, values }) => this.#send(text, [...values]));
    const commit = this.#send("COMMIT");
    const failure = await this.#firstFailure();
    const ended = await commit.catch(() => undefined);
    // Answered at all, COMMIT has ended the transaction, one way or the other.
    this.#open = ended === undefined;
    if (failure !== undefined) throw this.#named(failure.reason);
    if (ended?.command !== "COMMIT") throw this.#rolledBack();
    for (const [index, { onRows }] of this.#beforeCommit.entries()) onRows?.((await marks[index])?.rows ?? []);
    return ended;
  }

  // The saver rolls back after an error and then throws that error; a failing ROLLBACK would take its place.
  async #rollback(): QueryAnswer {
    if (!this.#open) return answered("ROLLBACK");
    const rollback = this.#send("ROLLBACK");
    await this.#firstFailure();
    try {
      const answer = await rollback;
      this.#open = false;
      return answer;
    } catch (error) {
      this.#broken = error instanceof Error ? error : new Error(String(error));
      return answered("ROLLBACK");
    }
  }

  async #read(sent: QueryAnswer): QueryAnswer {
    const failure = await this.#firstFailure();
    if (failure !== undefined) throw this.#named(failure.reason);
    return sent;
  }

  #send(text: string, values?: unknown[]): QueryAnswer {
    const sent = withoutSpans(() => this.#client.query(text, values));
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

  #named(error: unknown): unknown {
    if (!isFenceLostError(error)) return error;
    return new FenceLost(this.#fence.threadId, "nothing of this transaction was stored", { cause: error });
  }

  #rolledBack(): ToolsError {
    const { threadId } = this.#fence;
    return new ToolsError("FENCE_LOST", `A transaction on thread ${threadId} was rolled back instead of committed.`);
  }

  // One write to the socket: fewer system calls, and hardly a moment at which a frozen process holds the thread's row.
  #cork(): void {
    streamOf(this.#client)?.cork();
    this.#corked = true;
  }

  #uncork(): void {
    if (this.#corked) streamOf(this.#client)?.uncork();
    this.#corked = false;
  }
}

/** The socket of pg's client; of a client without one nothing is held back. */
function streamOf(client: pg.PoolClient): Pick<Duplex, "cork" | "uncork"> | undefined {
  // Typed as always there, and set by the constructor; a user's own client class may differ.
  return (client.connection as pg.Connection | undefined)?.stream;
}

/** What the saver is told before the server has spoken. */
function answered(command: string): QueryAnswer {
  return Promise.resolve({ command, rowCount: null, oid: 0, fields: [], rows: [] });
}
