// Step 1 of 5 - message: the body of an SQS message in, a run request, an answer, or the reason why it is neither out.
import { fingerprintArgs } from "@reprise/tools";
import { z } from "zod";
import type { RefusalCode } from "./errors.ts";

/** The schema this worker reads and writes. A larger number means "not for me yet", never "poison" (case C16). */
export const MESSAGE_SCHEMA = 1;

/** What a thread that already has an unfinished run does with this one. */
export type BusyPolicy = "enqueue" | "reject";

/** A producer's wish: run `agent` on `thread_id` with `input`, once, under the name `run_id`. */
export interface RunRequest {
  readonly kind: "run";
  readonly runId: string;
  readonly threadId: string;
  readonly agent: string;
  /** The graph's input, as JSON: `{ messages: [...] }` for message graphs. Undefined when the message has a reference. */
  readonly input: unknown;
  /** Where the input is, in the words of the agent's `loadInput`: for what is larger than a message may be. */
  readonly inputRef?: string;
  /** SQS queue that is told how the run ended, or that it waits for a human. The worker's configuration allows it or not. */
  readonly replyTo?: string;
  readonly onBusy: BusyPolicy;
  /** Take the thread over from a run that waits for a human; without it such a run refuses plain input. */
  readonly supersede: boolean;
  /** SHA-256 over thread, agent and input or reference: what makes "the same run_id again" the same wish. */
  readonly inputHash: string;
}

/** A human's answer to one interrupt of a run. It names the interrupt, since a bare answer would answer the next question. */
export interface AnswerRequest {
  readonly kind: "answer";
  readonly runId: string;
  readonly threadId: string;
  readonly agent: string;
  readonly interruptId: string;
  readonly value: unknown;
  readonly valueHash: string;
}

export type ParsedMessage =
  | RunRequest
  | AnswerRequest
  | { readonly kind: "newer"; readonly schema: number }
  | { readonly kind: "bad"; readonly code: RefusalCode; readonly detail: string };

const identifier = (max: number): z.ZodString =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^[^\p{Cc}\p{Cs}]+$/u);

const base = {
  schema: z.literal(MESSAGE_SCHEMA),
  run_id: identifier(200),
  thread_id: identifier(512),
  agent: identifier(200),
};
/** A reference is opaque here; a queue's address is compared with the allowed ones letter by letter. */
const REFERENCE_MAX = 2_048;
const queueUrl = z
  .string()
  .max(REFERENCE_MAX)
  .refine((text) => URL.canParse(text) && /^https?:/.test(text), "is not a queue URL");

const runSchema = z
  .object({
    ...base,
    input: z.unknown().optional(),
    input_ref: identifier(REFERENCE_MAX).optional(),
    reply_to: queueUrl.optional(),
    on_busy: z.enum(["enqueue", "reject"]).default("enqueue"),
    supersede: z.boolean().default(false),
  })
  .refine((run) => isGiven(run.input) || run.input_ref !== undefined, { path: ["input"], message: "is missing" })
  .refine((run) => !isGiven(run.input) || run.input_ref === undefined, {
    path: ["input_ref"],
    message: "stands beside an input; send one of them",
  });
const answerSchema = z.object({
  ...base,
  answer: z.object({ interrupt_id: identifier(200), value: z.unknown() }),
});
const envelopeSchema = z.looseObject({ schema: z.number().int().min(1) });
const snsSchema = z.looseObject({ Type: z.literal("Notification"), Message: z.string() });

/**
 * Reads a body. Never throws: whatever a queue can hold gets a verdict (cases C15, C16, E01).
 *
 * @param body the SQS message body, as received
 * @param options `snsEnvelope: "unwrap"` reads the message inside an SNS notification
 */
export function parseMessage(body: string, options: { readonly snsEnvelope: "refuse" | "unwrap" }): ParsedMessage {
  const outer = parseJson(body);
  if (!outer.ok) return bad("MESSAGE_NOT_JSON", outer.detail);
  const sns = options.snsEnvelope === "unwrap" ? snsSchema.safeParse(outer.value) : undefined;
  if (sns?.success) return parseMessage(sns.data.Message, { snsEnvelope: "refuse" });
  const envelope = envelopeSchema.safeParse(outer.value);
  if (!envelope.success) return bad("MESSAGE_SHAPE", issues(envelope.error));
  if (envelope.data.schema > MESSAGE_SCHEMA) return { kind: "newer", schema: envelope.data.schema };
  try {
    return "answer" in envelope.data ? parseAnswer(outer.value) : parseRun(outer.value);
  } catch (error) {
    // JSON.parse reads any depth, hashing and storing it recurse: such a body overflows on every delivery.
    if (error instanceof RangeError) return bad("MESSAGE_SHAPE", "nested too deeply");
    throw error;
  }
}

function parseRun(value: unknown): ParsedMessage {
  const read = runSchema.safeParse(value);
  if (!read.success) return refuse(read.error);
  const { run_id: runId, thread_id: threadId, agent, on_busy: onBusy, supersede } = read.data;
  const { input_ref: inputRef, reply_to: replyTo } = read.data;
  const input = read.data.input ?? undefined;
  return {
    kind: "run",
    runId,
    threadId,
    agent,
    input,
    ...(inputRef === undefined ? {} : { inputRef }),
    ...(replyTo === undefined ? {} : { replyTo }),
    onBusy,
    supersede,
    inputHash: fingerprintArgs(
      inputRef === undefined ? { threadId, agent, input } : { threadId, agent, input_ref: inputRef },
    ),
  };
}

function isGiven(input: unknown): boolean {
  return input !== undefined && input !== null;
}

function parseAnswer(value: unknown): ParsedMessage {
  const read = answerSchema.safeParse(value);
  if (!read.success) return refuse(read.error);
  const { run_id: runId, thread_id: threadId, agent, answer } = read.data;
  const given = answer.value ?? null;
  return {
    kind: "answer",
    runId,
    threadId,
    agent,
    interruptId: answer.interrupt_id,
    value: given,
    valueHash: fingerprintArgs(given),
  };
}

/** An identifier that PostgreSQL could never store gets its own code, so that the producer finds the cause at once (E01). */
function refuse(error: z.ZodError): ParsedMessage {
  const at = error.issues[0]?.path[0];
  const detail = issues(error);
  if (error.issues.every((issue) => issue.code !== "invalid_type")) {
    if (at === "thread_id") return bad("THREAD_ID_INVALID", detail);
    if (at === "run_id") return bad("RUN_ID_INVALID", detail);
  }
  return bad("MESSAGE_SHAPE", detail);
}

function bad(code: RefusalCode, detail: string): ParsedMessage {
  return { kind: "bad", code, detail };
}

function issues(error: z.ZodError): string {
  return error.issues
    .map((issue) => `${issue.path.join(".") || "body"}: ${issue.message}`)
    .join("; ")
    .slice(0, 500);
}

function parseJson(
  body: string,
): { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly detail: string } {
  try {
    // RFC 8259 section 8.1 lets a parser ignore a byte order mark, and some producers write one.
    return { ok: true, value: JSON.parse(body.startsWith("\uFEFF") ? body.slice(1) : body) };
  } catch (error) {
    return { ok: false, detail: error instanceof Error ? error.message.slice(0, 200) : "not JSON" };
  }
}
