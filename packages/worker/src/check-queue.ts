// Preflight of the queue: its attributes in, lines out. What the worker asks for itself at each receive is only shown.
import type { CheckedConfig, CheckLine, Probe } from "./check.ts";

export type QueueAttributes = Readonly<Record<string, string | undefined>>;

export interface QueueFacts {
  readonly attributes: QueueAttributes;
  /** Absent when the queue names none, or when nobody looked (the worker's own start). */
  readonly deadLetter?: Probe<QueueAttributes>;
}

/** Hand-backs and deferrals burn receives, while faults are counted in PostgreSQL (DESIGN section 5, "Faults"; case C03). */
const RECEIVES = { recommended: 50, warnedBelow: 20, refusedBelow: 3 } as const;
const MESSAGE_BYTES = 1_048_576;
/** SQS deletes a message of this age even while its run works; a run may wait for hours behind a deploy. */
const RETENTION_SECONDS_MIN = 86_400;
/** Shorter long polls cost empty receives. */
const WAIT_SECONDS_MIN = 5;

export function queueLines(probe: Probe<QueueFacts>, config: CheckedConfig): readonly CheckLine[] {
  if (probe.state === "unread") return [unreadLine(probe, config.queueUrl)];
  const { attributes, deadLetter } = probe.value;
  const fifo = config.queueUrl.endsWith(".fifo");
  return [
    { what: "queue", found: config.queueUrl, needed: "a queue", verdict: "ok" },
    redriveLine(maxReceivesOf(attributes)),
    ...(deadLetter === undefined ? [] : deadLetterLines(deadLetter, attributes, fifo)),
    encryptionLine(attributes),
    visibilityLine(attributes, config),
    waitLine(attributes, config),
    retentionLine(attributes),
    sizeLine(attributes),
    ...(fifo ? [fifoLine(attributes)] : []),
  ];
}

function unreadLine({ name, error }: Extract<Probe<unknown>, { state: "unread" }>, queueUrl: string): CheckLine {
  const line = { what: "queue", found: error, needed: `GetQueueAttributes of ${queueUrl}` };
  if (/AccessDenied|AuthorizationError/.test(name))
    return {
      ...line,
      verdict: "warn",
      fix: "allow sqs:GetQueueAttributes; without it nothing of the queue is checked",
    };
  const fix = /DoesNotExist|NonExistentQueue/.test(name)
    ? "create the queue, or correct QUEUE_URL and AWS_REGION"
    : "check QUEUE_URL, SQS_ENDPOINT, AWS_REGION, the credentials and the network";
  return { ...line, verdict: "fail", fix };
}

/** The redrive policy's limit. Undefined without a policy, or with one that cannot be read. */
export function maxReceivesOf(attributes: QueueAttributes): number | undefined {
  const policy = policyOf(attributes);
  const limit = policy !== undefined && "maxReceiveCount" in policy ? Number(policy.maxReceiveCount) : Number.NaN;
  return Number.isInteger(limit) ? limit : undefined;
}

/** Name of the dead-letter queue: the last part of its ARN. */
export function deadLetterOf(attributes: QueueAttributes): string | undefined {
  const policy = policyOf(attributes);
  const arn = policy !== undefined && "deadLetterTargetArn" in policy ? policy.deadLetterTargetArn : undefined;
  return typeof arn === "string" ? arn.split(":").at(-1) : undefined;
}

function policyOf(attributes: QueueAttributes): object | undefined {
  try {
    const policy: unknown = JSON.parse(attributes["RedrivePolicy"] ?? "null");
    return typeof policy === "object" && policy !== null ? policy : undefined;
  } catch {
    return undefined;
  }
}

export function redriveLine(maxReceives: number | undefined): CheckLine {
  const line = { what: "redrive policy", needed: `maxReceiveCount ${RECEIVES.recommended}` };
  const fix = `set maxReceiveCount to ${RECEIVES.recommended}: hand-backs and deferrals burn receives, faults are limited by the worker itself`;
  if (maxReceives === undefined) {
    const why = "give the queue a dead-letter queue: a message that nobody deletes circles until its retention ends";
    return { ...line, found: "none", verdict: "warn", fix: why };
  }
  const found = `maxReceiveCount ${maxReceives}`;
  if (maxReceives < RECEIVES.refusedBelow) return { ...line, found, verdict: "fail", fix };
  return maxReceives < RECEIVES.warnedBelow
    ? { ...line, found, verdict: "warn", fix }
    : { ...line, found, verdict: "ok" };
}

function deadLetterLines(
  deadLetter: Probe<QueueAttributes>,
  source: QueueAttributes,
  fifo: boolean,
): readonly CheckLine[] {
  const what = "dead-letter queue";
  if (deadLetter.state === "unread") {
    const missing = /DoesNotExist|NonExistentQueue/.test(deadLetter.name);
    const fix = missing
      ? "create it, or correct the redrive policy: SQS moves nothing to a queue that is gone"
      : "allow sqs:GetQueueUrl and sqs:GetQueueAttributes on it";
    return [{ what, found: deadLetter.error, needed: "a queue", verdict: missing ? "fail" : "warn", fix }];
  }
  const seconds = Number(deadLetter.value["MessageRetentionPeriod"]);
  const own = Number(source["MessageRetentionPeriod"]);
  const kept: CheckLine = {
    what: `${what} retention`,
    found: days(seconds),
    needed: `more than the queue's ${days(own)}`,
    verdict: "ok",
  };
  const isFifo = deadLetter.value["FifoQueue"] === "true";
  return [
    isFifo === fifo
      ? { what, found: fifo ? "FIFO" : "standard", needed: "the queue's own type", verdict: "ok" }
      : {
          what,
          found: isFifo ? "FIFO" : "standard",
          needed: "the queue's own type",
          verdict: "fail",
          fix: "use a dead-letter queue of the same type: SQS moves nothing to another",
        },
    // A standard queue's message keeps its first send time when it is moved, so it may be gone before anybody looks.
    seconds > own ? kept : { ...kept, verdict: "warn", fix: "keep dead letters longer, 14 days at best" },
  ];
}

function encryptionLine(attributes: QueueAttributes): CheckLine {
  const line = { what: "encryption", needed: "SSE-SQS or SSE-KMS" };
  const key = attributes["KmsMasterKeyId"];
  if (key !== undefined && key !== "")
    return { ...line, found: `SSE-KMS, ${key}`, needed: "kms:Decrypt, kms:GenerateDataKey", verdict: "ok" };
  return attributes["SqsManagedSseEnabled"] === "true"
    ? { ...line, found: "SSE-SQS", verdict: "ok" }
    : { ...line, found: "none", verdict: "warn", fix: "set SqsManagedSseEnabled: messages hold what users wrote" };
}

function visibilityLine(attributes: QueueAttributes, { visibilitySeconds }: CheckedConfig): CheckLine {
  const found = `${attributes["VisibilityTimeout"] ?? "?"} s on the queue`;
  // The worker's own receives say how long; the queue's value is for everybody else's.
  return { what: "visibility", found, needed: `${visibilitySeconds} s, asked at each receive`, verdict: "ok" };
}

function waitLine(attributes: QueueAttributes, { waitSeconds }: CheckedConfig): CheckLine {
  const found = `${attributes["ReceiveMessageWaitTimeSeconds"] ?? "?"} s on the queue, ${waitSeconds} s asked at each receive`;
  const line = { what: "long poll", found, needed: `${WAIT_SECONDS_MIN} s or more asked` };
  return waitSeconds >= WAIT_SECONDS_MIN
    ? { ...line, verdict: "ok" }
    : { ...line, verdict: "warn", fix: "raise the wait: an idle worker pays for each empty receive" };
}

function retentionLine(attributes: QueueAttributes): CheckLine {
  const seconds = Number(attributes["MessageRetentionPeriod"]);
  const line = { what: "retention", found: days(seconds), needed: `${days(RETENTION_SECONDS_MIN)} or more` };
  return seconds >= RETENTION_SECONDS_MIN
    ? { ...line, verdict: "ok" }
    : { ...line, verdict: "warn", fix: "raise MessageRetentionPeriod: SQS drops older messages, also of working runs" };
}

function sizeLine(attributes: QueueAttributes): CheckLine {
  const bytes = Number(attributes["MaximumMessageSize"]);
  const line = { what: "message size", found: `${bytes} bytes`, needed: `${MESSAGE_BYTES} bytes` };
  return bytes >= MESSAGE_BYTES
    ? { ...line, verdict: "ok" }
    : { ...line, verdict: "warn", fix: "raise MaximumMessageSize, or send larger inputs by `input_ref`" };
}

function fifoLine(attributes: QueueAttributes): CheckLine {
  const byContent = attributes["ContentBasedDeduplication"] === "true";
  return {
    what: "deduplication",
    found: byContent ? "by content where a sender gives no id" : "by the id each sender gives",
    needed: "an id with each message; our own producer derives it from the run",
    verdict: "ok",
  };
}

function days(seconds: number): string {
  return seconds < 86_400 ? `${seconds} s` : `${Number((seconds / 86_400).toFixed(1))} days`;
}
