// The gate everything passes before it leaves the process: redact, then cut. Also usable alone, at the source of a value.

import { createHash } from "node:crypto";
import { type Attributes, type AttributeValue, diag } from "@opentelemetry/api";
import { OptionInvalidError } from "./errors.ts";
import { contentAttribute, offText } from "./gate-content.ts";
import { cutJson, cutText } from "./gate-cut.ts";
import { parseJson } from "./gate-json.ts";
import { secretKeys } from "./gate-keys.ts";
import { hintsFor } from "./gate-named.ts";
import { MASK, type RedactionRules, redactText } from "./gate-text.ts";
import { type GateNode, newWalk, walk, writeJson } from "./gate-tree.ts";

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
  /** SHA-256 (hex) of the redacted text before the cut, of at most the first 64 KiB that the gate looks at. */
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
    hints: hintsFor(options.extraKeys ?? []),
    patterns: (options.extraPatterns ?? []).map(
      (pattern) => new RegExp(pattern, `${pattern.flags.replace(/[gy]/g, "")}g`),
    ),
  };
  const text = (input: string): string => closed(() => cut(judge(input, rules), bytesMax).text, UNREADABLE);
  const value = (input: unknown): GatedValue => gateValue(input, { rules, bytesMax, content });
  return {
    value,
    text,
    error: (input) => gateError(input, content === "none" ? () => "" : text, text),
    attributes: (attributes) => {
      const gated: Attributes = {};
      for (const key of Object.keys(attributes)) {
        const before = attributes[key];
        if (before === undefined) continue;
        gated[text(key)] = closed(() => {
          if (content === "none" && contentAttribute(key))
            return typeof before === "string" ? offText(before, value) : value(before).text;
          return gateAttribute(key, before, { rules, text, bytesMax });
        }, UNREADABLE);
      }
      return gated;
    },
  };
}

function gateValue(
  input: unknown,
  how: { readonly rules: RedactionRules; readonly bytesMax: number; readonly content: "redacted" | "none" },
): GatedValue {
  return closed(
    () => {
      const judged = judge(input, how.rules);
      const sha256 = createHash("sha256").update(judged.text).digest("hex");
      const { bytes, redacted } = judged;
      if (how.content === "none")
        return { text: JSON.stringify({ bytes, sha256 }), bytes, truncated: true, redacted, sha256 };
      return { ...cut(judged, how.bytesMax), bytes, redacted, sha256 };
    },
    { text: UNREADABLE, bytes: 0, truncated: true, redacted: 1, sha256: "" },
  );
}

function judge(input: unknown, rules: RedactionRules): Judged {
  if (typeof input !== "string") {
    const state = newWalk(rules);
    const node = walk(input, state);
    return {
      node,
      text: writeJson(node),
      omitted: state.omitted ? 1 : 0,
      redacted: state.redacted,
      bytes: state.bytes,
    };
  }
  const bytes = Buffer.byteLength(input);
  const json = parseJson(input, "top");
  if (json === undefined) return { node: undefined, ...redactText(input, rules), bytes };
  const state = newWalk(rules);
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
  return cutJson(judged.node, bytesMax, judged.omitted > 0);
}

function gateAttribute(
  key: string,
  before: AttributeValue,
  how: { readonly rules: RedactionRules; readonly text: (input: string) => string; readonly bytesMax: number },
): AttributeValue {
  if (how.rules.isSecret(key, before)) return MASK;
  if (typeof before === "string") return how.text(before);
  if (typeof before === "boolean") return before;
  if (typeof before === "number")
    return String(before).length >= 13 && judge(before, how.rules).redacted > 0 ? MASK : before;
  // Arrays share the limit of one value: an array of a thousand strings is no way around it.
  if (!before.some((element) => typeof element === "string"))
    return before.length * 8 <= how.bytesMax ? before : before.slice(0, how.bytesMax / 8);
  const kept: string[] = [];
  let left = how.bytesMax;
  for (const element of before) {
    const text = how.text(String(element));
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
    diag.debug("tracing: the gate could not judge a value and replaced it", error);
    return otherwise;
  }
}
