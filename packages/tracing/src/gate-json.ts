// Opens strings that are JSON, also cut ones, without losing what JSON.parse loses: integers beyond 2^53 keep their digits.

/** Characters of a text that is parsed whole. */
const PARSE_MAX = 64 * 1024;
/** A longer one is judged by a closed-off prefix of this length: more has no chance to be in the output. */
const PREFIX = 16 * 1024;
/** Levels that are open in a text we would still close; the tree is not walked that deep. */
const OPEN_MAX = 200;
/** Marks a long integer between JSON.parse and the tree. A text that contains it is harmless: it is checked again to be a number. */
const SENTINEL = "\u0000#";

export interface ParsedJson {
  readonly value: unknown;
  /** The text went on beyond the part that was parsed. */
  readonly partial: boolean;
}

/** `top` also opens a long text by its prefix; a `nested` one has to be whole, else it is plain text to us. */
export function parseJson(text: string, where: "top" | "nested"): ParsedJson | undefined {
  const first = text.charCodeAt(0);
  // A letter or a digit, mostly. The pattern is for the rest.
  if (first !== 0x7b && first !== 0x5b && first !== 0x22 && first > 0x20 && first < 0x7f) return undefined;
  if (!/^\s{0,64}(?:[{[]|"(?=[\s\S]{0,64}[{[]))/.test(text)) return undefined;
  if (text.length > PARSE_MAX) {
    const closed = where === "top" ? closeOff(text.slice(0, PREFIX)) : undefined;
    const value = closed === undefined ? undefined : parse(closed);
    return value === undefined ? undefined : { value, partial: true };
  }
  const value = parse(text);
  return value === undefined ? undefined : { value, partial: false };
}

/** The digits of a long integer that came through `parseJson`; undefined for every other string. */
export function rawNumber(text: string): string | undefined {
  if (!text.startsWith(SENTINEL)) return undefined;
  const digits = text.slice(SENTINEL.length);
  return /^-?(?:0|[1-9]\d*)$/.test(digits) ? digits : undefined;
}

function parse(text: string): unknown {
  try {
    // Never undefined: JSON has no such value.
    const value: unknown = JSON.parse(text);
    return /\d{16}/.test(text) ? JSON.parse(markLongIntegers(text)) : value;
  } catch {
    return undefined;
  }
}

// Strings are matched first, so that digits inside them stay alone. Only used on text that JSON.parse accepted.
const STRING_OR_LONG_INTEGER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d{16,}(?![\d.eE])/g;

function markLongIntegers(text: string): string {
  let previous = "";
  return text.replace(STRING_OR_LONG_INTEGER, (token, offset: number) => {
    previous = text.charAt(offset - 1);
    // Behind a point it is a fraction, behind an e an exponent.
    return token.startsWith('"') || /[.eE\d+-]/.test(previous) ? token : `"\\u0000#${token}"`;
  });
}

/** Cuts a prefix of JSON behind its last whole value and closes what is open there. */
function closeOff(prefix: string): string | undefined {
  const open: string[] = [];
  let cut = -1;
  const tokens = /"[^"\\]*(?:\\[\s\S][^"\\]*)*"?|[[\]{},]/g;
  for (let match = tokens.exec(prefix); match !== null && open.length <= OPEN_MAX; match = tokens.exec(prefix)) {
    const token = match[0];
    if (token.startsWith('"')) continue;
    if (token === "{") open.push("}");
    else if (token === "[") open.push("]");
    else if (token !== ",") open.pop();
    cut = token === "," ? match.index : match.index + 1;
  }
  return cut < 0 ? undefined : prefix.slice(0, cut) + open.toReversed().join("");
}
