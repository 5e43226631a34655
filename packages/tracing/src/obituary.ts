// The trace of a delivery whose worker was killed, rebuilt from rows: pure, and the same spans again when it is built twice.

import { createHash } from "node:crypto";
import {
  type Attributes,
  type AttributeValue,
  type HrTime,
  type Link,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
} from "@opentelemetry/api";
import { defaultResource } from "@opentelemetry/resources";
import type { ReadableSpan } from "@opentelemetry/sdk-trace-base";
import { ATTR, EVENT, SPAN } from "./names.ts";
import { definedAttributes, SCOPE } from "./span.ts";

export interface LostCheckpoint {
  readonly checkpointId: string;
  readonly step: number;
  readonly source: string;
  readonly writtenAtMs: number;
  readonly bytes?: number;
}

/** An execution that was begun and never settled: what it did outside is not known. */
export interface OpenExecution {
  readonly tool: string;
  readonly toolCallId: string;
  readonly startedAtMs: number;
  readonly nodeAttempt: number;
  /** The tool's declared effect: keyed, lookup or once. */
  readonly policy: string;
}

/** All times in epoch milliseconds. */
export interface LostDelivery {
  /** As written before work started: 32 and 16 hex digits. */
  readonly traceId: string;
  readonly rootSpanId: string;
  readonly queue: string;
  readonly sqsMessageId: string;
  readonly runId: string;
  readonly threadId: string;
  readonly agentName: string;
  readonly deliveryId: string;
  /** The worker that was lost, not the one that found it. */
  readonly worker: string;
  readonly receiveCount?: number;
  readonly startedAtMs: number;
  readonly lastBeatAtMs?: number;
  readonly foundAtMs: number;
  readonly checkpoints: readonly LostCheckpoint[];
  readonly openExecutions: readonly OpenExecution[];
  /** What the lost root had as parent, if it continued a trace. */
  readonly parent?: SpanContext;
  /** For instance to the sender's span. */
  readonly links?: readonly Link[];
}

/**
 * A root under its own trace and span id (never exported before: its process died first), one `checkpoint.put` per checkpoint
 * it wrote and one `tool:<name>` per execution it left open, all marked `agent.reconstructed`. The root ends at the last thing
 * known, not when it was found. Child span ids are hashes of what they stand for, so a repeated obituary does not multiply. No
 * HTTP span is invented: whether a request left is exactly what is not known.
 */
export function obituarySpans(
  lost: LostDelivery,
  resource: ReadableSpan["resource"] = defaultResource(),
): readonly ReadableSpan[] {
  const endedAtMs = lastKnownMs(lost);
  const root: SpanContext = { traceId: lost.traceId, spanId: lost.rootSpanId, traceFlags: TraceFlags.SAMPLED };
  const common = { resource, shared: sharedAttributes(lost) };
  return [
    rebuild({
      ...common,
      name: SPAN.process(lost.queue),
      kind: SpanKind.CONSUMER,
      context: root,
      parent: lost.parent,
      links: lost.links ?? [],
      startMs: lost.startedAtMs,
      endMs: endedAtMs,
      failure: EVENT.workerLost,
      attributes: rootAttributes(lost),
      foundAtMs: lost.foundAtMs,
    }),
    ...lost.checkpoints.map((checkpoint) =>
      rebuild({
        ...common,
        name: SPAN.checkpointPut,
        context: child(root, "checkpoint", checkpoint.checkpointId),
        parent: root,
        // A row knows when it was written, not how long that took.
        startMs: checkpoint.writtenAtMs,
        endMs: checkpoint.writtenAtMs,
        attributes: {
          [ATTR.checkpointId]: checkpoint.checkpointId,
          [ATTR.checkpointStep]: checkpoint.step,
          [ATTR.checkpointSource]: checkpoint.source,
          [ATTR.checkpointBytes]: checkpoint.bytes,
        },
      }),
    ),
    ...lost.openExecutions.map((execution) =>
      rebuild({
        ...common,
        name: SPAN.tool(execution.tool),
        context: child(root, "execution", `${execution.toolCallId}:${execution.nodeAttempt}:${execution.startedAtMs}`),
        parent: root,
        startMs: execution.startedAtMs,
        endMs: Math.max(endedAtMs, execution.startedAtMs),
        failure: "left open by a lost worker",
        attributes: {
          [ATTR.toolName]: execution.tool,
          [ATTR.toolCallId]: execution.toolCallId,
          [ATTR.toolPolicy]: execution.policy,
          [ATTR.toolOutcome]: "unknown",
          [ATTR.nodeAttempt]: execution.nodeAttempt,
        },
      }),
    ),
  ];
}

interface Rebuilt {
  readonly resource: ReadableSpan["resource"];
  readonly shared: Attributes;
  readonly name: string;
  readonly kind?: SpanKind;
  readonly context: SpanContext;
  readonly parent: SpanContext | undefined;
  readonly links?: readonly Link[];
  readonly startMs: number;
  readonly endMs: number;
  readonly failure?: string;
  readonly attributes: Readonly<Record<string, AttributeValue | undefined>>;
  readonly foundAtMs?: number;
}

function rebuild(span: Rebuilt): ReadableSpan {
  const endMs = Math.max(span.endMs, span.startMs);
  const found = span.foundAtMs === undefined ? [] : [{ time: hrTime(span.foundAtMs), name: EVENT.workerLost }];
  return {
    name: span.name,
    kind: span.kind ?? SpanKind.INTERNAL,
    spanContext: () => span.context,
    ...(span.parent === undefined ? {} : { parentSpanContext: span.parent }),
    startTime: hrTime(span.startMs),
    endTime: hrTime(endMs),
    duration: hrTime(endMs - span.startMs),
    ended: true,
    status:
      span.failure === undefined
        ? { code: SpanStatusCode.UNSET }
        : { code: SpanStatusCode.ERROR, message: span.failure },
    attributes: { ...span.shared, ...definedAttributes(span.attributes) },
    links: [...(span.links ?? [])],
    // When the loss was found lies after the end of the span: it is when somebody knew, not when it died.
    events: found,
    resource: span.resource,
    instrumentationScope: { name: SCOPE },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function sharedAttributes(lost: LostDelivery): Attributes {
  return {
    [ATTR.reconstructed]: true,
    [ATTR.runId]: lost.runId,
    [ATTR.threadId]: lost.threadId,
    [ATTR.deliveryId]: lost.deliveryId,
  };
}

function rootAttributes(lost: LostDelivery): Readonly<Record<string, AttributeValue | undefined>> {
  return {
    [ATTR.agentName]: lost.agentName,
    [ATTR.worker]: lost.worker,
    [ATTR.receiveCount]: lost.receiveCount,
    [ATTR.receiveCountMissing]: lost.receiveCount === undefined ? true : undefined,
    [ATTR.redelivered]: lost.receiveCount === undefined ? undefined : lost.receiveCount > 1,
    [ATTR.outcome]: "lost",
    [ATTR.conversationId]: lost.threadId,
    [ATTR.messagingSystem]: "aws_sqs",
    [ATTR.messagingSystemName]: "aws.sqs",
    [ATTR.messagingDestination]: lost.queue,
    [ATTR.messagingMessageId]: lost.sqsMessageId,
    [ATTR.messagingOperationName]: "process",
    [ATTR.messagingOperationType]: "process",
    [ATTR.errorType]: "worker_lost",
    [ATTR.samplingReason]: "error",
  };
}

/** The last beat, or anything later that it is known to have done. */
function lastKnownMs(lost: LostDelivery): number {
  return Math.max(
    lost.startedAtMs,
    lost.lastBeatAtMs ?? lost.startedAtMs,
    ...lost.checkpoints.map((checkpoint) => checkpoint.writtenAtMs),
    ...lost.openExecutions.map((execution) => execution.startedAtMs),
  );
}

function child(root: SpanContext, what: string, id: string): SpanContext {
  const hash = createHash("sha256").update(`${root.traceId}:${root.spanId}:${what}:${id}`).digest("hex");
  return { traceId: root.traceId, spanId: hash.slice(0, 16), traceFlags: root.traceFlags };
}

function hrTime(ms: number): HrTime {
  return [Math.floor(ms / 1_000), Math.round((ms % 1_000) * 1e6)];
}
