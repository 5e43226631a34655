// Field names as they leave: a name can itself be a secret, and nearly never is.

import { type RedactionRules, redactText } from "./gate-text.ts";

/** What the look at a name counts into. */
export interface NameState {
  readonly rules: RedactionRules;
  redacted: number;
  charsLeft: number;
  hiddenBytes: number;
}

// Field names as people write them: shorter than any pattern's shortest match, or in short lower-case words.
const PLAIN = /^(?:[A-Za-z_$][A-Za-z0-9_.$-]{0,11}|[a-z]{1,12}(?:_[a-z]{1,12}){1,3})$/;

/** Names repeat; hostile ones do not, so what is known of them is bounded by starting over. */
const KNOWN_MAX = 1_000;
const KNOWN_LENGTH_MAX = 64;

/** `"name":` as JSON writes it, redacted. */
export function nameLiteral(name: string, state: NameState): string {
  const { names, patterns } = state.rules;
  const known = names.get(name);
  if (known !== undefined) return known;
  if (patterns.length === 0 && PLAIN.test(name)) return remember(name, `"${name}":`, names);
  const { text, redacted } = redactText(name, state.rules);
  state.charsLeft -= Math.min(name.length, 8_192);
  const literal = `${JSON.stringify(text)}:`;
  if (text === name) return remember(name, literal, names);
  state.redacted += redacted;
  state.hiddenBytes += Buffer.byteLength(JSON.stringify(name)) + 1 - Buffer.byteLength(literal);
  return literal;
}

/** Is this name known to leave as it is? */
export function isCleanName(name: string, rules: RedactionRules): boolean {
  return rules.names.has(name);
}

/** A name that `redactText` left as it is. */
export function rememberName(name: string, rules: RedactionRules): void {
  remember(name, `${JSON.stringify(name)}:`, rules.names);
}

function remember(name: string, literal: string, names: Map<string, string>): string {
  if (name.length > KNOWN_LENGTH_MAX) return literal;
  if (names.size >= KNOWN_MAX) names.clear();
  names.set(name, literal);
  return literal;
}
