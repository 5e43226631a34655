// Redacts one string, looking at a window of it: the mask is laid over the raw text, and what the window's edge might hide is not kept.

import type { SecretKey } from "./gate-keys.ts";
import { namedSpans } from "./gate-named.ts";
import { patternSpans, type Span } from "./gate-patterns.ts";

export interface RedactionRules {
  readonly isSecret: SecretKey;
  readonly hints: RegExp;
  readonly patterns: readonly RegExp[];
}

export interface RedactedText {
  readonly text: string;
  readonly redacted: number;
  /** Characters of the input that were not kept. */
  readonly omitted: number;
}

/** What stands where a secret stood. */
export const MASK = "[redacted]";

/** Characters that are looked at, and how many of them are kept: a secret that starts in the kept part shows enough to be recognised. */
export const WINDOW = 8_192;
export const WINDOW_KEPT = 4_096;

/** Redacts `raw`, at most `WINDOW` characters of it. Lone surrogates become U+FFFD, so that every exporter can encode the result. */
export function redactText(raw: string, rules: RedactionRules): RedactedText {
  const window = wellFormed(raw.length > WINDOW ? raw.slice(0, WINDOW) : raw);
  const kept = raw.length > WINDOW ? WINDOW_KEPT : window.length;
  const spans = patternSpans(window, rules.patterns);
  // A name needs a separator behind it, and most strings have none.
  if (/[:=]|%3D/.test(window)) spans.push(...namedSpans(window, rules.isSecret, rules.hints));
  if (spans.length === 0) return { text: wellFormed(window.slice(0, kept)), redacted: 0, omitted: raw.length - kept };
  spans.sort((left, right) => left[0] - right[0]);
  return { ...mask(window, spans, kept), omitted: raw.length - kept };
}

export function wellFormed(text: string): string {
  // With the u flag a surrogate only matches where it stands alone.
  return /[\ud800-\udfff]/.test(text) ? text.replace(/\p{Surrogate}/gu, "\ufffd") : text;
}

function mask(
  text: string,
  spans: readonly Span[],
  kept: number,
): { readonly text: string; readonly redacted: number } {
  let out = "";
  let at = 0;
  let redacted = 0;
  for (const [start, end] of spans) {
    if (start >= kept) break;
    if (end <= at) continue;
    // An overlapping span only widens the mask before it.
    if (start >= at) {
      // A mask that is already there (values pass the gate twice: at source and at export) is not counted again.
      if (text.slice(start, end) !== MASK) redacted += 1;
      out += text.slice(at, start) + MASK;
    }
    at = end;
  }
  return { text: wellFormed(out + text.slice(at, Math.max(at, kept))), redacted };
}
