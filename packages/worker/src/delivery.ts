// Step 1 to 2 of 5 - delivery: one received message in, its root span, rows and settlement out. Never rejects.
import { randomUUID } from "node:crypto";
import type { Message } from "@aws-sdk/client-sqs";
import { type Span, SpanKind } from "@opentelemetry/api";
import type { Ledger } from "@reprise/tools";
import { ATTR, extractTrace, type Gate, recordError, SPAN, withSpan } from "@reprise/tracing";
import type pg from "pg";
import type { Agent } from "./agent.ts";
import type { Config } from "./config.ts";
import type { Burial } from "./delivery-bury.ts";
import type { DeliveryEnds } from "./delivery-end.ts";
import type { Receipt, Receipts } from "./delivery-receipts.ts";
import { errorName, errorText, type RefusalCode } from "./errors.ts";
import type { LeaseWatch } from "./health-leases.ts";
import type { ReceivedMessage } from "./intake.ts";
import type { IntakeGate } from "./intake-gate.ts";
import { pause } from "./intake-pause.ts";
import type { Clock } from "./lease.ts";
import type { BeatRounds } from "./lease-beats.ts";
import { backoffMs, visibilityBeforeWallMs } from "./lease-time.ts";
import { type DeliveryLogger, deliveryLog, type Logger } from "./log.ts";
import { parseMessage } from "./message.ts";
import type { WorkerMetrics } from "./metrics.ts";
import type { DeliveryOutcome } from "./run.ts";
import { admitAndRun } from "./run-admit.ts";
import { park } from "./run-park.ts";
import type { DeliveryAdmissions } from "./run-rows.ts";
import type { Settler } from "./settle.ts";

/** Everything a delivery needs from outside; made once, in worker.ts. */
export interface WorkerParts {
  readonly config: Config;
  readonly pool: pg.Pool;
  readonly ledger: Ledger;
  /** Admissions and ends of deliveries that come together, each kind in one statement. */
  readonly admissions: DeliveryAdmissions;
  readonly ends: DeliveryEnds;
  readonly settler: Settler;
  readonly agents: ReadonlyMap<string, Agent>;
  readonly burial: Burial;
  /** What of tool arguments and results may stand on spans; applied at the source, for whichever SDK exports them. */
  readonly spanGate: Gate;
  /** Passed by each delivery; closed while one works alone. */
  readonly gate: IntakeGate;
  readonly queue: { readonly url: string; readonly name: string; readonly maxReceives: number | undefined };
  /** Host, process and start: who this worker is, in rows and spans. */
  readonly worker: string;
  readonly clock: Clock;
  /** When the leases of this worker beat: together where they are due together. */
  readonly beats: BeatRounds;
  /** Wall clock, for comparing with checkpoints that other hosts wrote. */
  readonly wallNow: () => number;
  readonly random: () => number;
  /** Of the worker; what is said of a delivery is said by that delivery's own. */
  readonly log: Logger;
  readonly metrics: WorkerMetrics;
  /** Handles of the messages in work: a second receive of one renews it for the first. */
  readonly receipts: Receipts;
  /** Leases in work, for the probes and the oldest one's age. */
  readonly leases: LeaseWatch;
  readonly drain: DrainSignals;
  /** Called when a thread may have become free for a waiting run. */
  readonly onThreadFree: (threadId: string) => void;
}

/** SIGTERM in two steps: first ask graphs to stop at their next checkpoint, then abort what is left. */
export interface DrainSignals {
  readonly asked: AbortSignal;
  readonly forced: AbortSignal;
  /**
   * Fires when no poll of this worker is open any more. A message is given back only then: the poll, cut but not yet closed at
   * SQS, would receive it for nobody, and it would stay hidden for a whole visibility (Q10).
   */
  readonly pollEnded: AbortSignal;
}

/** One receive of a message. `deliveryId` is ours: SQS's count can be missing or repeat. */
export interface Delivery {
  readonly deliveryId: string;
  readonly sqsMessageId: string;
  readonly receipt: Receipt;
  readonly receiveCount: number | undefined;
  readonly body: string;
  readonly messageAttributes: Message["MessageAttributes"];
  readonly receivedAt: number;
  /** Called when the run has ended and only settling is left: the slot goes to the next message. */
  readonly freeSlot: () => void;
  readonly root: Span;
  readonly log: DeliveryLogger;
}

/** How a delivery ends, and what becomes of its message. */
export interface Ending {
  readonly outcome: DeliveryOutcome;
  readonly code?: string;
  readonly reason: string;
  /** `keep`: the handle is no longer ours to use, SQS has or will have given the message to somebody else. */
  readonly message:
    | { readonly do: "delete" }
    | { readonly do: "return"; readonly afterMs: number }
    | { readonly do: "keep" };
  /** `written`: the delivery row is there, and this closes it. `ended`: it was closed together with its run. */
  readonly row: "written" | "ended" | "none";
  /** The lease to give back with the row; with an `ended` one it was given back. */
  readonly release?: { readonly threadId: string; readonly fence: string };
}

/** Base and cap of the delay after a transient failure; full jitter. */
const RETRY = { baseMs: 1_000, maxMs: 300_000 } as const;
/** A message for a newer worker comes back after this, growing with each receive (case C16). */
const NOT_FOR_ME_MS = 30_000;
/** A cut poll has ended after this, whatever it hangs in (intake-client.ts). */
const POLL_END_MAX_MS = 2_000;
/** Without a redrive policy nobody else ends such a message: park it after this many receives. */
const NOT_FOR_ME_RECEIVES = 10;

export async function handleDelivery(parts: WorkerParts, received: ReceivedMessage): Promise<void> {
  const { message } = received;
  const count = receiveCount(message);
  const sender = extractTrace(message.MessageAttributes).spanContext;
  await withSpan(
    SPAN.process(parts.queue.name),
    {
      kind: SpanKind.CONSUMER,
      root: true,
      gate: parts.spanGate,
      // A link, not a parent: each delivery is a trace of its own (messaging semantic conventions).
      links: sender === undefined ? [] : [{ context: sender }],
      attributes: {
        [ATTR.receiveCount]: count,
        [ATTR.receiveCountMissing]: count === undefined ? true : undefined,
        [ATTR.worker]: parts.worker,
        [ATTR.messagingSystem]: "aws_sqs",
        [ATTR.messagingSystemName]: "aws.sqs",
        [ATTR.messagingDestination]: parts.queue.name,
        [ATTR.messagingMessageId]: message.MessageId,
        [ATTR.messagingOperationName]: "process",
        [ATTR.messagingOperationType]: "process",
      },
    },
    async (root) => {
      const handle = message.ReceiptHandle ?? "";
      const open = parts.receipts.open(message.MessageId ?? handle, handle);
      const delivery = deliveryOf(parts, received, { count, root, receipt: open.receipt });
      root.setAttribute(ATTR.deliveryId, delivery.deliveryId);
      parts.metrics.began(count);
      try {
        const ending = besideTwin(await endingOf(parts, delivery), open.twin);
        await settleEnding(parts, delivery, ending);
        parts.metrics.ended(ending, parts.clock.now() - received.receivedAt);
      } finally {
        open.close();
      }
    },
  );
}

/** The copy in work beside it holds the message by this delivery's own handle: nothing is said about it here (Q16). */
function besideTwin(ending: Ending, twin: boolean): Ending {
  return twin && ending.outcome === "deferred" ? { ...ending, message: { do: "keep" } } : ending;
}

function deliveryOf(
  { log }: WorkerParts,
  { message, receivedAt, freeSlot }: ReceivedMessage,
  { count, root, receipt }: { readonly count: number | undefined; readonly root: Span; readonly receipt: Receipt },
): Delivery {
  const deliveryId = randomUUID();
  return {
    deliveryId,
    sqsMessageId: message.MessageId ?? "",
    receipt,
    receiveCount: count,
    body: message.Body ?? "",
    messageAttributes: message.MessageAttributes,
    receivedAt,
    freeSlot,
    root,
    log: deliveryLog(log, deliveryId),
  };
}

/** Only what SQS said, never a default: a silent 1 would hide every redelivery (case C06). */
export function receiveCount(message: Message): number | undefined {
  const text = message.Attributes?.ApproximateReceiveCount ?? "";
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  return count >= 1 ? count : undefined;
}

/** Whatever goes wrong in our own parts is a transient failure of this delivery, not of the run. */
async function endingOf(parts: WorkerParts, delivery: Delivery): Promise<Ending> {
  try {
    return await read(parts, delivery);
  } catch (error) {
    recordError(delivery.root, error);
    delivery.log.error({ error: errorText(error) }, "the delivery failed before its run could be driven");
    const afterMs = backoffMs(delivery.receiveCount ?? 1, parts.random(), RETRY);
    return {
      outcome: "failed_retry",
      code: errorName(error),
      reason: errorText(error),
      message: { do: "return", afterMs },
      row: "written",
    };
  }
}

function read(parts: WorkerParts, delivery: Delivery): Promise<Ending> | Ending {
  const message = parseMessage(delivery.body, { snsEnvelope: parts.config.snsEnvelope });
  switch (message.kind) {
    case "bad":
      return parkMessage(parts, delivery, message.code, message.detail);
    case "newer":
      return notForMe(parts, delivery, "MESSAGE_NEWER_SCHEMA", `the message says schema ${message.schema}`);
    case "run":
    case "answer": {
      delivery.root.setAttributes({
        [ATTR.runId]: message.runId,
        [ATTR.threadId]: message.threadId,
        [ATTR.conversationId]: message.threadId,
        [ATTR.agentName]: message.agent,
      });
      delivery.log.ofRun(message);
      const agent = parts.agents.get(message.agent);
      if (agent === undefined) return notForMe(parts, delivery, "AGENT_UNKNOWN", `no agent "${message.agent}" here`);
      if (message.kind === "run" && message.inputRef !== undefined && agent.loadInput === undefined)
        return notForMe(parts, delivery, "INPUT_REF_UNKNOWN", `agent "${message.agent}" here has no loadInput`);
      return admitAndRun(parts, delivery, message, agent);
    }
    default:
      return message satisfies never;
  }
}

/** Never for any worker: kept with its bytes, and out of the queue. Killed before the delete, it is parked again as the same row. */
async function parkMessage(parts: WorkerParts, delivery: Delivery, code: RefusalCode, reason: string): Promise<Ending> {
  await park(parts.pool, {
    sqsMessageId: delivery.sqsMessageId,
    queueUrl: parts.queue.url,
    receiveCount: delivery.receiveCount,
    code,
    reason,
    body: delivery.body,
    messageAttributes: delivery.messageAttributes,
    traceId: delivery.root.spanContext().traceId,
  });
  return { outcome: "parked", code, reason, message: { do: "delete" }, row: "none" };
}

/** Newer than me is "not for me yet": given back, later each time, and parked intact only when SQS would bury it next (case C16). */
function notForMe(parts: WorkerParts, delivery: Delivery, code: RefusalCode, reason: string): Promise<Ending> | Ending {
  const count = delivery.receiveCount ?? 1;
  if (count >= (parts.queue.maxReceives ?? NOT_FOR_ME_RECEIVES)) return parkMessage(parts, delivery, code, reason);
  const afterMs = Math.min(NOT_FOR_ME_MS * count, 900_000);
  return { outcome: "returned", code, reason, message: { do: "return", afterMs }, row: "none" };
}

/**
 * A delete comes before the row's end, a give-back after it. Killed between: after the delete the run's terminal status
 * stands already; before the give-back the lease is free and the message comes back by its visibility.
 */
async function settleEnding(parts: WorkerParts, delivery: Delivery, ending: Ending): Promise<void> {
  const { root } = delivery;
  delivery.freeSlot();
  root.setAttribute(ATTR.outcome, ending.outcome);
  if (ending.code !== undefined) root.setAttribute(ATTR.outcomeCode, ending.code);
  const fields = {
    outcome: ending.outcome,
    code: ending.code,
    reason: ending.reason,
  };
  try {
    if (ending.message.do === "delete") await deleteMessage(parts, delivery);
    if (ending.row === "written") await closeRow(parts, delivery, ending);
    if (ending.message.do === "return") await giveBack(parts, delivery, ending.message.afterMs);
    delivery.log.info(fields, "delivery ended");
  } catch (error) {
    // Nothing is lost: the message returns by its visibility, and the rows say what was already done.
    recordError(root, error);
    delivery.log.warn(
      { ...fields, error: errorText(error) },
      "the delivery's end could not be written; the message will be delivered again",
    );
  }
  if (ending.release !== undefined) parts.onThreadFree(ending.release.threadId);
}

async function giveBack(parts: WorkerParts, delivery: Delivery, afterMs: number): Promise<void> {
  const { asked, pollEnded } = parts.drain;
  if (asked.aborted) await pause(POLL_END_MAX_MS, pollEnded);
  // More than is left of the twelve hours would be refused, and the message would come back only by its last beat.
  const wholeMs = Math.ceil(afterMs / 1000) * 1000;
  const visibleMs = visibilityBeforeWallMs(wholeMs, parts.clock.now() - delivery.receivedAt);
  await parts.settler.setVisibility(delivery.receipt.handle, visibleMs / 1000);
}

/** A delete that fails after a finished run is a warning: the next delivery finds the run done and deletes (case C08, C13). */
async function deleteMessage(parts: WorkerParts, delivery: Delivery): Promise<void> {
  try {
    await parts.settler.delete(delivery.receipt.handle);
  } catch (error) {
    delivery.log.warn(
      { error: errorText(error) },
      "the message was not deleted; it will be settled on its next delivery",
    );
  }
}

async function closeRow(parts: WorkerParts, delivery: Delivery, ending: Ending): Promise<void> {
  const { ended } = await parts.ends.add({
    deliveryId: delivery.deliveryId,
    outcome: ending.outcome,
    reason: ending.reason,
    ...(ending.code === undefined ? {} : { code: ending.code }),
    ...(ending.release === undefined ? {} : { release: ending.release }),
  });
  // Zero rows: another worker thought us lost and wrote our obituary under this span id. Ours leaves under a fresh one.
  if (!ended && ending.outcome === "lease_lost") delivery.root.setAttribute(ATTR.superseded, true);
}
