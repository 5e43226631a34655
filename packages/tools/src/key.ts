// The idempotency key: derived from the thread and the call's reference, never generated.
import { hash } from "node:crypto";
import { InvalidKeyPart } from "./errors.ts";

/**
 * hex(sha256(esc(threadId) + ":" + ref)), first 32 digits. `ref` is the call's id in the state: the provider's own where
 * it is healthy, `<assistant message id>#<position>` where the boundary had to give one. The same call gives the same key
 * in every process that re-reads the thread; another call gives another key. Nothing here is secret.
 *
 * Going back in time keeps the key, so a call that is made again from an old checkpoint replays what is recorded. Whoever
 * wants a second effect says so with a `forkId` of their own, and then says it in every delivery of that run.
 * Throws InvalidKeyPart when a part is missing or empty (G06).
 */
export function deriveKey(threadId: string, ref: string, forkId?: string): string {
  const key = digest(`${escapePart(requirePart("threadId", threadId))}:${requirePart("ref", ref)}`);
  // Escaped, so that no thread and call spell the same text: theirs always has a colon.
  return forkId === undefined ? key : digest(`${key}@${escapePart(requirePart("forkId", forkId))}`);
}

/** The key of one of several writes that a single call makes. Labels are fixed in the tool's code. */
export function subKey(key: string, label: string): string {
  return digest(`${requirePart("key", key)}/${requirePart("label", label)}`);
}

/** The same key for providers that insist on a UUID: its digits with the version 4 and variant bits of RFC 4122 set. */
export function keyUuid(key: string): string {
  if (!/^[0-9a-f]{32}$/.test(key)) throw new InvalidKeyPart("key", key);
  const variant = ((Number.parseInt(key.charAt(16), 16) & 0x3) | 0x8).toString(16);
  const digits = `${key.slice(0, 12)}4${key.slice(13, 16)}${variant}${key.slice(17)}`;
  return [8, 12, 16, 20, 32].map((end, i, ends) => digits.slice(ends[i - 1] ?? 0, end)).join("-");
}

/**
 * Hash of a call's arguments as canonical JSON: object keys sorted, array order kept. A check beside the key, never part of
 * it: two equal wishes are two calls (A16).
 */
export function fingerprintArgs(args: unknown): string {
  return hash("sha256", canonicalJson(args), "hex");
}

// Only these two: with ":" escaped in the first part, the first colon always ends it, so "a:b"+"c" and "a"+"b:c" differ.
function escapePart(part: string): string {
  return part.replaceAll("%", "%25").replaceAll(":", "%3A");
}

// The type says string; ids come from providers and configuration, which say otherwise now and then.
function requirePart(name: "threadId" | "ref" | "key" | "label" | "forkId", value: unknown): string {
  if (typeof value !== "string" || value === "") throw new InvalidKeyPart(name, value);
  return value;
}

function digest(text: string): string {
  return hash("sha256", text, "hex").slice(0, 32);
}

function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item)).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    // Own enumerable names of this very object.
    const fields = value as Readonly<Record<string, unknown>>;
    let text = "";
    for (const name of Object.keys(fields).sort()) {
      const item = fields[name];
      if (item !== undefined) text += `${text === "" ? "" : ","}${JSON.stringify(name)}:${canonicalJson(item)}`;
    }
    return `{${text}}`;
  }
  return JSON.stringify(value) ?? "null";
}
