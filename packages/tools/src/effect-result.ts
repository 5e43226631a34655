// A tool's value as the ledger keeps it: JSON text up to 64 KB, hash and length above, with the text for a ledger that has a store.
import { hash } from "node:crypto";
import type { StoredResult } from "./effect.ts";

/** Limit of a result that can be replayed, in UTF-8 bytes of its JSON. */
export const RESULT_BYTES_MAX = 65_536;

/** Never throws: an effect that happened must be recorded, whatever its tool returned. */
export function storeResult(value: unknown): StoredResult {
  const json = toJson(value);
  const bytes = Buffer.byteLength(json);
  if (bytes <= RESULT_BYTES_MAX) return { kind: "value", json };
  return { kind: "too_large", sha256: hash("sha256", json, "hex"), bytes, json };
}

/** The value as JSON text, whatever it is: NUL and lone surrogates escaped, so Postgres takes it (E01); bigints as digits. */
export function toJson(value: unknown): string {
  try {
    return stringify(value) ?? "null";
  } catch {
    return JSON.stringify({ note: "The tool's value could not be written as JSON." });
  }
}

// Without a replacer first: with one, each part of each value would be handed to it for the sake of the rare bigint.
function stringify(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return JSON.stringify(value, (_key, part: unknown) => (typeof part === "bigint" ? part.toString() : part));
  }
}
