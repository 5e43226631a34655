// Turns any value into a redacted tree that can be written as JSON: bounded in depth, nodes and characters, secrets gone before anything is cut.

import { isCardLiteral } from "./gate-card.ts";
import { parseJson, rawNumber } from "./gate-json.ts";
import { nameLiteral } from "./gate-name.ts";
import { type GateNode, MASKED, textNode, writeJson } from "./gate-node.ts";
import { type RedactionRules, redactText } from "./gate-text.ts";

export interface Walk {
  readonly rules: RedactionRules;
  /** Counts down. At zero, containers stop and say how much they left out. */
  nodesLeft: number;
  charsLeft: number;
  redacted: number;
  /** UTF-8 bytes that the input has as compact JSON and the tree has not: what was masked, and what strings lost. */
  hiddenBytes: number;
  omitted: boolean;
  readonly above: Set<object>;
  depth: number;
  /** Characters that the tree takes at least, its strings shortened. */
  written: number;
  /** What is written beyond this has no chance to be in the output. */
  readonly enough: number;
  /** How many strings that are JSON were opened on the way here. */
  readonly json: number;
}

const NODES_MAX = 1_500;
const CHARS_MAX = 64 * 1024;
const DEPTH_MAX = 16;
const JSON_LEVELS = 2;
/** How much of a string the cut always keeps where it can (gate-cut.ts), with its quotes. */
const SHORT = 66;
/** Longer strings are sized without their escapes: a lower bound. */
const SIZED_MAX = 8_192;

/** Twice the output, so that the cut has something to choose from. */
export function newWalk(rules: RedactionRules, bytesMax: number): Walk {
  return {
    rules,
    nodesLeft: NODES_MAX,
    charsLeft: CHARS_MAX,
    redacted: 0,
    hiddenBytes: 0,
    omitted: false,
    above: new Set(),
    depth: 0,
    written: 0,
    enough: Math.max(4_096, 2 * bytesMax),
    json: 0,
  };
}

/** For a string that is JSON inside the walk: shares what is left, counts apart. */
function innerWalk({ rules, nodesLeft, charsLeft, above, depth, written, enough, json }: Walk): Walk {
  return {
    rules,
    nodesLeft,
    charsLeft,
    redacted: 0,
    hiddenBytes: 0,
    omitted: false,
    above,
    depth,
    written,
    enough,
    json: json + 1,
  };
}

/** Anything that cannot be read (a getter that throws, too deep, circular) becomes a marker: it fails closed. */
export function walk(value: unknown, state: Walk): GateNode {
  state.nodesLeft -= 1;
  try {
    if (typeof value === "string") return walkString(value, state);
    if (typeof value !== "object" || value === null) return walkScalar(value, state);
    if (state.above.has(value)) return textNode("[circular]");
    if (state.depth >= DEPTH_MAX) return textNode("[too deep]");
    state.above.add(value);
    state.depth += 1;
    try {
      return walkObject(value, state);
    } finally {
      state.depth -= 1;
      state.above.delete(value);
    }
  } catch {
    state.redacted += 1;
    return textNode("[unreadable]");
  }
}

function walkScalar(value: unknown, state: Walk): GateNode {
  state.written += 4;
  if (typeof value === "boolean") return { kind: "raw", text: value ? "true" : "false" };
  const numeric = (typeof value === "number" && Number.isFinite(value)) || typeof value === "bigint";
  if (!numeric) return { kind: "raw", text: "null" };
  const text = String(value);
  // Cards also come as numbers.
  return text.length >= 13 && isCardLiteral(text) ? masked(state, text.length) : { kind: "raw", text };
}

function walkString(value: string, state: Walk): GateNode {
  const number = rawNumber(value);
  if (number !== undefined) return isCardLiteral(number) ? masked(state, number.length) : { kind: "raw", text: number };
  const nested = state.json < JSON_LEVELS ? parseJson(value, "nested") : undefined;
  if (nested !== undefined) return walkNested(value, nested.value, state);
  if (state.charsLeft <= 0 && value.length > 64) {
    state.omitted = true;
    state.hiddenBytes += Buffer.byteLength(value);
    return { kind: "text", text: "", json: '""', omitted: value.length };
  }
  state.charsLeft -= Math.min(value.length, 8_192);
  const { text, redacted, omitted } = redactText(value, state.rules);
  const json = JSON.stringify(text);
  state.written += Math.min(json.length, SHORT);
  if (text !== value) {
    state.redacted += redacted;
    if (omitted > 0) state.omitted = true;
    state.hiddenBytes += sizeOf(value) - Buffer.byteLength(json);
  }
  return { kind: "text", text, json, omitted };
}

/** A string that is JSON: judged by its fields, and left byte for byte as it was when nothing in it had to go. */
function walkNested(original: string, parsed: unknown, state: Walk): GateNode {
  const inner = innerWalk(state);
  const node = walk(parsed, inner);
  state.nodesLeft = inner.nodesLeft;
  state.charsLeft = inner.charsLeft;
  state.redacted += inner.redacted;
  state.written += SHORT;
  if (inner.redacted === 0 && !inner.omitted) return textNode(original);
  if (inner.omitted) state.omitted = true;
  const written = textNode(writeJson(node));
  state.hiddenBytes += sizeOf(original) - Buffer.byteLength(written.json);
  return written;
}

function walkObject(value: object, state: Walk): GateNode {
  if (Array.isArray(value)) return walkList(value, value.length, state);
  if (Object.getPrototypeOf(value) !== Object.prototype) {
    if (value instanceof Map) return walkMap(value, state);
    if (value instanceof Set) return walkList(value, value.size, state);
    if (value instanceof Error) return walk(errorFields(value), state);
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer)
      return textNode(`[binary ${value.byteLength} bytes]`);
  }
  if ("toJSON" in value && typeof value.toJSON === "function") return walk(value.toJSON(), state);
  return walkFields(value, state);
}

/** What one container has written, apart for scalars: they are the last that a cut leaves out, so containers may not use up their room. */
interface Room {
  readonly startedAt: number;
  scalars: number;
}

type Step = "walk" | "skip" | "stop";

/** Stops when no further part of this container could be in the output: a map of 20,000 fields is not looked at to its end. */
function stepFor(value: unknown, state: Walk, room: Room): Step {
  if (state.nodesLeft <= 0 || room.scalars > state.enough) return "stop";
  if (typeof value !== "object" || value === null || state.written - room.startedAt <= state.enough) return "walk";
  state.nodesLeft -= 1;
  return "skip";
}

function walkPart(value: unknown, state: Walk, room: Room): GateNode {
  const before = state.written;
  const node = walk(value, state);
  if (node.kind === "raw" || node.kind === "text") room.scalars += state.written - before;
  return node;
}

function walkList(items: Iterable<unknown>, size: number, state: Walk): GateNode {
  const nodes: GateNode[] = [];
  const room: Room = { startedAt: state.written, scalars: 0 };
  for (const item of items) {
    const step = stepFor(item, state, room);
    if (step === "stop") break;
    if (step === "walk") nodes.push(walkPart(item, state, room));
  }
  state.written += 2;
  if (nodes.length < size) state.omitted = true;
  return { kind: "list", items: nodes, omitted: size - nodes.length };
}

interface Fields {
  readonly names: string[];
  readonly items: GateNode[];
  /** Looked at, whether written or not as JSON has it. */
  seen: number;
  readonly room: Room;
}

function newFields(state: Walk): Fields {
  return { names: [], items: [], seen: 0, room: { startedAt: state.written, scalars: 0 } };
}

function walkFields(value: object, state: Walk): GateNode {
  const keys = Object.keys(value);
  const fields = newFields(state);
  for (const key of keys) {
    // Own enumerable keys of this very object.
    if (!addField(fields, [key, (value as Readonly<Record<string, unknown>>)[key]], state)) break;
  }
  return mapNode(fields, keys.length, state);
}

function walkMap(map: ReadonlyMap<unknown, unknown>, state: Walk): GateNode {
  const fields = newFields(state);
  for (const [key, value] of map) {
    if (!addField(fields, [typeof key === "object" ? "[object]" : String(key), value], state)) break;
  }
  return mapNode(fields, map.size, state);
}

/** False when no further field is worth a look. */
function addField(fields: Fields, [key, value]: readonly [string, unknown], state: Walk): boolean {
  const step = stepFor(value, state, fields.room);
  if (step === "stop") return false;
  if (step === "skip") return true;
  fields.seen += 1;
  // As JSON.stringify does.
  if (value === undefined || typeof value === "function" || typeof value === "symbol") return true;
  const node = walkPart(value, state, fields.room);
  const name = nameLiteral(key, state);
  fields.names.push(name);
  state.written += name.length;
  if (node.kind === "raw" || node.kind === "text") fields.room.scalars += name.length;
  fields.items.push(state.rules.isSecret(key, value) ? masked(state, Buffer.byteLength(writeJson(node))) : node);
  return true;
}

function mapNode({ names, items, seen }: Fields, size: number, state: Walk): GateNode {
  state.written += 2;
  if (seen < size) state.omitted = true;
  return { kind: "map", names, items, omitted: size - seen };
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

/** In place of something that took `bytes` as JSON. */
function masked(state: Walk, bytes: number): GateNode {
  state.redacted += 1;
  state.hiddenBytes += bytes - MASKED.json.length;
  return MASKED;
}

/** Whatever JSON writes otherwise than it stands, and a little more: written out to be counted. */
const ESCAPED = /["\\\p{Cc}\p{Surrogate}]/u;

function sizeOf(text: string): number {
  if (!ESCAPED.test(text)) return Buffer.byteLength(text) + 2;
  return text.length <= SIZED_MAX ? Buffer.byteLength(JSON.stringify(text)) : Buffer.byteLength(text) + 2;
}
