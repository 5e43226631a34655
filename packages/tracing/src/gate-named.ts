// Secrets recognisable by the name before them in plain or broken text: `password=...`, `Authorization: ...`, `\"api_key\":\"...\"`.

import type { SecretKey } from "./gate-keys.ts";
import type { Span } from "./gate-patterns.ts";

/** Where a secret name can be; the name around it is then judged as a whole, so `tokens` or `author` hit here and pass there. */
const HINT =
  /pass|pwd|secret|token|api.?key|auth|credential|cookie|key|sig|jwt|csrf|xsrf|ssn|cvv|cvc|otp|session|string|card|security|bearer|dsn|sid|pincode/gi;

const NAME_PART = /[A-Za-z0-9_.-]/;
const NAME_MAX = 64;
const SEPARATOR = /(\\*["'])?[ \t]*(?::|=>?|%3D)[ \t]*/iy;
const OPENING = /\\*["']/y;
// Values of these run to the end of the line: they hold spaces and semicolons.
const HEADER = /authorization|cookie/i;

/** Spans of the values, quotes left standing so that JSON stays JSON. */
export function namedSpans(text: string, isSecret: SecretKey, hints: RegExp = HINT): Span[] {
  const spans: Span[] = [];
  hints.lastIndex = 0;
  for (let hit = hints.exec(text); hit !== null; hit = hints.exec(text)) {
    const name = nameAround(text, hit.index, hit.index + Math.max(hit[0].length, 1));
    hints.lastIndex = Math.max(hints.lastIndex, name.end);
    const value = valueAfter(text, name.end, HEADER.test(name.text));
    if (value === undefined || !isSecret(name.text, text.slice(value[0], Math.min(value[1], value[0] + 64)))) continue;
    if (/^(?:null|true|false|undefined|none)$/i.test(text.slice(value[0], value[1]))) continue;
    spans.push(value);
    hints.lastIndex = Math.max(hints.lastIndex, value[1]);
  }
  return spans;
}

/** A pattern that also stops at the caller's own key words. */
export function hintsFor(extraKeys: readonly string[]): RegExp {
  const words = extraKeys.flatMap((key) => key.match(/[A-Za-z0-9]+/g) ?? []);
  return words.length === 0 ? new RegExp(HINT) : new RegExp(`${HINT.source}|${words.join("|")}`, "gi");
}

function nameAround(text: string, start: number, end: number): { readonly text: string; readonly end: number } {
  let left = start;
  while (left > 0 && start - left < NAME_MAX && NAME_PART.test(text.charAt(left - 1))) left -= 1;
  let right = end;
  while (right < text.length && right - end < NAME_MAX && NAME_PART.test(text.charAt(right))) right += 1;
  return { text: text.slice(left, right), end: right };
}

function valueAfter(text: string, at: number, toLineEnd: boolean): Span | undefined {
  SEPARATOR.lastIndex = at;
  const separator = SEPARATOR.exec(text);
  if (separator === null) return undefined;
  const start = at + separator[0].length;
  OPENING.lastIndex = start;
  const opening = OPENING.exec(text)?.[0];
  if (opening !== undefined) return [start + opening.length, closingQuote(text, start + opening.length, opening)];
  const first = text.charAt(start);
  if (first === "{" || first === "[") return [start, closingBracket(text, start)];
  const rest = toLineEnd ? /["'\\\r\n]/g : /[\s,;&"'`)\]}<>\\]/g;
  rest.lastIndex = start;
  const end = rest.exec(text)?.index ?? text.length;
  return end > start ? [start, end] : undefined;
}

/** The same quote behind the same number of backslashes; without one, the value is masked to the end. */
function closingQuote(text: string, from: number, opening: string): number {
  const quote = opening.slice(-1);
  const wanted = opening.length - 1;
  for (let at = text.indexOf(quote, from); at >= 0; at = text.indexOf(quote, at + 1)) {
    let slashes = 0;
    while (slashes < NAME_MAX && at - slashes > from && text.charAt(at - 1 - slashes) === "\\") slashes += 1;
    // Unescaped level: an even number escapes itself. Escaped level: this many, or fewer when the string around it ends.
    if (wanted === 0 ? slashes % 2 === 0 : slashes <= wanted) return wanted === 0 ? at : at - slashes;
  }
  return text.length;
}

function closingBracket(text: string, from: number): number {
  const brackets = /[[\]{}]/g;
  brackets.lastIndex = from;
  let depth = 0;
  for (let match = brackets.exec(text); match !== null; match = brackets.exec(text)) {
    depth += match[0] === "{" || match[0] === "[" ? 1 : -1;
    if (depth === 0) return match.index + 1;
  }
  return text.length;
}
