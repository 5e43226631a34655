// Cuts a filter's text into tokens, each with the place it started at.

import type { Operator } from "./filter-compare.ts";

export type Token =
  | { readonly kind: "word"; readonly at: number; readonly word: "and" | "or" | "not" | "(" | ")" }
  | { readonly kind: "operator"; readonly at: number; readonly operator: Operator }
  | { readonly kind: "bare"; readonly at: number; readonly text: string }
  | { readonly kind: "quoted"; readonly at: number; readonly text: string }
  | { readonly kind: "end"; readonly at: number };

export type Tokenized = { readonly tokens: readonly Token[] } | { readonly at: number; readonly expected: string };

// Sticky and without nested repetition: linear on any input.
const SPACE = /\s*/y;
const OPERATOR = /!=|>=|<=|=|>|</y;
const BARE = /[^\s()=!<>"']+/y;

/** Names and values are both bare words; quotes (double or single, backslash escapes the next character) are for the rest. */
export function tokenize(text: string): Tokenized {
  const tokens: Token[] = [];
  let at = 0;
  while (true) {
    at += matchAt(SPACE, text, at).length;
    if (at >= text.length) return { tokens: [...tokens, { kind: "end", at: text.length }] };
    const scanned = scan(text, at);
    if ("expected" in scanned) return scanned;
    tokens.push(scanned.token);
    at = scanned.end;
  }
}

function scan(
  text: string,
  at: number,
): { readonly token: Token; readonly end: number } | { readonly at: number; readonly expected: string } {
  const first = text.charAt(at);
  if (first === "(" || first === ")") return { token: { kind: "word", at, word: first }, end: at + 1 };
  if (first === '"' || first === "'") return scanQuoted(text, at, first);
  const operator = matchAt(OPERATOR, text, at);
  // The pattern matches these six strings and no other.
  if (operator !== "")
    return { token: { kind: "operator", at, operator: operator as Operator }, end: at + operator.length };
  const bare = matchAt(BARE, text, at);
  if (bare === "") return { at, expected: "a name, an operator or a value" };
  const word = bare.toLowerCase();
  const token: Token =
    word === "and" || word === "or" || word === "not" ? { kind: "word", at, word } : { kind: "bare", at, text: bare };
  return { token, end: at + bare.length };
}

function scanQuoted(
  text: string,
  at: number,
  quote: string,
): { readonly token: Token; readonly end: number } | { readonly at: number; readonly expected: string } {
  let value = "";
  for (let index = at + 1; index < text.length; index++) {
    const character = text.charAt(index);
    if (character === quote) return { token: { kind: "quoted", at, text: value }, end: index + 1 };
    if (character === "\\") index += 1;
    value += text.charAt(index);
  }
  return { at: text.length, expected: `a closing ${quote}` };
}

function matchAt(pattern: RegExp, text: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
}
