// The saver of one delivery: PostgreSQL under the delivery's fence, traced, with the evidence the tools' barrier asks for.
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type PendingWrite,
  type SerializerProtocol,
} from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { type FencedStatement, fencedPool } from "@reprise/tools";
import { BarrierSaver } from "@reprise/tools/langgraph";
import { countingSerde, TracedSaver } from "@reprise/tracing/langgraph";
import type pg from "pg";
import { overLostConnections } from "./pool-lost.ts";
import { checkpointMark } from "./run-rows.ts";

export interface DeliverySaverParts {
  readonly pool: pg.Pool;
  /** Schema of LangGraph's tables. */
  readonly schema: string;
  readonly serde?: SerializerProtocol;
  /** The run whose row moves along with each root checkpoint; absent where a write must not count as the run's own. */
  readonly runId?: string;
  readonly threadId: string;
  readonly fence: string;
  /** While it is, a read or write whose connection was lost is tried again: each may be repeated. Never by default. */
  readonly isLive?: () => boolean;
  /** Called when a root checkpoint's mark finds that the run's cancel was asked: before the next step begins. */
  readonly onCancelAsked?: () => void;
  /** Goes into each checkpoint's metadata: who wrote it, for resume, obituary and diagnosis. */
  readonly metadata: Readonly<Record<string, string | number | boolean>>;
}

export interface DeliverySaver {
  /** Lent to the graph for this delivery. */
  readonly saver: BaseCheckpointSaver;
  /** Waits for puts and writes still in flight: a failed invoke rejects before its siblings have landed. */
  settle(): Promise<void>;
}

export function deliverySaver(parts: DeliverySaverParts): DeliverySaver {
  const traced = new TracedSaver(new FencedSaver(parts), { metadata: parts.metadata });
  return { saver: new BarrierSaver(traced), settle: () => traced.settle() };
}

/**
 * A stock PostgresSaver whose every write asserts the thread's fence inside its own transaction, and whose root
 * checkpoints move the run row along in that same transaction. A stale worker stores nothing
 * (`test/delivery-saver.real.test.ts`). Reads are the stock saver's.
 */
class FencedSaver extends BaseCheckpointSaver {
  readonly #parts: DeliverySaverParts;
  readonly #reader: PostgresSaver;
  readonly #writer: PostgresSaver;
  /** Of the thread's root: found without a checkpoint, or written to since. Nobody else writes under our fence. */
  #root: "unread" | "empty" | "written" = "unread";

  constructor(parts: DeliverySaverParts) {
    const serde = countingSerde(parts.serde);
    super(serde);
    this.#parts = parts;
    this.#reader = new PostgresSaver(parts.pool, serde, { schema: parts.schema });
    this.#writer = this.#writerWith([]);
  }

  /** The worker reads a thread's latest checkpoint to decide, and LangGraph to begin: a new thread is looked up once for both. */
  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const isLatest = isLatestOfRoot(config, this.#parts.threadId);
    if (isLatest && this.#root === "empty") return undefined;
    const tuple = await this.#lasting(() => this.#reader.getTuple(config));
    if (isLatest && tuple === undefined && this.#root === "unread") this.#root = "empty";
    return tuple;
  }

  override list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    return this.#reader.list(config, options);
  }

  override put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const isRoot = namespaceOf(config) === "";
    this.#root = "written";
    const { runId, onCancelAsked } = this.#parts;
    const mark: FencedStatement[] = [];
    if (isRoot && runId !== undefined) {
      const onRows: FencedStatement["onRows"] = ([row]) => row?.["cancel_asked"] === true && onCancelAsked?.();
      mark.push({ ...checkpointMark(runId, checkpoint.id, metadata.step), onRows });
    }
    return this.#lasting(() => this.#writerWith(mark).put(config, checkpoint, metadata, newVersions));
  }

  override async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    this.#root = "written";
    await this.#lasting(() => this.#writer.putWrites(config, writes, taskId));
  }

  override deleteThread(threadId: string): Promise<void> {
    return this.#writer.deleteThread(threadId);
  }

  /** The saver's statements are upserts under the fence: what a lost COMMIT stored is stored again, by the same holder alone. */
  #lasting<T>(call: () => Promise<T>): Promise<T> {
    return overLostConnections(this.#parts.isLive ?? ((): boolean => false), call);
  }

  /** A saver per put costs a constructor without I/O, and spares the transaction a context to be passed through. */
  #writerWith(beforeCommit: readonly FencedStatement[]): PostgresSaver {
    const { pool, threadId, fence, schema } = this.#parts;
    return new PostgresSaver(fencedPool(pool, { threadId, fence }, { beforeCommit }), this.serde, { schema });
  }
}

function isLatestOfRoot(config: RunnableConfig, threadId: string): boolean {
  const { thread_id: thread, checkpoint_id: checkpoint } = config.configurable ?? {};
  return thread === threadId && namespaceOf(config) === "" && checkpoint === undefined;
}

function namespaceOf(config: RunnableConfig): unknown {
  return config.configurable?.["checkpoint_ns"] ?? "";
}
