// Cuts what was redacted to a number of UTF-8 bytes, the marker included: plain text behind a whole character, JSON into smaller JSON.

import { MASK } from "./gate-text.ts";
import type { GateNode } from "./gate-tree.ts";
import { writeJson } from "./gate-tree.ts";

const utf8 = new TextEncoder();

export interface CutText {
  readonly text: string;
  readonly truncated: boolean;
}

/** Plain text. `omitted` characters are already missing at its end. Combining marks may part from their base; code points never split. */
export function cutText(text: string, bytesMax: number, omitted = 0): CutText {
  // Three bytes a UTF-16 unit at most: short strings need no counting.
  if (omitted === 0 && (text.length * 3 <= bytesMax || Buffer.byteLength(text) <= bytesMax)) {
    return { text, truncated: false };
  }
  const marker = `…[cut]`;
  const room = bytesMax - Buffer.byteLength(marker);
  return { text: withoutHalfMask(prefixOf(text, room)) + marker, truncated: true };
}

/** JSON: long strings are shortened first, then whole parts left out, scalars kept longest. Always valid JSON. */
export function cutJson(node: GateNode, bytesMax: number, omitted: boolean): CutText {
  const whole = omitted ? undefined : writeJson(node);
  if (whole !== undefined && Buffer.byteLength(whole) <= bytesMax) return { text: whole, truncated: false };
  for (const stringBytes of [1_024, 512, 256, 128, 64]) {
    const shortened = writeShort(node, stringBytes, bytesMax);
    if (shortened !== undefined) return { text: shortened, truncated: true };
  }
  return { text: fitInto(node, bytesMax) ?? '"…"', truncated: true };
}

/** Undefined as soon as it is clear that it will not fit, so that a wide tree is not written out five times. */
function writeShort(node: GateNode, stringBytes: number, bytesMax: number): string | undefined {
  let used = 0;
  const put = (part: string): string => {
    used += Buffer.byteLength(part);
    if (used > bytesMax) throw TOO_LONG;
    return part;
  };
  const write = (part: GateNode): string => {
    switch (part.kind) {
      case "raw":
        return put(part.text);
      case "text":
        return put(shortString(part, stringBytes));
      case "list": {
        const items = part.items.map((item) => put(",") && write(item));
        if (part.omitted > 0) items.push(put(`,${omittedText(part.omitted)}`).slice(1));
        return `${put("[")}${items.join(",")}${put("]")}`;
      }
      case "map": {
        const entries = part.entries.map(([key, value]) => put(`${shortKey(key)}:,`).slice(0, -1) + write(value));
        if (part.omitted > 0) entries.push(put(`"…":${omittedText(part.omitted)},`).slice(0, -1));
        return `${put("{")}${entries.join(",")}${put("}")}`;
      }
      default: {
        const never: never = part;
        return never;
      }
    }
  };
  try {
    return write(node);
  } catch (error) {
    if (error === TOO_LONG) return undefined;
    throw error;
  }
}

const TOO_LONG = new Error("too long");

/** Greedy: scalars and short strings of a container get the room first, containers share what is left, in their order. */
function fitInto(node: GateNode, room: number): string | undefined {
  if (node.kind === "raw" || node.kind === "text") {
    const text = node.kind === "raw" ? node.text : shortString(node, Math.min(64, room));
    return Buffer.byteLength(text) <= room ? text : undefined;
  }
  const list = node.kind === "list";
  const parts = list
    ? node.items.map((item) => ["", item] as const)
    : node.entries.map(([key, value]) => [`${shortKey(key)}:`, value] as const);
  // Brackets, and the marker that says how many parts are missing.
  let left = room - 2 - Buffer.byteLength(`"…":${omittedText(999_999_999)},`);
  const written: (string | undefined)[] = parts.map(() => undefined);
  for (const pass of ["scalars", "containers"] as const) {
    for (const [index, [key, value]] of parts.entries()) {
      if (left < 4) break;
      if ((value.kind === "raw" || value.kind === "text") !== (pass === "scalars")) continue;
      const cost = Buffer.byteLength(key) + 1;
      const text = fitInto(value, left - cost);
      if (text === undefined) continue;
      written[index] = key + text;
      left -= cost + Buffer.byteLength(text);
    }
  }
  const kept = written.filter((part) => part !== undefined);
  const missing = parts.length - kept.length + node.omitted;
  if (missing > 0) kept.push(list ? omittedText(missing) : `"…":${omittedText(missing)}`);
  const text = list ? `[${kept.join(",")}]` : `{${kept.join(",")}}`;
  return Buffer.byteLength(text) <= room ? text : undefined;
}

function omittedText(count: number): string {
  return `"…${count} more"`;
}

function shortKey(key: string): string {
  return JSON.stringify(cutText(key, 64).text);
}

/** A JSON string whose content was cut to `bytesMax` bytes before escaping; escaping can only make control characters longer. */
function shortString(node: { readonly text: string; readonly omitted: number }, bytesMax: number): string {
  return JSON.stringify(cutText(node.text, Math.max(bytesMax, 16), node.omitted).text);
}

/** The longest prefix of whole code points within `bytesMax` bytes. */
function prefixOf(text: string, bytesMax: number): string {
  const target = new Uint8Array(Math.max(bytesMax, 0));
  return text.slice(0, utf8.encodeInto(text, target).read);
}

/** A cut inside a mask would leave `[reda`, which a second pass through the gate no longer knows. */
function withoutHalfMask(text: string): string {
  for (let size = Math.min(MASK.length - 1, text.length); size > 0; size--) {
    if (text.endsWith(MASK.slice(0, size))) return text.slice(0, -size);
  }
  return text;
}
