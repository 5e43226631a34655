// Which attributes are content (what people and models wrote) rather than facts about the run, for the switch `content: "none"`.

import type { GatedValue } from "./gate.ts";
import { ATTR } from "./names.ts";

const CONTENT: ReadonlySet<string> = new Set([
  ATTR.toolArgs,
  ATTR.toolResult,
  "exception.message",
  "exception.stacktrace",
  "db.statement",
  "db.query.text",
  "url.full",
  "url.query",
  "http.url",
  "http.target",
  "input.value",
  "output.value",
  "gen_ai.system_instructions",
]);

const CONTENT_PREFIXES = [
  "gen_ai.input.",
  "gen_ai.output.messages",
  "gen_ai.prompt",
  "gen_ai.completion",
  "gen_ai.tool.call.arguments",
  "gen_ai.tool.call.result",
  "llm.input_messages",
  "llm.output_messages",
  "db.query.parameter",
  "db.operation.parameter",
] as const;

export function contentAttribute(key: string): boolean {
  return CONTENT.has(key) || CONTENT_PREFIXES.some((prefix) => key.startsWith(prefix));
}

/** Size and hash of a text. One that already is just that (gated at source) stays, so that the hash stays the content's own. */
export function offText(text: string, value: (input: unknown) => GatedValue): string {
  return /^\{"bytes":\d+,"sha256":"[0-9a-f]{64}"\}$/.test(text) ? text : value(text).text;
}
