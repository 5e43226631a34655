// Option texts of the command, read: numbers, ages, filters, JSON. What cannot be read is said with what would have been.
import { type ParsedFilter, parseFilter } from "@reprise/tracing";
import { errorText, WorkerError } from "./errors.ts";

export type Filter = Extract<ParsedFilter, { ok: true }>["matches"];

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** @throws WorkerError CONFIG_INVALID, as all of these */
export function wholeOption(
  name: string,
  text: string,
  bounds: { readonly min: number; readonly max: number },
): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= bounds.min && value <= bounds.max) return value;
  throw invalid(`${name} is "${text}", not a whole number from ${bounds.min} to ${bounds.max}`);
}

/** `90s`, `15m`, `24h`, `30d` or `2w`, as milliseconds. */
export function ageOption(name: string, text: string): number {
  const [, digits = "", unit = ""] = /^(\d{1,6})([smhdw])$/.exec(text) ?? [];
  const factor = UNITS[unit];
  if (factor === undefined) throw invalid(`${name} is "${text}", not an age such as 90s, 15m, 24h, 30d or 2w`);
  return Number(digits) * factor;
}

export function filterOption(text: string | undefined): Filter | undefined {
  if (text === undefined) return undefined;
  const filter = parseFilter(text);
  if (!filter.ok) throw invalid(`--where: ${filter.message}`);
  return filter.matches;
}

/** @returns the text itself, known to be JSON */
export function jsonOption(name: string, text: string): string {
  try {
    JSON.parse(text);
    return text;
  } catch (error) {
    throw invalid(`${name} is not JSON: ${errorText(error)}`, error);
  }
}

export function invalid(text: string, cause?: unknown): WorkerError {
  return new WorkerError("CONFIG_INVALID", text, cause === undefined ? undefined : { cause });
}
