// Builds the messages a producer sends, and refuses here, where somebody reads the error, what no worker would take. Pure.
import { randomUUID } from "node:crypto";
import { WorkerError } from "./errors.ts";
import { MESSAGE_SCHEMA, parseMessage } from "./message.ts";

interface WishedRun {
  readonly agent: string;
  readonly threadId: string;
  /** Names the wish: the same run_id again is the same run, done once. Default: a fresh UUID. */
  readonly runId?: string;
  readonly onBusy?: "enqueue" | "reject";
  readonly supersede?: boolean;
  /** SQS queue that is told of the run's end, and of its questions. The worker must be configured to allow it. */
  readonly replyTo?: string;
}

/** A run with its input, or with a reference that the agent's `loadInput` understands: for inputs larger than a message. */
export type RunToSend = WishedRun &
  (
    | { readonly input: unknown; readonly inputRef?: undefined }
    | { readonly input?: undefined; readonly inputRef: string }
  );

export interface AnswerToSend {
  readonly agent: string;
  readonly threadId: string;
  readonly runId: string;
  readonly interruptId: string;
  readonly value: unknown;
}

/** A message ready to be sent. */
export interface Outgoing {
  readonly body: string;
  readonly runId: string;
  readonly threadId: string;
  /** Derived from the wish, so that a FIFO queue drops the same wish sent twice. */
  readonly deduplicationId: string;
}

/** SQS counts attributes to a message's 1 MiB (SQS quotas); ours, and what tracing adds to them, stay below this. */
export const ATTRIBUTES_BYTES = 2_048;
export const MESSAGE_BYTES_MAX = 1_048_576;
const BODY_MAX_BYTES = MESSAGE_BYTES_MAX - ATTRIBUTES_BYTES;

/** @throws WorkerError MESSAGE_TOO_LARGE; SEND_FAILED for what the worker would refuse */
export function runMessage(run: RunToSend): Outgoing {
  const runId = run.runId ?? randomUUID();
  const body = {
    schema: MESSAGE_SCHEMA,
    run_id: runId,
    thread_id: run.threadId,
    agent: run.agent,
    input: run.input,
    input_ref: run.inputRef,
    reply_to: run.replyTo,
    on_busy: run.onBusy,
    supersede: run.supersede,
  };
  return checked({ body: JSON.stringify(body), runId, threadId: run.threadId, deduplicationId: runId });
}

/** Errors as `runMessage`. */
export function answerMessage(answer: AnswerToSend): Outgoing {
  const { runId, threadId, agent, interruptId, value } = answer;
  const body = {
    schema: MESSAGE_SCHEMA,
    run_id: runId,
    thread_id: threadId,
    agent,
    answer: { interrupt_id: interruptId, value },
  };
  return checked({ body: JSON.stringify(body), runId, threadId, deduplicationId: `${runId}:${interruptId}` });
}

function checked(message: Outgoing): Outgoing {
  const bytes = Buffer.byteLength(message.body);
  if (bytes > BODY_MAX_BYTES) {
    throw new WorkerError(
      "MESSAGE_TOO_LARGE",
      `run ${message.runId} has ${bytes} bytes and SQS takes ${BODY_MAX_BYTES}; store the input, send its \`inputRef\`, and give the agent a \`loadInput\``,
    );
  }
  const parsed = parseMessage(message.body, { snsEnvelope: "refuse" });
  if (parsed.kind === "bad") throw new WorkerError("SEND_FAILED", `${parsed.code}: ${parsed.detail}; nothing was sent`);
  return message;
}
