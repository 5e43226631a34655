// Turns any value into a redacted tree that can be written as JSON: bounded in depth, nodes and characters, secrets gone before anything is cut.

import { isCardLiteral } from "./gate-card.ts";
import { parseJson, rawNumber } from "./gate-json.ts";
import { MASK, type RedactionRules, redactText } from "./gate-text.ts";

export type GateNode =
  /** A string; `omitted` counts characters the window left out. */
  | { readonly kind: "text"; readonly text: string; readonly omitted: number }
  /** A number, true, false or null, as JSON writes it. */
  | { readonly kind: "raw"; readonly text: string }
  | { readonly kind: "list"; readonly items: readonly GateNode[]; readonly omitted: number }
  /** Entries and not an object: `__proto__` is a key like any other, and keys that become equal when masked both stay. */
  | { readonly kind: "map"; readonly entries: readonly (readonly [string, GateNode])[]; readonly omitted: number };

export interface Walk {
  readonly rules: RedactionRules;
  /** Counts down. At zero, containers stop and say how much they left out. */
  nodesLeft: number;
  charsLeft: number;
  redacted: number;
  /** Size as compact JSON in UTF-8 bytes; a lower bound once something was omitted. */
  bytes: number;
  omitted: boolean;
  readonly above: Set<object>;
}

const NODES_MAX = 1_500;
const CHARS_MAX = 64 * 1024;
const DEPTH_MAX = 16;
const JSON_LEVELS = 2;

export function newWalk(rules: RedactionRules): Walk {
  return { rules, nodesLeft: NODES_MAX, charsLeft: CHARS_MAX, redacted: 0, bytes: 0, omitted: false, above: new Set() };
}

interface Place {
  readonly depth: number;
  /** How many strings that are JSON were opened on the way here. */
  readonly json: number;
}

export const TOP: Place = { depth: 0, json: 0 };

/** Anything that cannot be read (a getter that throws, too deep, circular) becomes a marker: it fails closed. */
export function walk(value: unknown, state: Walk, place: Place = TOP): GateNode {
  state.nodesLeft -= 1;
  try {
    if (typeof value === "string") return walkString(value, state, place);
    if (typeof value !== "object" || value === null) return walkScalar(value, state);
    if (state.above.has(value)) return marker("[circular]", state);
    if (place.depth >= DEPTH_MAX) return marker("[too deep]", state);
    state.above.add(value);
    try {
      return walkObject(value, state, { depth: place.depth + 1, json: place.json });
    } finally {
      state.above.delete(value);
    }
  } catch {
    state.redacted += 1;
    return marker("[unreadable]", state);
  }
}

function walkScalar(value: unknown, state: Walk): GateNode {
  const text =
    (typeof value === "number" && Number.isFinite(value)) || typeof value === "bigint" || typeof value === "boolean"
      ? String(value)
      : "null";
  state.bytes += text.length;
  // Cards also come as numbers.
  if (typeof value !== "boolean" && text.length >= 13 && isCardLiteral(text)) return masked(state);
  return { kind: "raw", text };
}

function walkString(value: string, state: Walk, place: Place): GateNode {
  const number = rawNumber(value);
  if (number !== undefined) {
    state.bytes += number.length;
    return isCardLiteral(number) ? masked(state) : { kind: "raw", text: number };
  }
  state.bytes += value.length <= 8_192 ? Buffer.byteLength(JSON.stringify(value)) : Buffer.byteLength(value) + 2;
  const nested = place.json < JSON_LEVELS ? parseJson(value, "nested") : undefined;
  if (nested !== undefined) return walkNested(value, nested.value, state, place);
  if (state.charsLeft <= 0 && value.length > 64) {
    state.omitted = true;
    return { kind: "text", text: "", omitted: value.length };
  }
  const redacted = redactText(value, state.rules);
  state.charsLeft -= Math.min(value.length, 8_192);
  state.redacted += redacted.redacted;
  if (redacted.omitted > 0) state.omitted = true;
  return { kind: "text", text: redacted.text, omitted: redacted.omitted };
}

/** A string that is JSON: judged by its fields, and left byte for byte as it was when nothing in it had to go. */
function walkNested(original: string, parsed: unknown, state: Walk, place: Place): GateNode {
  const inner: Walk = { ...state, redacted: 0, omitted: false };
  const node = walk(parsed, inner, { depth: place.depth, json: place.json + 1 });
  state.nodesLeft = inner.nodesLeft;
  state.charsLeft = inner.charsLeft;
  state.redacted += inner.redacted;
  if (inner.redacted === 0 && !inner.omitted) return { kind: "text", text: original, omitted: 0 };
  if (inner.omitted) state.omitted = true;
  return { kind: "text", text: writeJson(node), omitted: 0 };
}

function walkObject(value: object, state: Walk, place: Place): GateNode {
  if (Array.isArray(value)) return walkList(value, value.length, state, place);
  if (value instanceof Map) return walkEntries(value.entries(), value.size, state, place);
  if (value instanceof Set) return walkList(value, value.size, state, place);
  if (value instanceof Error) return walk(errorFields(value), state, place);
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer)
    return marker(`[binary ${value.byteLength} bytes]`, state);
  if ("toJSON" in value && typeof value.toJSON === "function") return walk(value.toJSON(), state, place);
  const keys = Object.keys(value);
  return walkEntries(fieldsOf(value, keys), keys.length, state, place);
}

// Field names as people write them: shorter than any pattern's shortest match, or in short lower-case words.
const PLAIN_KEY = /^(?:[A-Za-z_$][A-Za-z0-9_.$-]{0,11}|[a-z]{1,12}(?:_[a-z]{1,12}){1,3})$/;

function walkList(items: Iterable<unknown>, size: number, state: Walk, place: Place): GateNode {
  const nodes: GateNode[] = [];
  state.bytes += 1 + Math.max(size, 1);
  for (const item of items) {
    if (state.nodesLeft <= 0) break;
    nodes.push(walk(item, state, place));
  }
  if (nodes.length < size) state.omitted = true;
  return { kind: "list", items: nodes, omitted: size - nodes.length };
}

function walkEntries(
  entries: Iterable<readonly [unknown, unknown]>,
  size: number,
  state: Walk,
  place: Place,
): GateNode {
  const nodes: (readonly [string, GateNode])[] = [];
  let seen = 0;
  state.bytes += 2;
  for (const [rawKey, value] of entries) {
    if (state.nodesLeft <= 0) break;
    seen += 1;
    // As JSON.stringify does.
    if (value === undefined || typeof value === "function" || typeof value === "symbol") continue;
    const key = typeof rawKey === "object" ? "[object]" : String(rawKey);
    state.bytes += Buffer.byteLength(key) + (nodes.length === 0 ? 3 : 4);
    const node = walk(value, state, place);
    nodes.push([safeKey(key, state), state.rules.isSecret(key, value) ? masked(state) : node]);
  }
  if (seen < size) state.omitted = true;
  return { kind: "map", entries: nodes, omitted: size - seen };
}

function safeKey(key: string, state: Walk): string {
  if (PLAIN_KEY.test(key) && state.rules.patterns.length === 0) return key;
  const redacted = redactText(key, state.rules);
  state.redacted += redacted.redacted;
  state.charsLeft -= Math.min(key.length, 8_192);
  return redacted.text;
}

function* fieldsOf(value: object, keys: readonly string[]): Generator<readonly [string, unknown]> {
  // Own enumerable keys of this very object.
  for (const key of keys) yield [key, (value as Readonly<Record<string, unknown>>)[key]];
}

/** Never the enumerable properties of an error: HTTP clients hang their request, headers and all, on it (case F13). */
function errorFields(error: Error): Readonly<Record<string, unknown>> {
  const code = "code" in error && typeof error.code === "string" ? { code: error.code } : {};
  const cause =
    error.cause === undefined ? {} : { cause: error.cause instanceof Error ? error.cause : String(error.cause) };
  const errors =
    error instanceof AggregateError
      ? { errors: error.errors.map((one: unknown) => (one instanceof Error ? one : String(one))) }
      : {};
  return { name: error.name, message: error.message, ...code, ...cause, ...errors };
}

function masked(state: Walk): GateNode {
  state.redacted += 1;
  return { kind: "text", text: MASK, omitted: 0 };
}

function marker(text: string, state: Walk): GateNode {
  state.bytes += text.length + 2;
  return { kind: "text", text, omitted: 0 };
}

/** The whole tree as compact JSON, uncut. */
export function writeJson(node: GateNode): string {
  switch (node.kind) {
    case "text":
      return JSON.stringify(node.text);
    case "raw":
      return node.text;
    case "list":
      return `[${node.items.map(writeJson).join(",")}]`;
    case "map":
      return `{${node.entries.map(([key, value]) => `${JSON.stringify(key)}:${writeJson(value)}`).join(",")}}`;
    default: {
      const never: never = node;
      return never;
    }
  }
}
