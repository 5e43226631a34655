// @reprise/worker: what a program that runs or feeds a worker imports, in the order of the flow.

export {
  type Agent,
  type AgentDefinition,
  type AgentGraph,
  defineAgent,
  type LoadInput,
  type LoadInputRun,
} from "./agent.ts";
export { type AskedInterrupt, type Completion, parseCompletion, type RunReport } from "./completion.ts";
export { type Config, readConfig } from "./config.ts";
export { SETTINGS, type Setting } from "./config-settings.ts";
export { type Redelivery, type RedeliveryCause, redeliveryCause } from "./delivery-cause.ts";
export { REFUSALS, type RefusalCode, WorkerError, type WorkerErrorCode } from "./errors.ts";
export { decideResume, type ResumeDecision, type ResumeEvidence } from "./graph-resume.ts";
// parts of the worker that other consumers can use: how long to wait after a failed receive, and confirmed deletes in batches
export { classifyReceive, type ReceiveFailure, receiveBackoffMs } from "./intake-failure.ts";
export { type AnswerRequest, MESSAGE_SCHEMA, type ParsedMessage, parseMessage, type RunRequest } from "./message.ts";
export { migrateDatabase } from "./migrate.ts";
export { type Sent, sendAnswer, sendRun } from "./producer.ts";
export { type RunSendResult, type SendRunsOptions, sendRuns } from "./producer-batch.ts";
export type { AnswerToSend, RunToSend } from "./producer-message.ts";
export type { DeliveryOutcome, RunStatus } from "./run.ts";
export { type CancelAnswer, requestCancel } from "./run-cancel.ts";
export { countPrunable, type Pruned, type PruneOptions, prune } from "./run-prune.ts";
export { type WaitOptions, waitForRun } from "./run-wait.ts";
export { createSettler, type RefusedEntry, type Settler, type SettlerOptions } from "./settle.ts";
export { type ToolAgentOptions, toolAgent } from "./tool-agent.ts";
export { startWorker, type Worker, type WorkerOptions } from "./worker.ts";
