// A checkpoint saver that gives every call of another saver its span, says who wrote each checkpoint, and can wait for itself.

import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type Checkpoint,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointTuple,
  type DeltaChannelHistory,
  type PendingWrite,
} from "@langchain/langgraph-checkpoint";
import { type AttributeValue, type Context, context, type Span, trace } from "@opentelemetry/api";
import { ATTR, SPAN } from "../names.ts";
import { definedAttributes, withSpan } from "../span.ts";
import { nextVersionLike } from "./channel-version.ts";
import { type CheckpointOrigin, cleanOrigin } from "./checkpoint-metadata.ts";
import { type ByteMeter, bytesRead, bytesWritten, meterIn } from "./counting-serde.ts";
import { InFlight } from "./in-flight.ts";
import { openSpan } from "./open-span.ts";

export interface TracedSaverOptions {
  /**
   * Merged into the metadata of every checkpoint put through this saver. A `run_id` here that equals `config.metadata.run_id` makes
   * LangGraph continue instead of applying the input again. One saver is meant to be made per delivery and lent to the graph.
   * Default: nothing is added.
   */
  readonly metadata?: CheckpointOrigin;
  /** Mint channel versions that no other branch can mint (langgraphjs#1812). Default true; false leaves it to the inner saver. */
  readonly uniqueVersions?: boolean;
  /** The clock for `checkpoint.age_ms`, in epoch milliseconds. Default Date.now. */
  readonly now?: () => number;
}

/**
 * Wraps any saver; nothing of it is replaced. Spans: checkpoint.get, .put, .put_writes, .list, .delete_thread, each a child of the
 * span that was active when the call was made, before it could wait for a pool (case F06). Results and errors pass through as they
 * are. `checkpoint.bytes` needs `countingSerde()` in the inner saver.
 */
export class TracedSaver extends BaseCheckpointSaver {
  readonly #inner: BaseCheckpointSaver;
  readonly #origin: CheckpointOrigin;
  readonly #uniqueVersions: boolean;
  readonly #now: () => number;
  readonly #stores = new InFlight();

  constructor(inner: BaseCheckpointSaver, options: TracedSaverOptions = {}) {
    super(inner.serde);
    this.#inner = inner;
    this.#origin = cleanOrigin(options.metadata ?? {});
    this.#uniqueVersions = options.uniqueVersions ?? true;
    this.#now = options.now ?? Date.now;
  }

  /** Puts and writes that have begun and not ended. */
  get inFlight(): number {
    return this.#stores.count;
  }

  /**
   * Resolves when no put, write or delete is in flight; never rejects. `invoke` rejects on the first failed write while others are
   * still on their way, so await this before giving up a lease. How long one may take is bounded by the pool's statement timeout.
   */
  settle(): Promise<void> {
    return this.#stores.idle();
  }

  /** The inner saver's set-up, if it has one. Not safe when several processes start it at once (PostgresSaver). */
  async setup(): Promise<void> {
    // `setup` is a convention of database savers and not part of the base class.
    const { setup } = this.#inner as { setup?: unknown };
    if (typeof setup === "function") await setup.call(this.#inner);
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const call = { name: SPAN.checkpointGet, attributes: place(config), bytes: bytesRead };
    return traced(call, async (span) => {
      const tuple = await this.#inner.getTuple(config);
      setAll(span, found(tuple, this.#now()));
      return tuple;
    });
  }

  override list(config: RunnableConfig, options?: CheckpointListOptions): AsyncGenerator<CheckpointTuple> {
    // A generator's body runs at the first next(), perhaps under another span: the parent is the one that is active now.
    return listTraced(() => this.#inner.list(config, options), place(config), context.active());
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const attributes = {
      ...place(config),
      [ATTR.checkpointId]: checkpoint.id,
      [ATTR.checkpointParentId]: configured(config, "checkpoint_id"),
      [ATTR.checkpointStep]: metadata.step,
      [ATTR.checkpointSource]: metadata.source,
      [ATTR.checkpointChannels]: Object.keys(newVersions).length,
    };
    const call = { name: SPAN.checkpointPut, attributes, bytes: bytesWritten };
    return this.#stores.track(() =>
      traced(call, () => this.#inner.put(config, checkpoint, { ...metadata, ...this.#origin }, newVersions)),
    );
  }

  override async putWrites(
    config: RunnableConfig,
    writes: PendingWrite[],
    taskId: string,
    taskPath?: string,
  ): Promise<void> {
    const attributes = {
      ...place(config),
      [ATTR.checkpointId]: configured(config, "checkpoint_id"),
      [ATTR.taskId]: taskId,
      [ATTR.checkpointWrites]: writes.length,
    };
    const call = { name: SPAN.checkpointPutWrites, attributes, bytes: bytesWritten };
    return this.#stores.track(() => traced(call, () => this.#inner.putWrites(config, writes, taskId, taskPath)));
  }

  override async deleteThread(threadId: string): Promise<void> {
    const call = { name: SPAN.checkpointDelete, attributes: { [ATTR.threadId]: threadId } };
    return this.#stores.track(() => traced(call, () => this.#inner.deleteThread(threadId)));
  }

  override getDeltaChannelHistory(options: {
    config: RunnableConfig;
    channels: string[];
  }): Promise<Record<string, DeltaChannelHistory>> {
    return this.#inner.getDeltaChannelHistory(options);
  }

  override getNextVersion(current: number | undefined): number {
    if (!this.#uniqueVersions) return this.#inner.getNextVersion(current);
    // LangGraph allows strings here and compares whatever it gets; the base class is declared for numbers only.
    return nextVersionLike(this.#inner, current) as number;
  }
}

type Attributes = Readonly<Record<string, AttributeValue | undefined>>;

interface TracedCall {
  readonly name: string;
  readonly attributes: Attributes;
  /** How to read the meter when the call has ended, also when it failed half-way. */
  readonly bytes?: (meter: ByteMeter) => number | undefined;
}

/** One call of the inner saver under its span, with a meter for the bytes it moves. */
async function traced<T>(call: TracedCall, run: (span: Span) => Promise<T>): Promise<T> {
  return withSpan(call.name, { attributes: call.attributes }, async (span) => {
    const { meter, metered } = meterIn(context.active());
    try {
      return await context.with(metered, run, undefined, span);
    } finally {
      setAll(span, { [ATTR.checkpointBytes]: call.bytes?.(meter) });
    }
  });
}

// The consumer may stop early, throw, or leave: `finally` closes the inner generator and the span in all three.
async function* listTraced(
  open: () => AsyncGenerator<CheckpointTuple>,
  attributes: Attributes,
  parent: Context,
): AsyncGenerator<CheckpointTuple> {
  const { span, end } = openSpan(SPAN.checkpointList, { attributes, parent });
  const { meter, metered } = meterIn(trace.setSpan(parent, span));
  const inside = <T>(run: () => T): T => context.with(metered, run);
  let failure: { readonly error: unknown } | undefined;
  let count = 0;
  const rows = inside(open);
  try {
    for (let row = await inside(() => rows.next()); !row.done; row = await inside(() => rows.next())) {
      count += 1;
      yield row.value;
    }
  } catch (error) {
    failure = { error };
    throw error;
  } finally {
    setAll(span, { [ATTR.checkpointCount]: count, [ATTR.checkpointBytes]: bytesRead(meter) });
    await inside(() => rows.return(undefined)).catch(() => {});
    await end(failure);
  }
}

/** Where in the checkpoint tables a call works: thread and, for a subgraph, its namespace. */
function place(config: RunnableConfig): Attributes {
  return {
    [ATTR.threadId]: configured(config, "thread_id"),
    [ATTR.checkpointNamespace]: configured(config, "checkpoint_ns") || undefined,
  };
}

/** What a read found. `age_ms` is the gap since the checkpoint was made: after a redelivery, the time the run lay idle. */
function found(tuple: CheckpointTuple | undefined, now: number): Attributes {
  if (tuple === undefined) return { [ATTR.checkpointFound]: false };
  const madeAt = Date.parse(tuple.checkpoint.ts);
  return {
    [ATTR.checkpointFound]: true,
    [ATTR.checkpointId]: tuple.checkpoint.id,
    [ATTR.checkpointParentId]: tuple.parentConfig && configured(tuple.parentConfig, "checkpoint_id"),
    [ATTR.checkpointStep]: tuple.metadata?.step,
    [ATTR.checkpointSource]: tuple.metadata?.source,
    [ATTR.checkpointPendingWrites]: tuple.pendingWrites?.length ?? 0,
    [ATTR.checkpointAgeMs]: Number.isFinite(madeAt) ? now - madeAt : undefined,
  };
}

/** A text from `config.configurable`, whose values are untyped. */
function configured(config: RunnableConfig, key: string): string | undefined {
  const value: unknown = config.configurable?.[key];
  return typeof value === "string" ? value : undefined;
}

function setAll(span: Span, attributes: Attributes): void {
  span.setAttributes(definedAttributes(attributes));
}
