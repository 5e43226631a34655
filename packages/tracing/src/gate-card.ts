// Card numbers: an issuer prefix with its length, and the check digit. Digits alone mask one epoch-millisecond string in ten.

/** A number as JSON writes it: sign and fraction are looked through, so that it is judged as its text would be. */
export function isCardLiteral(number: string): boolean {
  const digits = /^-?(\d{13,19})(?:\.|$)/.exec(number)?.[1];
  return digits !== undefined && isCardNumber(digits);
}

/** Is this run of digits a payment card number? */
export function isCardNumber(digits: string): boolean {
  return issuerAllows(digits) && luhn(digits);
}

/**
 * Card numbers inside a run of digit groups (`1234 4111 1111 1111 1111`), as [start, end) offsets into the run. Every group
 * is tried as a first one, because a card rarely stands alone in prose.
 */
export function cardsIn(run: string): readonly (readonly [number, number])[] {
  // One group, as in most runs: no list of groups.
  if (isAllDigits(run)) return isCardNumber(run) ? [[0, run.length]] : NONE;
  const groups = groupsOf(run);
  const found: (readonly [number, number])[] = [];
  for (const [first, { start }] of groups.entries()) {
    let digits = "";
    for (let last = first; last < groups.length && digits.length < 19; last++) {
      const group = groups[last];
      if (group === undefined) break;
      digits += group.text;
      if (digits.length >= 13 && isCardNumber(digits)) found.push([start, group.start + group.text.length]);
    }
  }
  return found;
}

const NONE: readonly (readonly [number, number])[] = [];
const GROUP = /\d+/g;

interface Group {
  readonly start: number;
  readonly text: string;
}

/** Not `matchAll`, which copies the pattern at every call. */
function groupsOf(run: string): readonly Group[] {
  const groups: Group[] = [];
  GROUP.lastIndex = 0;
  for (let match = GROUP.exec(run); match !== null; match = GROUP.exec(run))
    groups.push({ start: match.index, text: match[0] });
  return groups;
}

function isAllDigits(text: string): boolean {
  return text.length <= 19 && !/\D/.test(text);
}

function issuerAllows(digits: string): boolean {
  const size = digits.length;
  if (size < 13 || size > 19) return false;
  const two = Number(digits.slice(0, 2));
  const four = Number(digits.slice(0, 4));
  if (digits.startsWith("4")) return size === 13 || size === 16 || size === 19;
  if (two >= 51 && two <= 55) return size === 16;
  if (four >= 2221 && four <= 2720) return size === 16;
  if (two === 34 || two === 37) return size === 15;
  if (two === 30 || two === 36 || two === 38 || two === 39) return size === 14 || size === 16;
  if (two === 35) return size >= 16;
  return two === 60 || two === 62 || two === 64 || two === 65 || two === 50 || (two >= 56 && two <= 69)
    ? size >= 15
    : false;
}

function luhn(digits: string): boolean {
  let sum = 0;
  for (let index = 0; index < digits.length; index++) {
    const digit = digits.charCodeAt(digits.length - 1 - index) - 48;
    const doubled = index % 2 === 0 ? digit : digit * 2;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}
