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
export interface BurialOffice {
  readonly pool: Queryable;
  readonly ledger: Ledger;
  readonly config: { readonly checkpointSchema: string };
  readonly queue: { readonly name: string };
  readonly wallNow: () => number;
  readonly log: Logger;
  readonly exportObituary: (lost: LostDelivery) => Promise<void>;
}

/** The obituary is for people: failing to write one is logged, and stops neither the run that lives nor the sweep. */
export async function writeObituary(
  office: BurialOffice,
  lost: LostDeliveryRow,
  run: BurialParts["run"],
): Promise<void> {
  try {
    const obituary = await obituaryOf(lost, {
      db: office.pool,
      ledger: office.ledger,
      checkpointSchema: office.config.checkpointSchema,
      queue: office.queue.name,
      run,
      foundAtMs: office.wallNow(),
    });
    await office.exportObituary(obituary);
  } catch (error) {
    office.log.warn(
      { delivery_id: lost.deliveryId, error: errorText(error) },
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
