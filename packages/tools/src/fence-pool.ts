// A pool for PostgresSaver whose every transaction first asserts the thread's fence: a stale writer stores nothing.
import { trace } from "@opentelemetry/api";
import { ATTR, withoutSpans } from "@reprise/tracing";
import type pg from "pg";
import { ASSERT_FENCE_SQL, type FenceRef } from "./fence.ts";
import { FencedClient, type FencedStatement, type QueryAnswer } from "./fence-client.ts";
import { isPipelining, PipelinedClient } from "./fence-pipeline.ts";

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
      // No span for each look into the pool: what it waited stands on the saver's own.
      const client = await withoutSpans(() => pool.connect());
      sayWait(performance.now() - askedAt);
      const Client = isPipelining(client) ? PipelinedClient : SteppingClient;
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

/** Statement by statement, for a pool that does not pipeline. */
class SteppingClient extends FencedClient {
  protected override async begin(): QueryAnswer {
    const answer = await this.statement("BEGIN");
    this.open = true;
    await this.statement(ASSERT_FENCE_SQL, [this.fence.threadId, String(this.fence.fence)]);
    return answer;
  }

  protected override async commit(): QueryAnswer {
    for (const { text, values, onRows } of this.beforeCommit) {
      const { rows } = await this.statement(text, [...values]);
      onRows?.(rows);
    }
    const answer = await this.statement("COMMIT");
    this.open = false;
    if (answer.command === "ROLLBACK") throw this.rolledBack();
    return answer;
  }

  protected override async rollback(): QueryAnswer {
    try {
      const answer = await this.client.query("ROLLBACK");
      this.open = false;
      return answer;
    } catch (error) {
      return this.breakWith(error);
    }
  }

  protected override async statement(text: string, values?: unknown[]): QueryAnswer {
    try {
      return await this.client.query(text, values);
    } catch (error) {
      throw this.named(error);
    }
  }
}
