// A pool for PostgresSaver whose every transaction first asserts the thread's fence: a stale writer stores nothing.
import { trace } from "@opentelemetry/api";
import { ATTR } from "@reprise/tracing";
import type pg from "pg";
import { FenceLost, ToolsError } from "./errors.ts";
import { ASSERT_FENCE_SQL, type FenceRef, isFenceLostError } from "./fence.ts";
import { isPipelining, PipelinedClient } from "./fence-pipeline.ts";

export interface FencedStatement {
  readonly text: string;
  readonly values: readonly unknown[];
  /** What the statement returned; called before the transaction's COMMIT resolves, on a pipelining pool only after it succeeded. */
  readonly onRows?: (rows: readonly Record<string, unknown>[]) => void;
}

export interface FencedPoolOptions {
  /** Run inside each transaction, right before its COMMIT: what must be stored with a checkpoint or not at all. */
  readonly beforeCommit?: readonly FencedStatement[];
}

/**
 * Give it to a saver of one delivery: `new PostgresSaver(fencedPool(pool, fence))`. Reads and statements outside a transaction
 * pass untouched. A lost fence rejects with FenceLost after which the client is as usable as before. A pool made with
 * `pipeline: true` sends each transaction in one round trip (fence-pipeline.ts).
 */
export function fencedPool(pool: pg.Pool, fence: FenceRef, options: FencedPoolOptions = {}): pg.Pool {
  const facade = {
    query: pool.query.bind(pool),
    // The pool belongs to the caller: a saver's end() must not close it under other deliveries.
    end: async (): Promise<void> => undefined,
    connect: async () => {
      const askedAt = performance.now();
      const client = await pool.connect();
      sayWait(performance.now() - askedAt);
      const Client = isPipelining(client) ? PipelinedClient : FencedClient;
      return new Client(client, fence, options.beforeCommit ?? []);
    },
  };
  // PostgresSaver uses query, connect and end of a pool, and query and release of a client
  // (@langchain/langgraph-checkpoint-postgres 1.0.5 dist/index.js); test/fence-pool.real.test.ts runs all of them.
  return facade as unknown as pg.Pool;
}

/** On the saver's span: a pool that is too small is then a figure, and not a gap before the first statement. */
function sayWait(ms: number): void {
  if (ms >= WAIT_SAID_MS) trace.getActiveSpan()?.setAttribute(ATTR.checkpointPoolWaitMs, Math.round(ms));
}

/** Less is the event loop's own. */
const WAIT_SAID_MS = 2;

type QueryAnswer = Promise<pg.QueryResult>;

/** Statement by statement, for a pool that does not pipeline. */
class FencedClient {
  readonly #client: pg.PoolClient;
  readonly #fence: FenceRef;
  readonly #beforeCommit: readonly FencedStatement[];
  #open = false;
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
    return this.#send(text, values);
  }

  release(error?: Error | boolean): void {
    // Given back inside a transaction it would hand somebody else our locks: close it instead.
    const unfinished = this.#open ? new Error("released inside a transaction") : undefined;
    this.#client.release(error ?? this.#broken ?? unfinished);
  }

  async #begin(): QueryAnswer {
    const answer = await this.#send("BEGIN");
    this.#open = true;
    await this.#send(ASSERT_FENCE_SQL, [this.#fence.threadId, String(this.#fence.fence)]);
    return answer;
  }

  async #commit(): QueryAnswer {
    for (const { text, values, onRows } of this.#beforeCommit) {
      const { rows } = await this.#send(text, [...values]);
      onRows?.(rows);
    }
    const answer = await this.#send("COMMIT");
    this.#open = false;
    // PostgreSQL answers COMMIT of an aborted transaction with ROLLBACK and no error.
    if (answer.command === "ROLLBACK") {
      throw new ToolsError(
        "FENCE_LOST",
        `A transaction on thread ${this.#fence.threadId} was rolled back instead of committed.`,
      );
    }
    return answer;
  }

  // The saver rolls back after an error and then throws that error; a failing ROLLBACK would take its place.
  async #rollback(): QueryAnswer {
    try {
      const answer = await this.#client.query("ROLLBACK");
      this.#open = false;
      return answer;
    } catch (error) {
      this.#broken = error instanceof Error ? error : new Error(String(error));
      return { command: "ROLLBACK", rowCount: null, oid: 0, fields: [], rows: [] };
    }
  }

  async #send(text: string, values?: unknown[]): QueryAnswer {
    try {
      return await this.#client.query(text, values);
    } catch (error) {
      if (!isFenceLostError(error)) throw error;
      throw new FenceLost(this.#fence.threadId, "nothing of this transaction was stored", { cause: error });
    }
  }
}
