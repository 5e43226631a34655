// Queue attributes: the defaults and ranges of SQS, and the redrive policy read from its JSON.

import { invalidParameter, SqsError } from "./sqs-errors.ts";
import type { IntegerRange } from "./sqs-request.ts";

export type SqsQueueAttributes = Readonly<Record<string, string>>;

// Source: CreateQueue and SetQueueAttributes API references; the 1 MiB message size is the default since August 2025.
export const QUEUE_ATTRIBUTE_DEFAULTS: SqsQueueAttributes = {
  VisibilityTimeout: "30",
  DelaySeconds: "0",
  MaximumMessageSize: "1048576",
  MessageRetentionPeriod: "345600",
  ReceiveMessageWaitTimeSeconds: "0",
};

export const VISIBILITY_SECONDS: IntegerRange = { min: 0, max: 43_200 };
export const DELAY_SECONDS: IntegerRange = { min: 0, max: 900 };
export const WAIT_SECONDS: IntegerRange = { min: 0, max: 20 };

const RANGES: Readonly<Record<string, IntegerRange>> = {
  VisibilityTimeout: VISIBILITY_SECONDS,
  DelaySeconds: DELAY_SECONDS,
  MaximumMessageSize: { min: 1024, max: 1_048_576 },
  MessageRetentionPeriod: { min: 60, max: 1_209_600 },
  ReceiveMessageWaitTimeSeconds: WAIT_SECONDS,
};

// Accepted and kept, without effect here, so that a template meant for AWS can be used unchanged.
const CARRIED: readonly string[] = [
  "Policy",
  "KmsMasterKeyId",
  "KmsDataKeyReusePeriodSeconds",
  "SqsManagedSseEnabled",
  "RedriveAllowPolicy",
  "DeduplicationScope",
  "FifoThroughputLimit",
];
const WORKING: readonly string[] = ["FifoQueue", "ContentBasedDeduplication", "RedrivePolicy"];

export interface SqsRedrivePolicy {
  readonly deadLetterTargetArn: string;
  readonly maxReceiveCount: number;
}

/** maxReceiveCount comes as a number or as text, depending on who wrote the policy; an empty policy is none. */
export function redrivePolicy(attributes: SqsQueueAttributes): SqsRedrivePolicy | undefined {
  const text = attributes["RedrivePolicy"];
  if (text === undefined || text === "") return undefined;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw invalidParameter("RedrivePolicy", text, "it is not JSON");
  }
  const target =
    typeof parsed === "object" && parsed !== null && "deadLetterTargetArn" in parsed
      ? parsed.deadLetterTargetArn
      : undefined;
  const limit =
    typeof parsed === "object" && parsed !== null && "maxReceiveCount" in parsed
      ? Number(parsed.maxReceiveCount)
      : Number.NaN;
  if (typeof target !== "string" || !Number.isInteger(limit) || limit < 1 || limit > 1000) {
    throw invalidParameter(
      "RedrivePolicy",
      text,
      "it needs a deadLetterTargetArn and a maxReceiveCount from 1 to 1000",
    );
  }
  return { deadLetterTargetArn: target, maxReceiveCount: limit };
}

/** Throws for names SQS does not know and for values it does not take. */
export function checkQueueAttributes(attributes: SqsQueueAttributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    const range = RANGES[name];
    if (range === undefined) {
      if (CARRIED.includes(name) || WORKING.includes(name)) continue;
      throw new SqsError("InvalidAttributeName", `SQS has no queue attribute ${name}.`);
    }
    const number = Number(value);
    if (value === "" || !Number.isInteger(number) || number < range.min || number > range.max) {
      throw new SqsError(
        "InvalidAttributeValue",
        `Attribute ${name} must be from ${range.min} to ${range.max}, not ${value}.`,
      );
    }
  }
  redrivePolicy(attributes);
}

/** Reads a number that `checkQueueAttributes` has let in. */
export function attributeNumber(attributes: SqsQueueAttributes, name: string): number {
  return Number(attributes[name] ?? QUEUE_ATTRIBUTE_DEFAULTS[name] ?? 0);
}
