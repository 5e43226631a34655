// Every error and refusal a user of the worker can meet: a code, what happened, to what, and what to do next.
import { PRODUCT } from "@reprise/tracing";

/**
 * Codes of refusals: what the message's span, its row and the operator see. The README lists each with its remedy;
 * `test/errors.test.ts` compares both lists.
 */
export const REFUSALS = {
  MESSAGE_NOT_JSON: `The body is not JSON. Send a JSON object; \`${PRODUCT.name} send\` builds one.`,
  MESSAGE_SHAPE: "The body is JSON but not a run request. Compare it with the message schema in the README.",
  THREAD_ID_INVALID: "thread_id must be 1 to 512 characters without control characters or lone surrogates.",
  RUN_ID_INVALID: "run_id must be 1 to 200 characters without control characters or lone surrogates.",
  MESSAGE_NEWER_SCHEMA: "The message was written for a newer worker. Deploy a worker that knows this schema.",
  AGENT_UNKNOWN: "No agent of this name is registered here. Deploy a worker that has it, or correct `agent`.",
  RUN_ID_REUSED: "This run_id already names a run with another input. Use a new run_id for a new wish.",
  THREAD_BUSY: "Another run of this thread is not finished, and the message asked to be rejected then.",
  THREAD_AWAITS_ANSWER: "The thread waits for a human answer. Answer it, or send the run with `supersede: true`.",
  ANSWER_RUN_UNKNOWN: "The answer names a run that this database does not know. Check run_id and DATABASE_URL.",
  ANSWER_UNKNOWN_INTERRUPT: `The answer names an interrupt that is not pending. \`${PRODUCT.name} runs\` lists the pending ones.`,
  ANSWER_CONFLICT: "Another value was already recorded for this interrupt. The first answer stands.",
  HEAD_NOT_OWN:
    "The thread's latest checkpoint belongs to something else, so resuming could repeat work. Inspect the thread.",
  GRAPH_CHANGED:
    "A pending step of this run does not exist in the deployed graph. Deploy the old graph, or cancel the run.",
  FAULT_LIMIT: "Too many deliveries of this run were lost or failed. Read the last errors, then redrive it.",
  NO_PROGRESS:
    "Workers were lost with this run twice without a new checkpoint, the second time alone. Find what kills them, then redrive it.",
  INPUT_REF_UNKNOWN:
    "The message has an `input_ref`, and its agent here has no `loadInput`. Deploy an agent that has one.",
  REPLY_QUEUE_REFUSED:
    "`reply_to` names a queue that the worker's reply queues do not hold. The run goes on; nobody is told of its end.",
} as const;

export type RefusalCode = keyof typeof REFUSALS;

/** Codes of errors that stop the process or reach the caller of the API. */
export type WorkerErrorCode =
  | "CONFIG_MISSING"
  | "CONFIG_INVALID"
  | "CONFIG_BUDGET"
  | "AGENT_MODULE_INVALID"
  | "AGENT_INVALID"
  | "AGENT_DUPLICATE"
  | "DATABASE_NOT_MIGRATED"
  | "HEALTH_PORT_UNAVAILABLE"
  | "MESSAGE_TOO_LARGE"
  | "SETTLE_FAILED"
  | "SEND_FAILED"
  | "RUN_WAIT_TIMEOUT"
  | "INPUT_NOT_LOADED"
  | "QUEUE_UNFIT"
  | "LEASE_LOST"
  | "RUN_DEADLINE"
  | "RUN_CANCELLED"
  | "DATABASE_UNREACHABLE"
  | "RUN_UNKNOWN"
  | "RUN_ENDED"
  | "PARKED_UNKNOWN"
  | "REDRIVE_REFUSED"
  | "PRUNE_TOO_RECENT"
  | "CALL_UNKNOWN"
  | "CALL_AMBIGUOUS"
  | "SETTLE_REFUSED"
  | "TRACE_UNKNOWN"
  | "TRACE_SOURCE";

/** Base class of the package's errors. `code` is stable; the message may be reworded. */
export class WorkerError extends Error {
  override readonly name: string = "WorkerError";
  readonly code: WorkerErrorCode;

  constructor(code: WorkerErrorCode, message: string, options?: ErrorOptions) {
    super(`${code}: ${message}`, options);
    this.code = code;
  }
}

/** The text of an unknown thrown value, for rows and logs (never for decisions). */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The name a span or a row gives to an unknown thrown value: its code when it has one, else its class. */
export function errorName(error: unknown): string {
  if (typeof error === "object" && error !== null && "code" in error && typeof error.code === "string") {
    return error.code;
  }
  return error instanceof Error ? error.name : typeof error;
}
