// The traces that the sampler's benchmarks make: 25 spans of 8 to 12 attributes, many traces in flight at once.

import { type Context, ROOT_CONTEXT, type Span, SpanKind, type Tracer, trace } from "@opentelemetry/api";
import { ATTR, SPAN } from "@reprise/tracing";

export const SPANS_PER_TRACE = 25;

export interface SpanLoad {
  readonly traces: number;
  readonly inFlight: number;
}

interface OpenTrace {
  readonly root: Span;
  readonly inside: Context;
}

/** Makes and ends `traces * 25` spans on the caller's stack. Traces advance in turns, a span each, `inFlight` at a time. */
export function playTraces(tracer: Tracer, { traces, inFlight }: SpanLoad): void {
  for (let done = 0; done < traces; done += inFlight) {
    const open = Array.from({ length: Math.min(inFlight, traces - done) }, (_, index) =>
      openTrace(tracer, done + index),
    );
    for (let step = 1; step < SPANS_PER_TRACE; step += 1) for (const each of open) playSpan(tracer, each, step);
    for (const { root } of open) root.end();
  }
}

function openTrace(tracer: Tracer, number: number): OpenTrace {
  const attributes = {
    [ATTR.runId]: `run_${number}`,
    [ATTR.threadId]: `thread_${number}`,
    [ATTR.agentName]: "billing",
    [ATTR.receiveCount]: 1,
    "messaging.system": "aws_sqs",
    "messaging.destination.name": "runs",
    "messaging.operation.type": "process",
    "messaging.message.id": `message-${number}`,
  };
  const root = tracer.startSpan(SPAN.process("runs"), { kind: SpanKind.CONSUMER, attributes }, ROOT_CONTEXT);
  return { root, inside: trace.setSpan(ROOT_CONTEXT, root) };
}

function playSpan(tracer: Tracer, { inside }: OpenTrace, step: number): void {
  const attributes = {
    [ATTR.threadId]: "thread_1",
    [ATTR.step]: step,
    [ATTR.node]: "tools",
    [ATTR.taskId]: "4f1d3a52-77aa-5d0e-9d5c-0f6a1f6f2c11",
    [ATTR.nodeAttempt]: 1,
    [ATTR.toolName]: "create_charge",
    [ATTR.toolCallId]: "toolu_01A09q90qw90lq917835lq9",
    [ATTR.toolArgsBytes]: 212,
  };
  const span = tracer.startSpan(SPAN.tool("create_charge"), { attributes }, inside);
  span.setAttribute(ATTR.toolOutcome, "done");
  span.setAttribute(ATTR.toolResultBytes, 96);
  span.end();
}
