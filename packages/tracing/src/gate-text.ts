// Redacts one string, looking at a window of it: the mask is laid over the raw text, and what the window's edge might hide is not kept.

import type { SecretKey } from "./gate-keys.ts";
import { namedSpans } from "./gate-named.ts";
import { patternSpans, type Span } from "./gate-patterns.ts";

export interface RedactionRules {
  readonly isSecret: SecretKey;
  /** The user's. */
  readonly patterns: readonly RegExp[];
  /** Field names that leave as they are, as JSON writes them: a memory, bounded where it is filled. */
  readonly names: Map<string, string>;
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
  const spans = secretSpans(window, rules);
  if (spans.length === 0) {
    const text = kept === window.length ? window : wellFormed(window.slice(0, kept));
    return { text, redacted: 0, omitted: raw.length - kept };
  }
  return mask(window, spans, { kept, omitted: raw.length - kept });
}

function secretSpans(text: string, rules: RedactionRules): readonly Span[] {
  const byValue = patternSpans(text, rules.patterns);
  // A name needs a separator behind it, and most strings have none.
  const byName = /[:=%]/.test(text) ? namedSpans(text, rules.isSecret) : [];
  if (byName.length === 0) return byValue.length < 2 ? byValue : inOrder(byValue);
  return byValue.length === 0 ? byName : inOrder([...byValue, ...byName]);
}

function inOrder(spans: readonly Span[]): readonly Span[] {
  return spans.toSorted((left, right) => left[0] - right[0]);
}

export function wellFormed(text: string): string {
  // With the u flag a surrogate only matches where it stands alone.
  return /[\ud800-\udfff]/.test(text) ? text.replace(/\p{Surrogate}/gu, "\ufffd") : text;
}

/** An overlapping span only widens the mask before it. */
function mask(
  text: string,
  spans: readonly Span[],
  { kept, omitted }: { readonly kept: number; readonly omitted: number },
): RedactedText {
  let out = "";
  let at = 0;
  let redacted = 0;
  for (const [start, end] of spans) {
    if (start >= kept) break;
    if (end <= at) continue;
    if (start >= at) {
      // A mask that is already there (values pass the gate twice: at source and at export) is not counted again.
      if (!(end - start === MASK.length && text.startsWith(MASK, start))) redacted += 1;
      out += text.slice(at, start) + MASK;
    }
    at = end;
  }
  // Field by field, here and in gate.ts: spreading an object takes a microsecond, more than the search.
  return { text: wellFormed(out + text.slice(at, Math.max(at, kept))), redacted, omitted };
}
