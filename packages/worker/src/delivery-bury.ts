// Burying the lost: what PostgreSQL knew of a delivery that never ended, made into its obituary. No more than it knew.
import type { Ledger, OpenExecution, Queryable } from "@reprise/tools";
import type { LostDelivery } from "@reprise/tracing";
import { z } from "zod";
import type { LostDeliveryRow } from "./delivery-rows.ts";
import { errorText } from "./errors.ts";
import type { Logger } from "./log.ts";

/** One lost delivery of a long run can have written very many checkpoints; an obituary shows the first of them. */
const CHECKPOINTS_MAX = 500;

export interface BurialParts {
  readonly db: Queryable;
  readonly ledger: Ledger;
  /** Schema of LangGraph's tables. */
  readonly checkpointSchema: string;
  readonly queue: string;
  readonly run: { readonly runId: string; readonly threadId: string; readonly agent: string };
  readonly foundAtMs: number;
}

/** What a burial needs of the worker. */
export interface BurialOptions {
  readonly pool: Queryable;
  readonly ledger: Ledger;
  readonly checkpointSchema: string;
  readonly queue: string;
  readonly wallNow: () => number;
  readonly log: Logger;
  readonly exportObituary: (lost: LostDelivery) => Promise<void>;
  /** Obituaries on their way at a time; more are dropped, logged and counted. Default 100. */
  readonly pendingMax?: number;
}

/**
 * Writes obituaries. The evidence is read before `bury` resolves, since the next execution overwrites it; the export goes on
 * by itself, so that a collector that is slow or gone delays no run. Nothing here rejects: an obituary is for people.
 */
export class Burial {
  readonly #options: BurialOptions;
  readonly #pending = new Set<Promise<void>>();
  #dropped = 0;

  constructor(options: BurialOptions) {
    this.#options = options;
  }

  /** Obituaries that were not sent because too many were on their way. */
  get dropped(): number {
    return this.#dropped;
  }

  async bury(lost: LostDeliveryRow, run: BurialParts["run"]): Promise<void> {
    const { pool: db, ledger, checkpointSchema, queue, wallNow } = this.#options;
    try {
      const parts = { db, ledger, checkpointSchema, queue, run, foundAtMs: wallNow() };
      this.#send(lost.deliveryId, await obituaryOf(lost, parts));
    } catch (error) {
      this.#failed(lost.deliveryId, error);
    }
  }

  /** Waits for the exports on their way, for the shutdown; whoever calls it sets the limit. */
  async settle(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  #send(deliveryId: string, obituary: LostDelivery): void {
    if (this.#pending.size >= (this.#options.pendingMax ?? 100)) {
      this.#dropped += 1;
      this.#failed(deliveryId, "too many obituaries are on their way");
      return;
    }
    const sent = this.#options
      .exportObituary(obituary)
      .catch((error: unknown) => this.#failed(deliveryId, error))
      .finally(() => this.#pending.delete(sent));
    this.#pending.add(sent);
  }

  #failed(deliveryId: string, error: unknown): void {
    this.#options.log.warn(
      { delivery_id: deliveryId, error: errorText(error), obituaries_dropped: this.#dropped },
      "the obituary of a lost delivery could not be written",
    );
  }
}

/** Must be asked before the next execution takes the call over: that claim overwrites who held the effect. */
export async function obituaryOf(lost: LostDeliveryRow, parts: BurialParts): Promise<LostDelivery> {
  const { runId, threadId, agent } = parts.run;
  const [checkpoints, open] = await Promise.all([
    checkpointsOf(lost.deliveryId, parts),
    parts.ledger.openExecutions(lost.deliveryId),
  ]);
  return {
    traceId: lost.traceId,
    rootSpanId: lost.rootSpanId,
    queue: parts.queue,
    sqsMessageId: lost.sqsMessageId,
    runId,
    threadId,
    agentName: agent,
    deliveryId: lost.deliveryId,
    worker: lost.worker,
    ...(lost.receiveCount === undefined ? {} : { receiveCount: lost.receiveCount }),
    startedAtMs: lost.startedAtMs,
    ...(lost.lastBeatAtMs === undefined ? {} : { lastBeatAtMs: lost.lastBeatAtMs }),
    foundAtMs: parts.foundAtMs,
    checkpoints,
    openExecutions: open.map(leftOpen),
  };
}

function leftOpen({
  tool,
  toolCallId,
  startedAtMs,
  nodeAttempt,
  policy,
}: OpenExecution): LostDelivery["openExecutions"][number] {
  return { tool, toolCallId, startedAtMs, nodeAttempt, policy };
}

const checkpointSchema = z.object({
  checkpoint_id: z.string(),
  step: z.number(),
  source: z.string(),
  written_ms: z.coerce.number(),
});

/** Our saver wrote the delivery's id into each checkpoint's metadata; LangGraph's own tables do not say who wrote a row. */
async function checkpointsOf(deliveryId: string, parts: BurialParts): Promise<LostDelivery["checkpoints"]> {
  const { rows } = await parts.db.query(
    `select checkpoint_id, (metadata->>'step')::int as step, metadata->>'source' as source,
       extract(epoch from (checkpoint->>'ts')::timestamptz) * 1000 as written_ms
     from ${quoteIdentifier(parts.checkpointSchema)}.checkpoints
     where thread_id = $1 and metadata->>'delivery_id' = $2 order by checkpoint_id limit ${CHECKPOINTS_MAX}`,
    [parts.run.threadId, deliveryId],
  );
  return rows.map((row) => {
    const { checkpoint_id: checkpointId, step, source, written_ms: writtenAtMs } = checkpointSchema.parse(row);
    return { checkpointId, step, source, writtenAtMs };
  });
}

/** The schema's name comes from configuration, and PostgreSQL takes no parameter in that place. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
