// Step 2 of 5, the doing - run: asks the rows, decides, refuses or waits, or takes the thread and goes on to the graph.
import { acquireFence } from "@reprise/tools";
import type { Agent } from "./agent.ts";
import type { Delivery, Ending, WorkerParts } from "./delivery.ts";
import { runDelivery } from "./delivery-run.ts";
import type { RefusalCode } from "./errors.ts";
import { leaseLengthMs } from "./lease-time.ts";
import type { AnswerRequest, RunRequest } from "./message.ts";
import { type Admission, decideAdmission } from "./run.ts";
import { type ParkedRunStatus, park } from "./run-park.ts";
import { type AdmitDelivery, cancelRuns, type DeliveryStart, type RunEvidence, setWaiting } from "./run-rows.ts";

/** Added to a deferral, so that copies do not come back in step. */
const DEFER_JITTER_MS = 2_000;

export async function admitAndRun(
  parts: WorkerParts,
  delivery: Delivery,
  request: RunRequest | AnswerRequest,
  agent: Agent,
): Promise<Ending> {
  const admitted = await parts.admissions.add(admissionOf(parts, delivery, request, agent));
  switch (admitted.state) {
    case "unknown":
      return refuse(parts, delivery, request, { code: "ANSWER_RUN_UNKNOWN", reason: `no run ${request.runId}` });
    case "taken": {
      const { evidence, fence, begun } = admitted;
      return await runDelivery(parts, delivery, {
        request,
        agent,
        evidence,
        fence,
        reopen: false,
        begun: { row: begun },
      });
    }
    case "known": {
      const { evidence } = admitted;
      const admission =
        request.kind === "run"
          ? decideRun(parts, delivery, request, evidence)
          : decideAnswer(request, { ...evidence, faultLimit: parts.config.faultLimit });
      return await act(parts, delivery, { request, agent, evidence, admission });
    }
    default:
      return admitted satisfies never;
  }
}

/** A run takes a free thread in the same statement; an answer is decided first. */
function admissionOf(
  parts: WorkerParts,
  delivery: Delivery,
  request: RunRequest | AnswerRequest,
  agent: Agent,
): AdmitDelivery {
  const start = startOf(parts, delivery, request);
  if (request.kind === "answer") return { start, asked: { kind: "answer" } };
  const asked = {
    kind: "run",
    agent: request.agent,
    inputHash: request.inputHash,
    body: delivery.body,
    queueUrl: parts.queue.url,
    ...(request.replyTo === undefined ? {} : { replyTo: request.replyTo }),
  } as const;
  const { faultLimit } = parts.config;
  return {
    start,
    asked,
    take: { leaseMs: leaseMsOf(parts, delivery), faultLimit, graphFingerprint: agent.fingerprint },
  };
}

/** Counts from the receive: a redelivery by expiry finds a dead lease. Whole, as the rows have it. */
function leaseMsOf(parts: WorkerParts, delivery: Delivery): number {
  const visibilityMs = parts.config.visibilitySeconds * 1000;
  return Math.trunc(leaseLengthMs(visibilityMs, parts.clock.now() - delivery.receivedAt));
}

function startOf(parts: WorkerParts, delivery: Delivery, request: RunRequest | AnswerRequest): DeliveryStart {
  const { traceId, spanId } = delivery.root.spanContext();
  return {
    deliveryId: delivery.deliveryId,
    sqsMessageId: delivery.sqsMessageId,
    receiveCount: delivery.receiveCount,
    runId: request.runId,
    threadId: request.threadId,
    worker: parts.worker,
    traceId,
    rootSpanId: spanId,
  };
}

function decideRun(parts: WorkerParts, delivery: Delivery, request: RunRequest, evidence: RunEvidence): Admission {
  return decideAdmission({
    ...evidence,
    request,
    sqsMessageId: delivery.sqsMessageId,
    faultLimit: parts.config.faultLimit,
  });
}

/** An answer never waits behind a new run: its run has the thread. Whether the interrupt is pending is decided on the thread's state. */
export function decideAnswer(
  request: AnswerRequest,
  { run, lease, faultLimit }: RunEvidence & { readonly faultLimit: number },
): Admission {
  if (run.threadId !== request.threadId || run.agent !== request.agent) {
    return { state: "refuse", code: "ANSWER_RUN_UNKNOWN", reason: `run ${run.runId} is on another thread or agent` };
  }
  if (run.status !== "interrupted" && run.status !== "running" && run.status !== "queued") {
    return { state: "settle", reason: `already ${run.status}` };
  }
  // A resume that kills its process is lost with each delivery of the answer, too.
  if (run.lostDeliveries + run.failedDeliveries >= faultLimit) {
    const reason = `${run.lostDeliveries} lost and ${run.failedDeliveries} failed deliveries`;
    return { state: "refuse", code: "FAULT_LIMIT", reason };
  }
  if (lease !== undefined)
    return { state: "defer", afterMs: lease.remainingMs, reason: `run ${lease.runId} holds the thread` };
  return { state: "take", reopen: false, supersedes: [], reason: "answered" };
}

interface Admitted {
  readonly request: RunRequest | AnswerRequest;
  readonly agent: Agent;
  readonly evidence: RunEvidence;
  readonly admission: Admission;
}

async function act(parts: WorkerParts, delivery: Delivery, admitted: Admitted): Promise<Ending> {
  const { admission, request } = admitted;
  switch (admission.state) {
    case "settle":
      return { outcome: "settled", reason: admission.reason, message: { do: "delete" }, row: "written" };
    case "defer":
      return deferred(parts, admission.afterMs, admission.reason);
    case "wait":
      // Marked before the delete: killed in between, the message comes back and waits again.
      await setWaiting(parts.pool, {
        runId: request.runId,
        deliveryId: delivery.deliveryId,
        reason: admission.reason,
        messageAttributes: delivery.messageAttributes,
      });
      return { outcome: "waiting", reason: admission.reason, message: { do: "delete" }, row: "none" };
    case "refuse":
      return refuse(parts, delivery, request, admission);
    case "take":
      return take(parts, delivery, { ...admitted, admission });
    default:
      return admission satisfies never;
  }
}

function deferred(parts: WorkerParts, afterMs: number, reason: string): Ending {
  const jittered = afterMs + parts.random() * DEFER_JITTER_MS;
  return { outcome: "deferred", reason, message: { do: "return", afterMs: jittered }, row: "written" };
}

/** Final for this message. The run itself is only closed when it had not begun; one under another input or answer lives on. */
async function refuse(
  parts: WorkerParts,
  delivery: Delivery,
  request: RunRequest | AnswerRequest,
  why: { readonly code: RefusalCode; readonly reason: string },
): Promise<Ending> {
  const parked = {
    sqsMessageId: delivery.sqsMessageId,
    queueUrl: parts.queue.url,
    runId: request.runId,
    threadId: request.threadId,
    receiveCount: delivery.receiveCount,
    code: why.code,
    reason: why.reason,
    body: delivery.body,
    messageAttributes: delivery.messageAttributes,
    traceId: delivery.root.spanContext().traceId,
  };
  await park(parts.pool, parked, runStatusAfter(why.code));
  const outcome = why.code === "FAULT_LIMIT" ? "parked" : "refused";
  return { outcome, code: why.code, reason: why.reason, message: { do: "delete" }, row: "written" };
}

function runStatusAfter(code: RefusalCode): ParkedRunStatus | undefined {
  if (code === "FAULT_LIMIT") return "parked";
  // Refused before it began, it must not keep its place on the thread.
  return code === "THREAD_BUSY" || code === "THREAD_AWAITS_ANSWER" ? "rejected" : undefined;
}

async function take(
  parts: WorkerParts,
  delivery: Delivery,
  admitted: Admitted & { readonly admission: Extract<Admission, { state: "take" }> },
): Promise<Ending> {
  const { request, admission } = admitted;
  const taken = await acquireFence(parts.pool, {
    threadId: request.threadId,
    runId: request.runId,
    deliveryId: delivery.deliveryId,
    owner: parts.worker,
    leaseMs: leaseMsOf(parts, delivery),
  });
  if (!("fence" in taken)) return deferred(parts, taken.remainingMs, `run ${taken.heldBy.runId} took the thread first`);
  if (admission.supersedes.length > 0) await cancelRuns(parts.pool, admission.supersedes);
  return runDelivery(parts, delivery, { ...admitted, fence: taken.fence, reopen: admission.reopen });
}
