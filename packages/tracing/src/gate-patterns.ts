// Secrets recognisable by their value, wherever they stand: provider keys, tokens, PEM blocks, URL credentials, card numbers.

import { cardsIn } from "./gate-card.ts";

/** Offsets [start, end) of what must not leave. */
export type Span = readonly [number, number];

/**
 * One look at the text that almost always says no: anything else runs only after a hit. It must match wherever any of the
 * patterns can; "no planted secret survives" in gate.test.ts fails when one is added below and forgotten here. Each
 * alternative starts with a rare character and looks back from it: one that starts with common letters is tried at nearly
 * every place, and took twice as long.
 */
const TOKEN =
  /_(?<=[sr]k_|whsec_|gh[pousr]_|github_|npm_|hf_|gsk_|lsv2_|r8_|fw_|dop_|shp[a-z]{2}_)|-(?<=sk-|xox[a-z]-|xapp-|glpat-|pypi-|xai-|pplx-|tvly-|sq0[a-z]{3}-)|A(?:[KSBC][IC]A|Iza)|J(?<=eyJ)|\.(?<=ya29\.|SG\.)|:(?<=\d{8}:)/;
const SCHEME = /[Bb](?:[Ee][Aa][Rr][Ee]|[Aa][Ss][Ii][Cc])/;
const LONG_NUMBER = /\d[\d -]{11}\d/;
const ANCHOR = new RegExp(`${TOKEN.source}|-----B|:(?=//)|${SCHEME.source}|${LONG_NUMBER.source}`);

// A prefix and one run of characters each: no nested repetition, so linear on any input, and true for every longer secret too,
// which the window at gate-text.ts relies on.
const VALUES: readonly RegExp[] = [
  /(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}/g,
  /sk-(?:ant|proj|or|svcacct)-[A-Za-z0-9_-]{8,}/g,
  /(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{8,}/g,
  /xox[a-z]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}/g,
  /gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}/g,
  /A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}/g,
  /AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}/g,
  /eyJ[A-Za-z0-9_-]{12,}[A-Za-z0-9_.-]*/g,
  /(?:npm|hf|gsk|lsv2|r8|fw|dop_v1)_[A-Za-z0-9_]{20,}|(?:pypi|xai|pplx|tvly)-[A-Za-z0-9_-]{16,}/g,
  /shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{16,}|sq0[a-z]{3}-[A-Za-z0-9_-]{16,}|SG\.[A-Za-z0-9_-]{16,}[A-Za-z0-9_.-]*/g,
  /(?<!\d)\d{8,10}:[A-Za-z0-9_-]{34,}/g,
];

const BEARER = /(?<![A-Za-z])(?:bearer|basic)[ \t]+[A-Za-z0-9._~+/=-]{6,}/gi;
// In one piece, or in groups as printed on cards; single digits with blanks between are lists of numbers.
const DIGITS = /(?<![\d.])(?:\d{13,19}(?!\d)|\d{3,6}(?:[ -]\d{3,6}){2,7})/g;
const NONE: readonly Span[] = [];
// What ends an authority in prose and in JSON.
const AUTHORITY = /[^\s/?#"'<>\\@]*/y;

export function patternSpans(text: string, extra: readonly RegExp[]): readonly Span[] {
  if (extra.length === 0 && !ANCHOR.test(text)) return NONE;
  const spans: Span[] = [];
  for (const pattern of extra) collect(pattern, text, spans);
  if (extra.length > 0 && !ANCHOR.test(text)) return spans;
  if (TOKEN.test(text)) for (const pattern of VALUES) collect(pattern, text, spans);
  if (SCHEME.test(text)) collect(BEARER, text, spans, isCredential);
  if (LONG_NUMBER.test(text)) {
    for (const [start, end] of matchesOf(DIGITS, text)) {
      for (const [first, last] of cardsIn(text.slice(start, end))) spans.push([start + first, start + last]);
    }
  }
  pemSpans(text, spans);
  credentialSpans(text, spans);
  return spans;
}

function collect(pattern: RegExp, text: string, spans: Span[], accept?: (match: string) => boolean): void {
  for (const span of matchesOf(pattern, text)) {
    if (accept === undefined || accept(text.slice(span[0], span[1]))) spans.push(span);
  }
}

/** Not `matchAll`: that copies the pattern at every call, which costs more than the search in a short string. */
function matchesOf(pattern: RegExp, text: string): readonly Span[] {
  pattern.lastIndex = 0;
  let match = pattern.exec(text);
  if (match === null) return NONE;
  const spans: Span[] = [];
  for (; match !== null; match = pattern.exec(text)) {
    if (match[0] === "") pattern.lastIndex += 1;
    else spans.push([match.index, match.index + match[0].length]);
  }
  return spans;
}

/** "Basic understanding" is prose; a credential has a digit, padding, or inner capitals. */
function isCredential(match: string): boolean {
  return /[\d=]|[a-z][A-Z]/.test(match.slice(6).trimStart());
}

/** By search, not by pattern: a PEM pattern took 616 ms on hostile input. A block without an end is masked to the end. */
function pemSpans(text: string, spans: Span[]): void {
  let at = text.indexOf("-----BEGIN ");
  while (at >= 0) {
    const label = text.slice(at + 11, at + 60);
    const endsAt = text.indexOf("-----END ", at);
    const closes = endsAt < 0 ? -1 : text.indexOf("-----", endsAt + 9);
    const end = closes < 0 ? text.length : closes + 5;
    if (!/^(?:CERTIFICATE|(?:[A-Z]+ )?PUBLIC KEY)-/.test(label)) spans.push([at, end]);
    at = text.indexOf("-----BEGIN ", end);
  }
}

/** `scheme://user:password@host`: everything between the slashes and the @. */
function credentialSpans(text: string, spans: Span[]): void {
  // The next @ is found once and reused, so that a text full of :// stays linear.
  let nextAt = -2;
  for (let at = text.indexOf("://"); at >= 0; at = text.indexOf("://", at + 3)) {
    const start = at + 3;
    AUTHORITY.lastIndex = start;
    const authority = AUTHORITY.exec(text)?.[0] ?? "";
    const end = start + authority.length;
    if (nextAt !== -1 && nextAt < end) nextAt = text.indexOf("@", end);
    if (nextAt < 0) return;
    // A password with a slash in it leaves `user:pas` where a host and a numeric port should be.
    const unescaped = /:[^\d]|:\d+[^\d]/.test(authority) && nextAt - end <= 128 && !/\s/.test(text.slice(end, nextAt));
    if (nextAt === end || unescaped) spans.push([start, nextAt]);
  }
}
