// What a worker does beside its deliveries: sends runs whose turn has come, ends cancelled ones that nobody holds, and buries deliveries that nothing brings back.
import type { SQSClient } from "@aws-sdk/client-sqs";
import type { WorkerParts } from "./delivery.ts";
import { sweepLost } from "./delivery-sweep.ts";
import { errorText } from "./errors.ts";
import { endAskedRuns } from "./run-cancel.ts";
import { sendWaiting } from "./run-waiting.ts";

export interface Housekeeping {
  /** Looks for a waiting run of this thread now, without being waited for. */
  sendWaiting(threadId: string): void;
  stop(): void;
}

/** Looked at this often for runs whose turn has come and that nobody sent. */
const WAITING_EVERY_MS = 15_000;
/** Looked at this often for lost deliveries, give or take a third, so that workers started together do not look together. */
const SWEEP_EVERY_MS = 60_000;
/** A delivery may be silent for two visibilities and this: every redelivery comes first. */
const SILENT_EXTRA_MS = 60_000;

export function startHousekeeping(parts: WorkerParts, client: SQSClient): Housekeeping {
  const look = (threadId?: string): void => {
    sendWaiting({ db: parts.pool, client, queueUrl: parts.queue.url }, threadId).catch((error: unknown) =>
      parts.log.warn({ error: errorText(error) }, "waiting runs could not be sent; the next look tries again"),
    );
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
  const timers = [
    setInterval(() => look(), WAITING_EVERY_MS),
    setInterval(cancel, WAITING_EVERY_MS),
    setInterval(sweep, SWEEP_EVERY_MS * (1 + (parts.random() - 0.5) / 1.5)),
  ];
  for (const timer of timers) timer.unref();
  return { sendWaiting: look, stop: () => timers.forEach(clearInterval) };
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
