// The worker's own check at its start: one request, warnings for what is worse than it could be, and a refusal of what loses work.
import type { SQSClient } from "@aws-sdk/client-sqs";
import { PRODUCT } from "@reprise/tracing";
import type { CheckedConfig, CheckLine } from "./check.ts";
import { queueAttributes, within } from "./check-collect.ts";
import { poolLine } from "./check-database.ts";
import { maxReceivesOf, queueLines, redriveLine } from "./check-queue.ts";
import { WorkerError } from "./errors.ts";
import type { Logger } from "./log.ts";

const TIMEOUT_MS = 5_000;

export interface StartCheck {
  /** The redrive policy's limit: at the last receive before the DLQ some messages are parked instead of given back. */
  readonly maxReceives: number | undefined;
}

/**
 * A queue that cannot be looked at is warned about, no more: it may be back before the first receive, and a role without
 * `sqs:GetQueueAttributes` can still work.
 *
 * @throws WorkerError QUEUE_UNFIT when the redrive policy buries a message after one or two receives (case C03)
 */
export async function checkAtStart(client: SQSClient, config: CheckedConfig, log: Logger): Promise<StartCheck> {
  const looked = await within(TIMEOUT_MS, (signal) => queueAttributes(client, config.queueUrl, signal));
  const maxReceives = looked.state === "read" ? maxReceivesOf(looked.value) : undefined;
  const redrive = redriveLine(maxReceives);
  if (redrive.verdict === "fail") throw new WorkerError("QUEUE_UNFIT", `${redrive.found}: ${redrive.fix ?? ""}`);
  const queue = looked.state === "read" ? ({ state: "read", value: { attributes: looked.value } } as const) : looked;
  for (const line of [...queueLines(queue, config), poolLine(config)]) warn(log, line);
  return { maxReceives };
}

function warn(log: Logger, { verdict, what, found, needed, fix }: CheckLine): void {
  if (verdict === "ok") return;
  log.warn({ check: what, found, needed, fix }, `${what}: ${found}; see \`${PRODUCT.name} check\``);
}
