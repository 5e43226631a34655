// What a worker does beside its deliveries: sends runs whose turn has come and completions, ends cancelled ones that nobody holds, and buries deliveries that nothing brings back.
import type { SQSClient } from "@aws-sdk/client-sqs";
import { replyQueues } from "./completion.ts";
import { type CompletionCounts, CompletionOutbox } from "./completion-outbox.ts";
import type { WorkerParts } from "./delivery.ts";
import { sweepLost } from "./delivery-sweep.ts";
import { errorText } from "./errors.ts";
import { endAskedRuns } from "./run-cancel.ts";
import { sendWaiting } from "./run-waiting.ts";

export interface Housekeeping {
  /** A delivery gave its thread back: looks for a waiting run of this thread and for completions now, without being waited for. */
  threadFreed(threadId: string): void;
  /** What became of this worker's completions so far. */
  completions(): CompletionCounts;
  stop(): void;
  /** After the last delivery: sends what waits for the threads just freed, and the completions that are left. May be left waiting; another worker's look finds the rest. */
  settle(): Promise<void>;
}

/** Looked at this often for runs whose turn has come and that nobody sent. */
const WAITING_EVERY_MS = 15_000;
/** A thread that freed is looked at this much later, with those that free meanwhile. Short beside a message's way through SQS. */
const FREED_GATHER_MS = 20;
/** Looked at this often for completions that nobody has sent yet, give or take a third. */
const COMPLETIONS_EVERY_MS = 5_000;
/** Looked at this often for lost deliveries, give or take a third, so that workers started together do not look together. */
const SWEEP_EVERY_MS = 60_000;
/** A delivery may be silent for two visibilities and this: every redelivery comes first. */
const SILENT_EXTRA_MS = 60_000;

export function startHousekeeping(parts: WorkerParts, client: SQSClient): Housekeeping {
  const look = async (threadIds?: readonly string[]): Promise<void> => {
    await sendWaiting({ db: parts.pool, client, queueUrl: parts.queue.url }, threadIds).catch((error: unknown) =>
      parts.log.warn({ error: errorText(error) }, "waiting runs could not be sent; the next look tries again"),
    );
  };
  // Threads that free together are looked at together: a look for each was a statement a message. Bounded by the worker's slots.
  let freed = new Set<string>();
  const lookAtFreed = async (): Promise<void> => {
    const threadIds = [...freed];
    freed = new Set();
    if (threadIds.length > 0) await look(threadIds);
  };
  const cancel = (): void => {
    endAskedRuns(parts.pool).catch((error: unknown) =>
      parts.log.warn({ error: errorText(error) }, "cancelled runs could not be ended; the next look tries again"),
    );
  };
  const sweep = (): void => {
    sweepOnce(parts).catch((error: unknown) =>
      parts.log.warn({ error: errorText(error) }, "lost deliveries could not be swept; the next sweep tries again"),
    );
  };
  const outbox = new CompletionOutbox({
    db: parts.pool,
    client,
    queueUrl: parts.queue.url,
    allowed: replyQueues(parts.config.replyQueues),
    random: parts.random,
    log: parts.log,
  });
  const timers = [
    setInterval(() => void look(), WAITING_EVERY_MS),
    setInterval(() => void outbox.look(), COMPLETIONS_EVERY_MS * (1 + (parts.random() - 0.5) / 1.5)),
    setInterval(cancel, WAITING_EVERY_MS),
    setInterval(sweep, SWEEP_EVERY_MS * (1 + (parts.random() - 0.5) / 1.5)),
  ];
  for (const timer of timers) timer.unref();
  return {
    threadFreed: (threadId) => {
      if (freed.size === 0) setTimeout(() => void lookAtFreed(), FREED_GATHER_MS);
      freed.add(threadId);
      outbox.poke();
    },
    completions: () => outbox.counts(),
    stop: () => timers.forEach(clearInterval),
    settle: async () => {
      await lookAtFreed();
      await outbox.settle();
    },
  };
}

/** @returns how many deliveries were buried */
export async function sweepOnce(parts: WorkerParts, silentMs?: number): Promise<number> {
  const silent = silentMs ?? 2 * parts.config.visibilitySeconds * 1000 + SILENT_EXTRA_MS;
  const swept = await sweepLost(parts.pool, silent);
  for (const { lost, run } of swept) await parts.burial.bury(lost, run);
  if (swept.length > 0)
    parts.log.warn({ deliveries: swept.length }, "deliveries were lost and their messages never came back");
  return swept.length;
}
