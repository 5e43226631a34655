// The one small filter grammar over span attributes, as the CLI and the dev sink take it: `receive_count>1 and cause=visibility_expired`.

import { type Condition, compare, type Literal } from "./filter-compare.ts";
import { type Token, tokenize } from "./filter-token.ts";
import { ATTR } from "./names.ts";

export type ParsedFilter =
  | { readonly ok: true; matches(attributes: Readonly<Record<string, unknown>>): boolean }
  | { readonly ok: false; readonly code: "FILTER_SYNTAX"; readonly message: string };

type Predicate = (attributes: Readonly<Record<string, unknown>>) => boolean;

interface Fault {
  /** Zero-based offset into the text. */
  readonly at: number;
  readonly expected: string;
}

interface Cursor {
  readonly tokens: readonly Token[];
  at: number;
}

/** Characters of a filter, and how deep parentheses and `not` may nest. */
export const FILTER_LENGTH_MAX = 1_000;
export const FILTER_DEPTH_MAX = 32;

/** Short names, so that nobody has to type a prefix. The last row are fields of a span that a caller may put beside its attributes. */
const SHORT_NAMES: ReadonlyMap<string, string> = new Map([
  ["receive_count", ATTR.receiveCount],
  ["redelivered", ATTR.redelivered],
  ["cause", ATTR.redeliveryCause],
  ["unseen_receives", ATTR.unseenReceives],
  ["run_id", ATTR.runId],
  ["thread_id", ATTR.threadId],
  ["delivery_id", ATTR.deliveryId],
  ["agent", ATTR.agentName],
  ["outcome", ATTR.outcome],
  ["outcome_code", ATTR.outcomeCode],
  ["superseded", ATTR.superseded],
  ["reconstructed", ATTR.reconstructed],
  ["worker", ATTR.worker],
  ["resumed_from_step", ATTR.resumedFromStep],
  ["step", ATTR.step],
  ["node", ATTR.node],
  ["node_attempt", ATTR.nodeAttempt],
  ["tool", ATTR.toolName],
  ["tool_call_id", ATTR.toolCallId],
  ["tool_outcome", ATTR.toolOutcome],
  ["replayed", ATTR.toolReplayed],
  ["model", ATTR.requestModel],
  ["queue", ATTR.messagingDestination],
  ["sqs_message_id", ATTR.messagingMessageId],
  ["reason", ATTR.samplingReason],
  ...["name", "status", "duration_ms", "trace_id", "span_id"].map((field): [string, string] => [field, field]),
]);

/**
 * Parses a filter. Precedence: `not`, then `and`, then `or`; parentheses; `= != > >= < <=`; strings bare or quoted.
 * A span without the attribute matches no comparison, not even `!=`; `not a=b` does match it.
 */
export function parseFilter(text: string): ParsedFilter {
  if (text.length > FILTER_LENGTH_MAX) {
    return refused(text, { at: FILTER_LENGTH_MAX, expected: `at most ${FILTER_LENGTH_MAX} characters` });
  }
  const tokens = tokenize(text);
  if ("expected" in tokens) return refused(text, tokens);
  const cursor: Cursor = { tokens: tokens.tokens, at: 0 };
  const parsed = parseOr(cursor, 0);
  if (typeof parsed !== "function") return refused(text, parsed);
  const rest = peek(cursor);
  if (rest.kind !== "end") return refused(text, { at: rest.at, expected: "and, or, or the end" });
  return { ok: true, matches: parsed };
}

function parseOr(cursor: Cursor, depth: number): Predicate | Fault {
  const terms = parseSeries(cursor, "or", () => parseAnd(cursor, depth));
  return "expected" in terms ? terms : (attributes) => terms.predicates.some((term) => term(attributes));
}

function parseAnd(cursor: Cursor, depth: number): Predicate | Fault {
  const terms = parseSeries(cursor, "and", () => parseTerm(cursor, depth));
  return "expected" in terms ? terms : (attributes) => terms.predicates.every((term) => term(attributes));
}

function parseSeries(
  cursor: Cursor,
  word: "and" | "or",
  parse: () => Predicate | Fault,
): { readonly predicates: readonly Predicate[] } | Fault {
  const predicates: Predicate[] = [];
  do {
    const term = parse();
    if (typeof term !== "function") return term;
    predicates.push(term);
  } while (take(cursor, word));
  return { predicates };
}

function parseTerm(cursor: Cursor, depth: number): Predicate | Fault {
  const at = peek(cursor).at;
  if (depth >= FILTER_DEPTH_MAX) return { at, expected: `at most ${FILTER_DEPTH_MAX} nested parentheses and nots` };
  if (take(cursor, "not")) {
    const inner = parseTerm(cursor, depth + 1);
    return typeof inner === "function" ? (attributes) => !inner(attributes) : inner;
  }
  if (take(cursor, "(")) {
    const inner = parseOr(cursor, depth + 1);
    if (typeof inner !== "function") return inner;
    return take(cursor, ")") ? inner : { at: peek(cursor).at, expected: "and, or, or )" };
  }
  return parseComparison(cursor);
}

function parseComparison(cursor: Cursor): Predicate | Fault {
  const name = next(cursor);
  if (name.kind !== "bare") return { at: name.at, expected: "an attribute name, not or (" };
  const attribute = name.text.includes(".") ? name.text : SHORT_NAMES.get(name.text);
  if (attribute === undefined) {
    const known = [...SHORT_NAMES.keys()].join(", ");
    return { at: name.at, expected: `a full attribute name with a dot, or one of ${known}` };
  }
  const operator = next(cursor);
  if (operator.kind !== "operator") return { at: operator.at, expected: "= != > >= < or <=" };
  const value = next(cursor);
  if (value.kind !== "bare" && value.kind !== "quoted") return { at: value.at, expected: "a value" };
  const condition: Condition = { operator: operator.operator, literal: literal(value.text, value.kind === "quoted") };
  return (attributes) => compare(attributes[attribute], condition);
}

function literal(text: string, quoted: boolean): Literal {
  return !quoted && /^-?\d+(\.\d+)?$/.test(text) ? { text, number: Number(text) } : { text };
}

function peek(cursor: Cursor): Token {
  return cursor.tokens[cursor.at] ?? { kind: "end", at: 0 };
}

function next(cursor: Cursor): Token {
  const token = peek(cursor);
  if (token.kind !== "end") cursor.at += 1;
  return token;
}

function take(cursor: Cursor, word: "and" | "or" | "not" | "(" | ")"): boolean {
  const token = peek(cursor);
  if (token.kind !== "word" || token.word !== word) return false;
  cursor.at += 1;
  return true;
}

function refused(text: string, fault: Fault): ParsedFilter {
  const found = fault.at >= text.length ? "the end" : `"${text.slice(fault.at, fault.at + 20)}"`;
  const message = `Filter, column ${fault.at + 1}: expected ${fault.expected}, found ${found}. Example: receive_count>1 and cause=visibility_expired`;
  return { ok: false, code: "FILTER_SYNTAX", message };
}
