// A saver that remembers with what it was called, answers what it was told to, and can be held or made to fail.

import {
  BaseCheckpointSaver,
  type CheckpointTuple,
  type DeltaChannelHistory,
  emptyCheckpoint,
} from "@langchain/langgraph-checkpoint";

export class RecordingSaver extends BaseCheckpointSaver {
  readonly calls: { readonly method: string; readonly args: readonly unknown[] }[] = [];
  tuple: CheckpointTuple | undefined = {
    config: { configurable: { thread_id: "t", checkpoint_ns: "", checkpoint_id: "c2" } },
    parentConfig: { configurable: { thread_id: "t", checkpoint_ns: "", checkpoint_id: "c1" } },
    checkpoint: { ...emptyCheckpoint(), id: "c2", ts: "2026-01-01T00:00:00.000Z" },
    metadata: { source: "loop", step: 3, parents: {} },
    pendingWrites: [["task", "channel", 1]],
  };
  rows = 3;
  failure: Error | undefined;
  /** Every call waits for this before it answers. */
  gate: Promise<void> = Promise.resolve();
  /** Calls that have answered or failed. */
  finished = 0;
  /** Set when the generator of list was closed, by its end or early. */
  listClosed = false;

  override getTuple(...args: unknown[]): Promise<CheckpointTuple | undefined> {
    return this.#answer("getTuple", args, this.tuple);
  }

  override async *list(...args: unknown[]): AsyncGenerator<CheckpointTuple> {
    try {
      for (let row = 0; row < this.rows; row += 1) {
        const tuple = await this.#answer("list", args, this.tuple);
        if (tuple) yield tuple;
      }
    } finally {
      this.listClosed = true;
    }
  }

  override put(...args: unknown[]) {
    return this.#answer("put", args, { configurable: { checkpoint_id: "put" } });
  }

  override putWrites(...args: unknown[]): Promise<void> {
    return this.#answer("putWrites", args, undefined);
  }

  override deleteThread(...args: unknown[]): Promise<void> {
    return this.#answer("deleteThread", args, undefined);
  }

  override getDeltaChannelHistory(...args: unknown[]): Promise<Record<string, DeltaChannelHistory>> {
    return this.#answer("getDeltaChannelHistory", args, { channel: { writes: [] } });
  }

  override getNextVersion(...args: unknown[]): number {
    this.calls.push({ method: "getNextVersion", args });
    return 41;
  }

  setup(...args: unknown[]): Promise<void> {
    return this.#answer("setup", args, undefined);
  }

  async #answer<T>(method: string, args: readonly unknown[], answer: T): Promise<T> {
    this.calls.push({ method, args });
    await this.gate;
    this.finished += 1;
    if (this.failure) throw this.failure;
    return answer;
  }
}
