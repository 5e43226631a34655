// What every client of a fenced pool has, however it sends: the fence, what is stored along with a COMMIT, how it is given back.
import type pg from "pg";
import { FenceLost, ToolsError } from "./errors.ts";
import { type FenceRef, isFenceLostError } from "./fence.ts";

export interface FencedStatement {
  readonly text: string;
  readonly values: readonly unknown[];
  /** What the statement returned; called before the transaction's COMMIT resolves, on a pipelining pool only after it succeeded. */
  readonly onRows?: (rows: readonly Record<string, unknown>[]) => void;
}

export type QueryAnswer = Promise<pg.QueryResult>;

export abstract class FencedClient {
  protected readonly client: pg.PoolClient;
  protected readonly fence: FenceRef;
  protected readonly beforeCommit: readonly FencedStatement[];
  /** Inside a transaction. */
  protected open = false;
  /** Why the connection cannot be used again. */
  protected broken: Error | undefined;

  constructor(client: pg.PoolClient, fence: FenceRef, beforeCommit: readonly FencedStatement[]) {
    this.client = client;
    this.fence = fence;
    this.beforeCommit = beforeCommit;
  }

  query(text: string, values?: unknown[]): QueryAnswer {
    if (text === "BEGIN") return this.begin();
    if (text === "COMMIT") return this.commit();
    if (text === "ROLLBACK") return this.rollback();
    return this.statement(text, values);
  }

  release(error?: Error | boolean): void {
    // Given back inside a transaction it would hand somebody else our locks: close it instead.
    const unfinished = this.open ? new Error("released inside a transaction") : undefined;
    this.client.release(error ?? this.broken ?? unfinished);
  }

  protected abstract begin(): QueryAnswer;
  protected abstract commit(): QueryAnswer;
  protected abstract statement(text: string, values?: unknown[]): QueryAnswer;

  /**
   * The saver rolls back after an error and then throws that error, so this never rejects: a failing ROLLBACK would take its
   * place, and leaves the client broken instead.
   */
  protected abstract rollback(): QueryAnswer;

  protected breakWith(error: unknown): QueryAnswer {
    this.broken = error instanceof Error ? error : new Error(String(error));
    return answered("ROLLBACK");
  }

  protected named(error: unknown): unknown {
    if (!isFenceLostError(error)) return error;
    return new FenceLost(this.fence.threadId, "nothing of this transaction was stored", { cause: error });
  }

  /** PostgreSQL answers COMMIT of an aborted transaction with ROLLBACK and no error. */
  protected rolledBack(): ToolsError {
    const { threadId } = this.fence;
    return new ToolsError("FENCE_LOST", `A transaction on thread ${threadId} was rolled back instead of committed.`);
  }
}

/** An answer without the server's: there is nothing in it that a saver could need. */
export function answered(command: string): QueryAnswer {
  return Promise.resolve({ command, rowCount: null, oid: 0, fields: [], rows: [] });
}
