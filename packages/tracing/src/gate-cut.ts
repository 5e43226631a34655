// Cuts what was redacted to a number of UTF-8 bytes, the marker included: plain text behind a whole character, JSON into smaller JSON.

import type { GateNode } from "./gate-node.ts";
import { MASK } from "./gate-text.ts";

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
export function cutJson(node: GateNode, bytesMax: number): CutText {
  for (const stringBytes of [1_024, 512, 256, 128, 64]) {
    const text = writeShort(node, { stringBytes, left: bytesMax });
    if (text !== undefined) return { text, truncated: true };
  }
  return { text: fitInto(node, bytesMax) ?? '"…"', truncated: true };
}

interface Shortening {
  readonly stringBytes: number;
  left: number;
}

/** Undefined as soon as it is clear that it will not fit, so that a wide tree is not written out five times. */
function writeShort(node: GateNode, how: Shortening): string | undefined {
  if (node.kind === "raw" || node.kind === "text") {
    const text = node.kind === "raw" ? node.text : shortString(node, how.stringBytes);
    how.left -= Buffer.byteLength(text);
    return how.left < 0 ? undefined : text;
  }
  const parts: string[] = [];
  how.left -= 2;
  for (const [at, item] of node.items.entries()) {
    const name = nameAt(node, at);
    how.left -= Buffer.byteLength(name) + (at === 0 ? 0 : 1);
    const text = how.left < 0 ? undefined : writeShort(item, how);
    if (text === undefined) return undefined;
    parts.push(name + text);
  }
  if (node.omitted > 0) {
    const marker = markerOf(node, node.omitted);
    how.left -= Buffer.byteLength(marker) + 1;
    parts.push(marker);
  }
  return how.left < 0 ? undefined : enclosed(node, parts);
}

/** Greedy: scalars and short strings of a container get the room first, containers share what is left, in their order. */
function fitInto(node: GateNode, room: number): string | undefined {
  if (node.kind === "raw" || node.kind === "text") {
    const text = node.kind === "raw" ? node.text : shortString(node, Math.min(64, room));
    return Buffer.byteLength(text) <= room ? text : undefined;
  }
  // Brackets, and the marker that says how many parts are missing.
  let left = room - 2 - Buffer.byteLength(`${markerOf(node, 999_999_999)},`);
  const written = new Map<number, string>();
  for (const pass of ["scalars", "containers"] as const) {
    for (const [at, item] of node.items.entries()) {
      if (left < 4) break;
      if ((item.kind === "raw" || item.kind === "text") !== (pass === "scalars")) continue;
      const name = nameAt(node, at);
      const cost = Buffer.byteLength(name) + 1;
      const text = left <= cost ? undefined : fitInto(item, left - cost);
      if (text === undefined) continue;
      written.set(at, name + text);
      left -= cost + Buffer.byteLength(text);
    }
  }
  const kept = [...written].sort(([one], [other]) => one - other).map(([, text]) => text);
  const missing = node.items.length - kept.length + node.omitted;
  if (missing > 0) kept.push(markerOf(node, missing));
  const text = enclosed(node, kept);
  return Buffer.byteLength(text) <= room ? text : undefined;
}

type Container = Extract<GateNode, { readonly kind: "list" | "map" }>;

function enclosed(node: Container, parts: readonly string[]): string {
  return node.kind === "list" ? `[${parts.join(",")}]` : `{${parts.join(",")}}`;
}

function markerOf(node: Container, missing: number): string {
  return node.kind === "list" ? `"…${missing} more"` : `"…":"…${missing} more"`;
}

/** Name and colon of a map's part; nothing in a list. */
function nameAt(node: Container, at: number): string {
  if (node.kind === "list") return "";
  const name = node.names[at] ?? "";
  if (name.length <= 24) return name;
  // We wrote it: a JSON string and a colon.
  return `${JSON.stringify(cutText(JSON.parse(name.slice(0, -1)) as string, 64).text)}:`;
}

/** A JSON string whose content was cut to `bytesMax` bytes before escaping; escaping can only make control characters longer. */
function shortString(node: Extract<GateNode, { readonly kind: "text" }>, bytesMax: number): string {
  const cut = cutText(node.text, Math.max(bytesMax, 16), node.omitted);
  return cut.truncated ? JSON.stringify(cut.text) : node.json;
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
