// Every span, attribute and event name we emit. Documents, dashboards and tests take them from here, both ways.

/** Span names. A name that ends in a function takes the part that varies. */
export const SPAN = {
  /** The root of a delivery, kind CONSUMER. */
  process: (queue: string): string => `process ${queue}`,
  graphInvoke: "graph.invoke",
  node: (name: string): string => `node:${name}`,
  model: (name: string): string => `model:${name}`,
  tool: (name: string): string => `tool:${name}`,
  checkpointGet: "checkpoint.get",
  checkpointPut: "checkpoint.put",
  checkpointPutWrites: "checkpoint.put_writes",
  checkpointList: "checkpoint.list",
  checkpointDelete: "checkpoint.delete_thread",
} as const;

/** Attribute names. Ours live under `agent.`, `tool.`, `checkpoint.` and `sampling.`; the rest are OpenTelemetry's. */
export const ATTR = {
  // root
  receiveCount: "agent.receive_count",
  receiveCountMissing: "agent.receive_count_missing",
  redelivered: "agent.redelivered",
  redeliveryCause: "agent.redelivery_cause",
  unseenReceives: "agent.unseen_receives",
  runId: "agent.run_id",
  threadId: "agent.thread_id",
  deliveryId: "agent.delivery_id",
  agentName: "agent.name",
  resumedFromStep: "agent.resumed_from_step",
  resumeDecision: "agent.resume_decision",
  resumeReason: "agent.resume_reason",
  outcome: "agent.outcome",
  outcomeCode: "agent.outcome_code",
  superseded: "agent.superseded",
  /** The run was lost without progress before, so its worker does nothing else meanwhile. */
  alone: "agent.alone",
  worker: "agent.worker",
  /** On every span of an obituary: built afterwards from rows, not recorded by the process that died. */
  reconstructed: "agent.reconstructed",
  conversationId: "gen_ai.conversation.id",
  messagingSystem: "messaging.system",
  messagingSystemName: "messaging.system.name",
  messagingDestination: "messaging.destination.name",
  messagingMessageId: "messaging.message.id",
  messagingOperationName: "messaging.operation.name",
  messagingOperationType: "messaging.operation.type",
  // node
  step: "agent.step",
  node: "agent.node",
  taskId: "agent.task_id",
  nodeAttempt: "agent.node_attempt",
  // model
  genAiOperation: "gen_ai.operation.name",
  requestModel: "gen_ai.request.model",
  responseModel: "gen_ai.response.model",
  responseId: "gen_ai.response.id",
  finishReasons: "gen_ai.response.finish_reasons",
  inputTokens: "gen_ai.usage.input_tokens",
  outputTokens: "gen_ai.usage.output_tokens",
  timeToFirstChunk: "gen_ai.response.time_to_first_chunk",
  // tool
  toolName: "gen_ai.tool.name",
  toolCallId: "gen_ai.tool.call.id",
  toolArgs: "tool.args",
  toolArgsBytes: "tool.args_bytes",
  toolResult: "tool.result",
  toolResultBytes: "tool.result_bytes",
  toolPolicy: "tool.effect",
  toolDecision: "tool.decision",
  toolOutcome: "tool.outcome",
  toolErrorCode: "tool.error_code",
  toolEffectRef: "tool.effect_ref",
  toolReplayed: "tool.replayed",
  toolAttemptFailed: "tool.attempt_failed",
  toolCallRefSource: "tool.call_ref_source",
  toolEchoOf: "tool.echo_of",
  toolRepeatAfterSuccess: "tool.repeat_after_success",
  toolEffectSeen: "tool.effect_seen",
  toolHttpRequests: "tool.http_requests",
  toolKeySent: "tool.key_sent",
  // checkpoint
  checkpointStep: "checkpoint.step",
  checkpointPoolWaitMs: "checkpoint.pool_wait_ms",
  checkpointBytes: "checkpoint.bytes",
  checkpointId: "checkpoint.id",
  checkpointParentId: "checkpoint.parent_id",
  checkpointSource: "checkpoint.source",
  checkpointFound: "checkpoint.found",
  checkpointPendingWrites: "checkpoint.pending_writes",
  checkpointAgeMs: "checkpoint.age_ms",
  checkpointWrites: "checkpoint.writes",
  checkpointChannels: "checkpoint.channels",
  checkpointCount: "checkpoint.count",
  checkpointNamespace: "checkpoint.ns",
  // sampling
  samplingReason: "sampling.reason",
  /** On a snapshot of a span that was still open: the span itself follows under its own id. */
  samplingPending: "sampling.pending",
  // sampling, on metrics
  samplingVerdict: "sampling.verdict",
  samplingDropCause: "sampling.drop_cause",
  samplingCap: "sampling.cap",
  // OpenTelemetry
  errorType: "error.type",
} as const;

/** Span event names. */
export const EVENT = {
  firstToken: "first_token",
  toolCallComplete: "tool_call_complete",
  leaseLost: "lease.lost",
  /** SQS's twelve hours are nearly over: the run was asked to stop at its next checkpoint. */
  leaseWallNear: "lease.wall_near",
  workerLost: "worker lost",
} as const;

/** Metric names. OpenTelemetry's where it has one; no attribute of any of them names a run, a thread or a message. */
export const METRIC = {
  // worker
  processDuration: "messaging.process.duration",
  consumedMessages: "messaging.client.consumed.messages",
  deliveriesActive: "agent.deliveries.active",
  deliveriesEnded: "agent.deliveries.ended",
  deliveriesHandedBack: "agent.deliveries.handed_back",
  deliveriesRedelivered: "agent.deliveries.redelivered",
  messagesParked: "agent.messages.parked",
  receiveCount: "agent.receives.count",
  receiveCountMissing: "agent.receives.count_missing",
  receivesUnseen: "agent.receives.unseen",
  pollsFailed: "agent.polls.failed",
  leasesLost: "agent.leases.lost",
  leaseOldestAge: "agent.leases.oldest_age",
  slotsUsed: "agent.slots.used",
  slotsFree: "agent.slots.free",
  obituariesExported: "agent.obituaries.exported",
  obituariesFailed: "agent.obituaries.failed",
  // sampler and gate
  tracesDecided: "sampling.traces.decided",
  tracesUndecided: "sampling.traces.undecided",
  tracesBroughtBack: "sampling.traces.brought_back",
  decisionAge: "sampling.decision.age",
  capsForced: "sampling.caps.forced",
  policiesFailed: "sampling.policies.failed",
  spansReleased: "sampling.spans.released",
  spansExported: "sampling.spans.exported",
  spansDropped: "sampling.spans.dropped",
  spansLate: "sampling.spans.late",
  spansBuffered: "sampling.spans.buffered",
  spansQueued: "sampling.spans.queued",
  snapshotsEmitted: "sampling.snapshots.emitted",
  bufferBytes: "sampling.buffer.bytes",
  queueBytes: "sampling.queue.bytes",
  valuesRedacted: "sampling.values.redacted",
} as const;

/** Why a kept trace was kept, in `sampling.reason` on its local root. */
export type SamplingReason = "error" | "slow" | "redelivered" | "effect" | "share" | "cap" | "shutdown";
