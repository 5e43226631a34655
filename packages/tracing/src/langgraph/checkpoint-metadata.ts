// What TracedSaver adds to a checkpoint's metadata, cleaned so that Postgres takes it and LangGraph's own keys survive.

/** Who wrote a checkpoint: run_id, delivery_id, receive_count, worker, trace ids. Flat, so that `list({ filter })` can search it. */
export type CheckpointOrigin = Readonly<Record<string, string | number | boolean>>;

// LangGraph reads these back to go on; an origin that names them would break resume.
const OWNED_BY_LANGGRAPH = new Set(["source", "step", "parents", "writes", "counters_since_delta_snapshot"]);

/**
 * Cleans an origin. NUL and lone surrogates fail the whole put in jsonb ("unsupported Unicode escape sequence"), and a run must not
 * die of its own label: NUL is removed, a lone surrogate becomes U+FFFD. Keys that LangGraph owns are left out.
 */
export function cleanOrigin(origin: CheckpointOrigin): CheckpointOrigin {
  const cleaned: Record<string, string | number | boolean> = {};
  for (const [key, value] of Object.entries(origin)) {
    const name = cleanText(key);
    if (OWNED_BY_LANGGRAPH.has(name)) continue;
    cleaned[name] = typeof value === "string" ? cleanText(value) : value;
  }
  return cleaned;
}

/** Ids and names are nearly always that: every delivery cleans ten of them. */
const PLAIN = /^[ -~]*$/;

function cleanText(text: string): string {
  if (PLAIN.test(text)) return text;
  // With the u flag a surrogate pair is one character, so \p{Surrogate} matches only half pairs.
  return text.replaceAll("\0", "").replace(/\p{Surrogate}/gu, "\u{FFFD}");
}
