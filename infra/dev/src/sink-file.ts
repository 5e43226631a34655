// Appends spans to a JSON-lines file, in bounded size: over the bound the file becomes `<file>.1` and a new one begins.

import { appendFileSync, mkdirSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";

export interface SinkFile {
  /** One call a request: a batch is in the file whole or, on a full disk, counted as lost. Never throws. */
  append(lines: readonly string[]): void;
  /** Lines that could not be written. */
  linesLost(): number;
}

const FILE_BYTES_MAX = 256 * 1_048_576;

/** @param bytesMax of the current file; the one before it is kept, older ones are not. */
export function openSinkFile(file: string, bytesMax: number = FILE_BYTES_MAX): SinkFile {
  mkdirSync(dirname(file), { recursive: true });
  let bytes = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  let lost = 0;
  return {
    append: (lines) => {
      if (lines.length === 0) return;
      const text = `${lines.join("\n")}\n`;
      try {
        if (bytes > 0 && bytes + Buffer.byteLength(text) > bytesMax) {
          renameSync(file, `${file}.1`);
          bytes = 0;
        }
        // Synchronous on purpose: order is kept, nothing queues up, and a killed sink has what it acknowledged.
        appendFileSync(file, text);
        bytes += Buffer.byteLength(text);
      } catch {
        // A full disk must not fail the exporter: the spans are still in memory, and the loss is counted.
        lost += lines.length;
      }
    },
    linesLost: () => lost,
  };
}
