// The gate everything passes before it leaves the process: redact, then cut. Also usable alone, at the source of a value.

import { hash } from "node:crypto";
import { type Attributes, type AttributeValue, diag } from "@opentelemetry/api";
import { OptionInvalidError } from "./errors.ts";
import { contentAttribute, offText } from "./gate-content.ts";
import { cutJson, cutText } from "./gate-cut.ts";
import { parseJson } from "./gate-json.ts";
import { secretKeys } from "./gate-keys.ts";
import { isCleanName, rememberName } from "./gate-name.ts";
import { type GateNode, writeJson } from "./gate-node.ts";
import { MASK, type RedactionRules, redactText } from "./gate-text.ts";
import { newWalk, walk } from "./gate-tree.ts";

export interface GateOptions {
  /** `redacted` (default): content through the gate. `none`: sizes and hashes only. An unknown value means `none`, with a warning. */
  readonly content?: "redacted" | "none";
  /** Field names that are secret here, matched word by word: `"customer name"` hits `customerName`. */
  readonly extraKeys?: readonly string[];
  /** Matched on every string. Keep them linear: no nested repetition. */
  readonly extraPatterns?: readonly RegExp[];
  /** UTF-8 bytes of any one value, marker included. Default 2,048, at least 128. */
  readonly bytesMax?: number;
}

export interface GatedValue {
  /** At most `bytesMax` UTF-8 bytes, well-formed; JSON when the input was no plain string. */
  readonly text: string;
  /** Size before redaction and cut: of a string its bytes, of anything else its compact JSON; a lower bound for values too large to walk. */
  readonly bytes: number;
  readonly truncated: boolean;
  /** How many secrets were masked. */
  readonly redacted: number;
  /**
   * SHA-256 (hex) of the redacted text before the cut, as far as the gate looks: 4,096 characters of a string that is longer than
   * 8,192, of a container the parts that could be in the output twice over. Values that differ only beyond that have one hash.
   */
  readonly sha256: string;
}

export interface GatedError {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}

export interface Gate {
  value(input: unknown): GatedValue;
  text(input: string): string;
  error(input: unknown): GatedError;
  attributes(attributes: Attributes): Attributes;
  /** Secrets masked since the gate was made. */
  masked(): number;
}

interface Judged {
  readonly node: GateNode | undefined;
  /** Redacted, uncut. */
  readonly text: string;
  readonly omitted: number;
  readonly redacted: number;
  readonly bytes: number;
}

const BYTES_MAX = 2_048;
const UNREADABLE = "[unreadable]";

/** Throws `TRACING_OPTION_INVALID` for a limit below 128 bytes. The gate itself never throws: what it cannot judge it replaces. */
export function createGate(options: GateOptions = {}): Gate {
  const bytesMax = options.bytesMax ?? BYTES_MAX;
  if (!Number.isInteger(bytesMax) || bytesMax < 128) throw new OptionInvalidError("bytesMax", bytesMax, "128 or more");
  const content = knownContent(options.content);
  const rules: RedactionRules = {
    isSecret: secretKeys(options.extraKeys ?? []),
    patterns: (options.extraPatterns ?? []).map(
      (pattern) => new RegExp(pattern, `${pattern.flags.replace(/[gy]/g, "")}g`),
    ),
    names: new Map(),
  };
  const how: How = { rules, bytesMax, content, masked: 0 };
  const text = (input: string): string => gateText(input, how);
  const value = (input: unknown): GatedValue => gateValue(input, how);
  return {
    value,
    text,
    error: (input) => gateError(input, content === "none" ? () => "" : text, text),
    attributes: (attributes) => {
      const gated: Attributes = {};
      for (const key of Object.keys(attributes)) {
        const before = attributes[key];
        if (before !== undefined)
          gated[isCleanName(key, rules) ? key : nameOf(key, how)] = gateAttribute(key, before, how);
      }
      return gated;
    },
    masked: () => how.masked,
  };
}

interface How {
  readonly rules: RedactionRules;
  readonly bytesMax: number;
  readonly content: "redacted" | "none";
  /** Counts up. */
  masked: number;
}

// These two are called for every value: no closure around them. They fail closed as `closed` does.
function gateText(input: string, how: How): string {
  try {
    const judged = judge(input, how.rules, how.bytesMax);
    how.masked += judged.redacted;
    return cut(judged, how.bytesMax).text;
  } catch (error) {
    return replaced(error, UNREADABLE);
  }
}

function gateValue(input: unknown, how: How): GatedValue {
  const { rules, bytesMax, content } = how;
  try {
    const judged = judge(input, rules, bytesMax);
    how.masked += judged.redacted;
    const sha256 = hash("sha256", judged.text, "hex");
    const { bytes, redacted } = judged;
    if (content === "none")
      return { text: JSON.stringify({ bytes, sha256 }), bytes, truncated: true, redacted, sha256 };
    const { text, truncated } = cut(judged, bytesMax);
    return { text, bytes, truncated, redacted, sha256 };
  } catch (error) {
    return replaced(error, { text: UNREADABLE, bytes: 0, truncated: true, redacted: 1, sha256: "" });
  }
}

function judge(input: unknown, rules: RedactionRules, bytesMax: number): Judged {
  if (typeof input !== "string") {
    const state = newWalk(rules, bytesMax);
    const node = walk(input, state);
    const text = writeJson(node);
    const bytes = Buffer.byteLength(text) + state.hiddenBytes;
    return { node, text, omitted: state.omitted ? 1 : 0, redacted: state.redacted, bytes };
  }
  const bytes = Buffer.byteLength(input);
  const json = parseJson(input, "top");
  if (json === undefined) {
    const { text, omitted, redacted } = redactText(input, rules);
    return { node: undefined, text, omitted, redacted, bytes };
  }
  const state = newWalk(rules, bytesMax);
  const node = walk(json.value, state);
  const omitted = json.partial || state.omitted;
  // Untouched JSON keeps its own spelling.
  const text = state.redacted === 0 && !omitted ? input : writeJson(node);
  return { node, text, omitted: omitted ? 1 : 0, redacted: state.redacted, bytes };
}

function cut(judged: Judged, bytesMax: number): { readonly text: string; readonly truncated: boolean } {
  if (judged.node === undefined) return cutText(judged.text, bytesMax, judged.omitted);
  if (judged.omitted === 0 && Buffer.byteLength(judged.text) <= bytesMax)
    return { text: judged.text, truncated: false };
  return cutJson(judged.node, bytesMax);
}

/** An attribute's key. */
function nameOf(key: string, how: How): string {
  const text = gateText(key, how);
  if (text === key) rememberName(key, how.rules);
  return text;
}

function gateAttribute(key: string, before: AttributeValue, how: How): AttributeValue {
  try {
    if (how.content === "none" && contentAttribute(key)) {
      const value = (input: unknown): GatedValue => gateValue(input, how);
      return typeof before === "string" ? offText(before, value) : value(before).text;
    }
    if (how.rules.isSecret(key, before)) return masked(how);
    if (typeof before === "string") return gateText(before, how);
    if (typeof before === "boolean") return before;
    if (typeof before === "number")
      return String(before).length >= 13 && judge(before, how.rules, how.bytesMax).redacted > 0 ? masked(how) : before;
    return gateList(before, how);
  } catch (error) {
    return replaced(error, UNREADABLE);
  }
}

function masked(how: How): string {
  how.masked += 1;
  return MASK;
}

/** Arrays share the limit of one value: an array of a thousand strings is no way around it. */
function gateList(before: Exclude<AttributeValue, string | number | boolean>, how: How): AttributeValue {
  if (!before.some((element) => typeof element === "string"))
    return before.length * 8 <= how.bytesMax ? before : before.slice(0, how.bytesMax / 8);
  const kept: string[] = [];
  let left = how.bytesMax;
  for (const element of before) {
    const text = gateText(String(element), how);
    left -= Buffer.byteLength(text);
    if (left < 0) break;
    kept.push(text);
  }
  return kept;
}

/** Name, message and stack, each cleaned; the chain of causes is in the stack. Never the error's own properties (case F13). */
function gateError(input: unknown, content: (text: string) => string, text: (text: string) => string): GatedError {
  return closed(
    () => {
      if (!(input instanceof Error)) return { name: typeof input, message: content(String(input)), stack: "" };
      const stacks: string[] = [];
      let at: unknown = input;
      for (let depth = 0; depth < 5 && at instanceof Error; depth++) {
        // V8 puts the message on top of the stack: `none` keeps the frames only.
        const frames = (at.stack ?? "")
          .split("\n")
          .filter((line) => /^\s+at /.test(line))
          .slice(0, 20)
          .join("\n");
        stacks.push(`${depth === 0 ? "" : "Caused by: "}${at.name}: ${content(at.message)}\n${frames}`);
        at = at.cause;
      }
      return { name: text(input.name), message: content(input.message), stack: text(stacks.join("\n")) };
    },
    { name: "Error", message: UNREADABLE, stack: "" },
  );
}

function knownContent(content: string | undefined): "redacted" | "none" {
  if (content === undefined || content === "redacted") return "redacted";
  if (content !== "none")
    diag.warn(`tracing: content is "${content}", known are "redacted" and "none"; taken as "none"`);
  return "none";
}

/** Fails closed: whatever goes wrong in the judging, the raw value does not pass. */
function closed<T>(judgeIt: () => T, otherwise: T): T {
  try {
    return judgeIt();
  } catch (error) {
    return replaced(error, otherwise);
  }
}

function replaced<T>(error: unknown, otherwise: T): T {
  diag.debug("tracing: the gate could not judge a value and replaced it", error);
  return otherwise;
}
