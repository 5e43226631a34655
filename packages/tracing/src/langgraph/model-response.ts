// What a model's answer says of itself, read from an AIMessage into gen_ai attributes. Never the content.

import type { AttributeValue } from "@opentelemetry/api";
import { ATTR } from "../names.ts";

/**
 * Usage, model, response id and finish reason of anything that looks like an AIMessage (or of `{ raw: AIMessage }`, which
 * withStructuredOutput({ includeRaw: true }) returns). Fields that are missing stay absent; anything else gives no attributes.
 */
export function responseAttributes(response: unknown): Record<string, AttributeValue | undefined> {
  const message = objectOf(response);
  const raw = objectOf(message["raw"]);
  const answer = "usage_metadata" in raw || "response_metadata" in raw ? raw : message;
  const usage = objectOf(answer["usage_metadata"]);
  const said = objectOf(answer["response_metadata"]);
  const finish = textOf(said["finish_reason"] ?? said["stop_reason"] ?? said["finishReason"]);
  return {
    [ATTR.responseModel]: textOf(said["model_name"] ?? said["model"]),
    [ATTR.responseId]: textOf(said["id"] ?? answer["id"]),
    [ATTR.finishReasons]: finish === undefined ? undefined : [finish],
    [ATTR.inputTokens]: numberOf(usage["input_tokens"]),
    [ATTR.outputTokens]: numberOf(usage["output_tokens"]),
  };
}

/** The message inside an LLMResult, as handleLLMEnd receives it. */
export function messageOf(result: unknown): unknown {
  const generations = objectOf(result)["generations"];
  const first: unknown = Array.isArray(generations) ? generations[0] : undefined;
  return objectOf(Array.isArray(first) ? first[0] : undefined)["message"];
}

/** Untyped data as a record to read from: not an object, nothing in it. */
export function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  // An object is a record of unknowns to whoever only reads it.
  return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}
