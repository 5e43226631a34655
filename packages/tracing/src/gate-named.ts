// Secrets recognisable by the name before them in plain or broken text: `password=...`, `Authorization: ...`, `\"api_key\":\"...\"`.

import type { SecretKey } from "./gate-keys.ts";
import type { Span } from "./gate-patterns.ts";

const NAME_MAX = 64;
const SEPARATORS = /[:=]|%3D/gi;
const AFTER = /(?:>|%3E)?[ \t]*/iy;
const OPENING = /\\*["']/y;
// Values of these run to the end of the line: they hold spaces and semicolons.
const HEADER = /authorization|cookie/i;
// `api key: ...` is written with a blank; the word before any other name says nothing about its value.
const SECOND_WORD = /^(?:keys?|number|string|code)$/i;
const NONE: readonly Span[] = [];

/**
 * Spans of the values, quotes left standing so that JSON stays JSON. It goes from separator to separator, not from name to
 * name: they are rarer, and the stretches looked at before them do not overlap, which keeps it linear.
 */
export function namedSpans(text: string, isSecret: SecretKey): readonly Span[] {
  let spans: Span[] | undefined;
  let from = 0;
  SEPARATORS.lastIndex = 0;
  for (let hit = SEPARATORS.exec(text); hit !== null; SEPARATORS.lastIndex = from, hit = SEPARATORS.exec(text)) {
    const name = nameBefore(text, hit.index, from);
    from = hit.index + hit[0].length;
    // The name first: values may run to the end of the text, and only a masked one is not looked at again.
    if (name === "" || !isSecret(name, "?")) continue;
    const value = valueAfter(text, from, HEADER.test(name));
    if (value === undefined || !isSecret(name, text.slice(value[0], Math.min(value[1], value[0] + 64)))) continue;
    if (/^(?:null|true|false|undefined|none)$/i.test(text.slice(value[0], Math.min(value[1], value[0] + 10)))) continue;
    spans ??= [];
    spans.push(value);
    from = Math.max(from, value[1]);
  }
  return spans ?? NONE;
}

/** The name that ends before a separator, behind blanks and a quote. Not further back than `from`. */
function nameBefore(text: string, separator: number, from: number): string {
  let end = separator;
  while (end > from && isBlank(text.charCodeAt(end - 1))) end -= 1;
  if (end > from && isQuote(text.charCodeAt(end - 1))) {
    end -= 1;
    while (end > from && text.charCodeAt(end - 1) === BACKSLASH) end -= 1;
  }
  const start = wordStart(text, end, from);
  const name = text.slice(start, end);
  if (!SECOND_WORD.test(name) || start - 1 <= from || text.charAt(start - 1) !== " ") return name;
  return text.slice(wordStart(text, start - 1, from), end);
}

function wordStart(text: string, end: number, from: number): number {
  let start = end;
  while (start > from && end - start < 2 * NAME_MAX && isNamePart(text.charCodeAt(start - 1))) start -= 1;
  return start;
}

/** A letter, a digit, or one of `_.-`. */
function isNamePart(code: number): boolean {
  const letter = (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a;
  return letter || (code >= 0x30 && code <= 0x39) || code === 0x5f || code === 0x2d || code === 0x2e;
}

const BACKSLASH = 0x5c;

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

function isQuote(code: number): boolean {
  return code === 0x22 || code === 0x27;
}

/** From behind the separator. */
function valueAfter(text: string, at: number, toLineEnd: boolean): Span | undefined {
  AFTER.lastIndex = at;
  const start = at + (AFTER.exec(text)?.[0].length ?? 0);
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
