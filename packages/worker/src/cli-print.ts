// What the command shows: tables and fields for people, cut to the terminal; JSON lines and CSV for programs. Pure.
import { wantsNoColour } from "./env.ts";

/** Where the text goes. `columns` is absent when it goes into a pipe or a file: then nothing is cut. */
export interface Screen {
  readonly columns: number | undefined;
  readonly colour: boolean;
}

export type Tone = "good" | "bad" | "busy" | "dim";

export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => unknown;
  readonly tone?: (row: Row) => Tone | undefined;
  /** Prose: it gives way before ids do, which are there to be copied. */
  readonly prose?: true;
}

const CODES: Readonly<Record<Tone, string>> = { good: "32", bad: "31", busy: "33", dim: "2" };
/** A column is not cut below this. */
const WIDTH_MIN = 8;
/** A cell that goes into a pipe has its whole value up to this; `--json` has all of it. */
const WIDTH_MAX = 400;
const GAP = "  ";

export function screenOf(
  stream: { readonly isTTY?: boolean; readonly columns?: number },
  noColour: boolean = wantsNoColour(),
): Screen {
  if (stream.isTTY !== true) return { columns: undefined, colour: false };
  return { columns: stream.columns, colour: !noColour };
}

/** One line a row under a line of titles. On a terminal the widest columns give way until a line fits. */
export function table<Row>(rows: readonly Row[], columns: readonly Column<Row>[], screen: Screen): string {
  const cells = rows.map((row) => columns.map((column) => printable(column.value(row))));
  const titles = columns.map((column) => column.title);
  const natural = columns.map((_, at) => Math.max(...[titles, ...cells].map((line) => lengthOf(line[at] ?? ""))));
  const prose = columns.map((column) => column.prose === true);
  const widths = fitted(natural, prose, screen.columns);
  const write = (line: readonly string[], tone: (at: number) => Tone | undefined): string =>
    line
      .map((cell, at) => {
        const width = widths[at] ?? 0;
        const text = at === line.length - 1 ? cut(cell, width) : pad(cut(cell, width), width);
        return paint(text, tone(at), screen);
      })
      .join(GAP)
      .trimEnd();
  return [
    write(titles, () => "dim"),
    ...rows.map((row, index) => write(cells[index] ?? [], (at) => columns[at]?.tone?.(row))),
  ]
    .map((line) => `${line}\n`)
    .join("");
}

/** `label  value` lines. A value that is absent leaves its line out. */
export function fields(
  pairs: readonly (readonly [label: string, value: unknown, tone?: Tone | undefined])[],
  screen: Screen,
): string {
  const present = pairs.filter(([, value]) => value !== undefined && value !== null);
  const width = Math.max(0, ...present.map(([label]) => label.length));
  const left = screen.columns === undefined ? WIDTH_MAX : Math.max(20, screen.columns - width - GAP.length);
  return present
    .map(([label, value, tone]) => {
      const name = paint(pad(label, width), "dim", screen);
      return `${name}${GAP}${paint(cut(printable(value), left), tone, screen)}\n`;
    })
    .join("");
}

export function jsonLines(rows: readonly unknown[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

/**
 * RFC 4180, with lines that end in CRLF. A cell that a spreadsheet would take for a formula begins with an apostrophe: what
 * models and providers wrote must not run on the reader's machine (OWASP, CSV Injection).
 */
export function csv(rows: readonly object[], names: readonly string[]): string {
  const line = (values: readonly unknown[]): string => `${values.map(csvCell).join(",")}\r\n`;
  return [line(names), ...rows.map((row) => line(names.map((name) => Reflect.get(row, name))))].join("");
}

function csvCell(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text =
    value instanceof Date ? value.toISOString() : typeof value === "object" ? JSON.stringify(value) : String(value);
  // A number of ours is a number, also a negative one; text is what somebody wrote.
  const safe = typeof value === "string" && /^[=+\-@\t\r\n]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) || safe !== safe.trim() ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Ids and texts come from whoever may write to the queue: control characters never reach the terminal. */
export function printable(value: unknown): string {
  if (value === null || value === undefined || value === "") return "-";
  if (value instanceof Date) return value.toISOString().replace(/\.\d+Z$/, "Z");
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "?");
}

/** What a status or a state looks like. */
export function toneOf(state: unknown): Tone | undefined {
  switch (state) {
    case "finished":
    case "done":
      return "good";
    case "failed":
    case "parked":
    case "abandoned":
    case "lost":
    case "failed_retry":
    case "unknown":
      return "bad";
    case "queued":
    case "running":
    case "interrupted":
    case "reserved":
      return "busy";
    default:
      return undefined;
  }
}

function paint(text: string, tone: Tone | undefined, screen: Screen): string {
  return tone === undefined || !screen.colour ? text : `\u001b[${CODES[tone]}m${text}\u001b[0m`;
}

/** The widest column loses one character at a time, those of prose first: short ones stay whole. */
function fitted(natural: readonly number[], prose: readonly boolean[], columns: number | undefined): readonly number[] {
  const widths = natural.map((width) => Math.min(width, WIDTH_MAX));
  if (columns === undefined) return widths;
  const room = columns - GAP.length * (widths.length - 1);
  const widest = (only: boolean): number => {
    const able = widths.map((width, at) => (width > WIDTH_MIN && (!only || prose[at] === true) ? width : 0));
    return able.indexOf(Math.max(...able, 1));
  };
  for (let over = widths.reduce((sum, width) => sum + width, 0) - room; over > 0; over -= 1) {
    const at = [widest(true), widest(false)].find((found) => found !== -1);
    if (at === undefined) break;
    widths[at] = (widths[at] ?? 0) - 1;
  }
  return widths;
}

function lengthOf(text: string): number {
  return [...text].length;
}

function cut(text: string, width: number): string {
  const characters = [...text];
  return characters.length <= width ? text : `${characters.slice(0, Math.max(0, width - 1)).join("")}…`;
}

function pad(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - lengthOf(text)));
}
