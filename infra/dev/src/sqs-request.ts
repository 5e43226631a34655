// Reading the parameters of one SQS request: unknown JSON in, checked values or an SqsError out.

import { invalidParameter, SqsError } from "./sqs-errors.ts";

export type SqsParameters = Readonly<Record<string, unknown>>;

export interface IntegerRange {
  readonly min: number;
  readonly max: number;
}

export function isRecord(value: unknown): value is SqsParameters {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** An empty body is an empty request: ListQueues without a prefix is sent that way. */
export function parseRequest(body: string): SqsParameters {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body === "" ? "{}" : body);
  } catch {
    throw new SqsError("SerializationException", "The request body is not JSON.");
  }
  if (!isRecord(parsed)) throw new SqsError("SerializationException", "The request body is not a JSON object.");
  return parsed;
}

export function optionalText(parameters: SqsParameters, name: string): string | undefined {
  const value = parameters[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw new SqsError("SerializationException", `Parameter ${name} is not a string.`);
  return value;
}

/** Empty counts as missing, as it does for a message body. */
export function requiredText(parameters: SqsParameters, name: string): string {
  const value = optionalText(parameters, name);
  if (value === undefined || value === "") {
    throw new SqsError("MissingParameter", `The request must contain the parameter ${name}.`);
  }
  return value;
}

export function optionalInteger(parameters: SqsParameters, name: string, range: IntegerRange): number | undefined {
  const value = parameters[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isInteger(value) || value < range.min || value > range.max) {
    throw invalidParameter(name, value, `it must be a whole number from ${range.min} to ${range.max}`);
  }
  return value;
}

export function requiredInteger(parameters: SqsParameters, name: string, range: IntegerRange): number {
  const value = optionalInteger(parameters, name, range);
  if (value === undefined) throw new SqsError("MissingParameter", `The request must contain the parameter ${name}.`);
  return value;
}

export function optionalRecord(parameters: SqsParameters, name: string): SqsParameters | undefined {
  const value = parameters[name];
  if (value === undefined || value === null) return undefined;
  if (!isRecord(value)) throw new SqsError("SerializationException", `Parameter ${name} is not a JSON object.`);
  return value;
}

export function textList(parameters: SqsParameters, name: string): readonly string[] {
  const value = parameters[name] ?? [];
  if (!Array.isArray(value) || !value.every((item): item is string => typeof item === "string")) {
    throw new SqsError("SerializationException", `Parameter ${name} is not a list of strings.`);
  }
  return value;
}

/** Queue attributes are strings on the wire, numbers included. */
export function textRecord(parameters: SqsParameters, name: string): Readonly<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const [key, value] of Object.entries(optionalRecord(parameters, name) ?? {})) {
    if (typeof value !== "string") throw new SqsError("SerializationException", `${name}.${key} is not a string.`);
    texts[key] = value;
  }
  return texts;
}

const ENTRY_ID = /^[A-Za-z0-9_-]{1,80}$/;
const BATCH_ENTRIES_MAX = 10;

export interface SqsBatchEntry {
  readonly id: string;
  readonly parameters: SqsParameters;
}

/** The entries of a batch call. A wrong *batch* is refused whole; a wrong entry is the business of the operation. */
export function batchEntries(parameters: SqsParameters): readonly SqsBatchEntry[] {
  const value = parameters["Entries"] ?? [];
  if (!Array.isArray(value)) throw new SqsError("SerializationException", "Parameter Entries is not a list.");
  if (value.length === 0) throw new SqsError("EmptyBatchRequest", "A batch needs at least one entry.");
  if (value.length > BATCH_ENTRIES_MAX) {
    throw new SqsError(
      "TooManyEntriesInBatchRequest",
      `A batch takes at most ${BATCH_ENTRIES_MAX} entries, not ${value.length}.`,
    );
  }
  const entries = value.map((entry: unknown): SqsBatchEntry => {
    if (!isRecord(entry)) throw new SqsError("SerializationException", "A batch entry is not a JSON object.");
    const id = requiredText(entry, "Id");
    if (!ENTRY_ID.test(id)) {
      throw new SqsError(
        "InvalidBatchEntryId",
        `Entry id ${id} is not 1 to 80 letters, digits, hyphens or underscores.`,
      );
    }
    return { id, parameters: entry };
  });
  if (new Set(entries.map((entry) => entry.id)).size !== entries.length) {
    throw new SqsError("BatchEntryIdsNotDistinct", "Two entries of the batch have the same Id.");
  }
  return entries;
}
