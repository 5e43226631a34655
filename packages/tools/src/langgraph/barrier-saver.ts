// A saver around a saver that knows which checkpoints are durable: the evidence the barrier asks for.
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { PRODUCT } from "@reprise/tracing";

/** A checkpoint by its namespace and id; ids are unique across threads. */
export interface CheckpointRef {
  readonly threadId: string;
  readonly ns: string;
  readonly id: string;
}

export interface BarrierSaverOptions {
  /** Durable checkpoints remembered, latest kept. Default 10,000; a forgotten one is read from the saver again. */
  readonly checkpointsMax?: number;
}

// Also true across two copies of this package in one process.
const BARRIER = Symbol.for(`${PRODUCT.scope}/tools barrier saver`);

export function isBarrierSaver(saver: unknown): saver is BarrierSaver {
  return typeof saver === "object" && saver !== null && BARRIER in saver;
}

/** Compile the graph with it, outermost: `checkpointer: new BarrierSaver(new PostgresSaver(pool))`. */
export class BarrierSaver extends BaseCheckpointSaver {
  readonly [BARRIER] = true;
  readonly #inner: BaseCheckpointSaver;
  readonly #checkpointsMax: number;
  /** Durable checkpoint to its thread, oldest first. */
  readonly #durable = new Map<string, string>();
  readonly #waiters = new Map<string, Set<() => void>>();
  #forgotten = 0;

  constructor(inner: BaseCheckpointSaver, options: BarrierSaverOptions = {}) {
    super(inner.serde);
    this.#inner = inner;
    this.#checkpointsMax = options.checkpointsMax ?? 10_000;
  }

  /** How many durable checkpoints the bound has made it forget. */
  get forgotten(): number {
    return this.#forgotten;
  }

  /** Whether the checkpoint is known to be stored, without a wait or a look: false says nothing yet. */
  isDurable({ ns, id }: Pick<CheckpointRef, "ns" | "id">): boolean {
    return this.#durable.has(keyOf(ns, id));
  }

  /** Resolves true as soon as the checkpoint is known to be stored, false when it is not by `waitMs` from now. */
  async whenDurable(ref: CheckpointRef, waitMs: number): Promise<boolean> {
    if (this.isDurable(ref)) return true;
    const key = keyOf(ref.ns, ref.id);
    if (await this.#wait(key, waitMs)) return true;
    // Forgotten here, or put through another wrapper: the store itself has the last word.
    const configurable = { thread_id: ref.threadId, checkpoint_ns: ref.ns, checkpoint_id: ref.id };
    return (await this.getTuple({ configurable }))?.checkpoint.id === ref.id;
  }

  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const tuple = await this.#inner.getTuple(config);
    if (tuple !== undefined) this.#remember(tuple.config, tuple.checkpoint.id);
    return tuple;
  }

  async *list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    yield* this.#inner.list(config, options);
  }

  async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const stored = await this.#inner.put(config, checkpoint, metadata, newVersions);
    this.#remember(config, checkpoint.id);
    return stored;
  }

  async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string, taskPath?: string): Promise<void> {
    await this.#inner.putWrites(config, writes, taskId, taskPath);
  }

  async deleteThread(threadId: string): Promise<void> {
    await this.#inner.deleteThread(threadId);
    for (const [key, thread] of this.#durable) if (thread === threadId) this.#durable.delete(key);
  }

  override getNextVersion(current: number | undefined): number {
    return this.#inner.getNextVersion(current);
  }

  override getDeltaChannelHistory(
    options: Parameters<BaseCheckpointSaver["getDeltaChannelHistory"]>[0],
  ): ReturnType<BaseCheckpointSaver["getDeltaChannelHistory"]> {
    return this.#inner.getDeltaChannelHistory(options);
  }

  #remember(config: RunnableConfig, id: string): void {
    const ns = String(config.configurable?.["checkpoint_ns"] ?? "");
    const key = keyOf(ns, id);
    this.#durable.delete(key);
    this.#durable.set(key, String(config.configurable?.["thread_id"] ?? ""));
    for (const wake of this.#waiters.get(key) ?? []) wake();
    if (this.#durable.size <= this.#checkpointsMax) return;
    for (const oldest of this.#durable.keys()) {
      this.#durable.delete(oldest);
      this.#forgotten += 1;
      break;
    }
  }

  // Waiters are bounded by the calls in flight, each of which leaves after waitMs at the latest.
  #wait(key: string, waitMs: number): Promise<boolean> {
    return new Promise((resolve) => {
      const waiters = this.#waiters.get(key) ?? new Set();
      const leave = (durable: boolean): void => {
        clearTimeout(timer);
        waiters.delete(wake);
        if (waiters.size === 0) this.#waiters.delete(key);
        resolve(durable);
      };
      const wake = (): void => leave(true);
      const timer = setTimeout(() => leave(false), waitMs);
      waiters.add(wake);
      this.#waiters.set(key, waiters);
    });
  }
}

function keyOf(ns: string, id: string): string {
  return `${id} ${ns}`;
}
