// Faults that came over HTTP: unknown JSON in, checked faults or a message naming the wrong field out.

import { SqsEndpointError } from "./sqs-errors.ts";
import type { SqsFault, SqsFaultOperation, SqsFaultScope } from "./sqs-faults.ts";
import { isOperationName, SQS_OPERATIONS } from "./sqs-operation-names.ts";
import { isRecord, type SqsParameters } from "./sqs-request.ts";

const DELAY_MS_MAX = 600_000;

/** One fault or a list of them. `remaining` defaults to 1. Throws SqsEndpointError `SQS_FAULT_INVALID`. */
export function parseFaults(body: string): readonly SqsFault[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    throw invalid("the body is not JSON");
  }
  return (Array.isArray(parsed) ? parsed : [parsed]).map(parseFault);
}

function invalid(reason: string): SqsEndpointError {
  return new SqsEndpointError("SQS_FAULT_INVALID", `Fault refused: ${reason}.`);
}

function parseFault(value: unknown): SqsFault {
  if (!isRecord(value)) throw invalid("a fault is a JSON object");
  const scope = scopeOf(value);
  switch (value["kind"]) {
    case "throttle":
      return { ...scope, kind: "throttle", operation: operationOf(value), code: throttleCodeOf(value) };
    case "drop_reply":
      return { ...scope, kind: "drop_reply", operation: operationOf(value) };
    case "deliver_twice":
      return { ...scope, kind: "deliver_twice" };
    case "count_missing":
      return { ...scope, kind: "count_missing" };
    case "swallow_aborted_poll":
      return { ...scope, kind: "swallow_aborted_poll" };
    case "error":
      return { ...scope, kind: "error", operation: operationOf(value), ...errorOf(value) };
    case "delay":
      return { ...scope, kind: "delay", operation: operationOf(value), ...slownessOf(value) };
    default:
      throw invalid(
        `kind ${String(value["kind"])} is none of throttle, drop_reply, deliver_twice, count_missing, swallow_aborted_poll, error, delay`,
      );
  }
}

function scopeOf(value: SqsParameters): SqsFaultScope {
  const remaining = wholeNumber(value, { name: "remaining", min: 1, max: 1_000_000 }) ?? 1;
  const queue = value["queue"];
  if (queue === undefined) return { remaining };
  if (typeof queue !== "string" || queue === "") throw invalid("queue is a queue's name");
  return { remaining, queue };
}

function operationOf(value: SqsParameters): SqsFaultOperation {
  const operation = value["operation"];
  if (operation === "*") return operation;
  if (typeof operation === "string" && isOperationName(operation)) return operation;
  throw invalid(`operation is * or one of ${SQS_OPERATIONS.join(", ")}`);
}

function throttleCodeOf(value: SqsParameters): "ThrottlingException" | "RequestThrottled" {
  const code = value["code"] ?? "ThrottlingException";
  if (code === "ThrottlingException" || code === "RequestThrottled") return code;
  throw invalid("code of a throttle is ThrottlingException or RequestThrottled");
}

function errorOf(value: SqsParameters): { readonly code: string; readonly httpStatus?: number } {
  const code = value["code"];
  if (typeof code !== "string" || code === "") throw invalid("code is an AWS error code, for example KmsAccessDenied");
  const httpStatus = wholeNumber(value, { name: "httpStatus", min: 400, max: 599 });
  return httpStatus === undefined ? { code } : { code, httpStatus };
}

function slownessOf(value: SqsParameters): { readonly delayMs: number; readonly slow: "effect" | "reply" } {
  const delayMs = wholeNumber(value, { name: "delayMs", min: 1, max: DELAY_MS_MAX });
  if (delayMs === undefined) throw invalid("a delay needs delayMs");
  const slow = value["slow"] ?? "effect";
  if (slow !== "effect" && slow !== "reply") throw invalid("slow is effect or reply");
  return { delayMs, slow };
}

interface NumberField {
  readonly name: string;
  readonly min: number;
  readonly max: number;
}

function wholeNumber(value: SqsParameters, field: NumberField): number | undefined {
  const number = value[field.name];
  if (number === undefined) return undefined;
  if (typeof number === "number" && Number.isInteger(number) && number >= field.min && number <= field.max)
    return number;
  throw invalid(`${field.name} is a whole number from ${field.min} to ${field.max}`);
}
