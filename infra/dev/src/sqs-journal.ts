// The journal: one JSON line a change, appended before the reply, replayed and compacted at the next start.

import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { SqsEndpointError } from "./sqs-errors.ts";
import { applyChange, type SqsChange, type SqsQueue, snapshotChanges } from "./sqs-queue.ts";

export interface SqsJournal {
  append(changes: readonly SqsChange[]): void;
  close(): void;
}

/** Lines after which the running journal is compacted: the file stays proportional to what the queues hold. */
const LINES_MAX = 200_000;

/**
 * Replays `file` into `queues`, then rewrites it compacted. Written without fsync: it survives a killed process,
 * not a power cut. One endpoint a file; two would overwrite each other.
 */
export function openJournal(file: string, queues: Map<string, SqsQueue>): SqsJournal {
  mkdirSync(dirname(file), { recursive: true });
  for (const change of readJournal(file)) applyChange(queues, change);
  return startJournal(file, queues);
}

/** A torn last line is a write the kill cut short: nobody was answered for it. Any other bad line is a damaged file. */
export function readJournal(file: string): readonly SqsChange[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n");
  const changes: SqsChange[] = [];
  for (const [index, line] of lines.entries()) {
    if (line === "") continue;
    const change = parseLine(line);
    if (change !== undefined) {
      changes.push(change);
    } else if (index !== lines.length - 1) {
      throw new SqsEndpointError(
        "SQS_JOURNAL_CORRUPT",
        `Line ${index + 1} of the SQS journal ${file} is damaged. Delete the file to start with empty queues.`,
      );
    }
  }
  return changes;
}

const KINDS: readonly string[] = [
  "queue_set",
  "queue_deleted",
  "queue_purged",
  "message_put",
  "message_removed",
  "dedup_put",
];

function parseLine(line: string): SqsChange | undefined {
  let parsed: unknown;
  try {
    parsed = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (typeof parsed !== "object" || parsed === null || !("kind" in parsed) || !("queue" in parsed)) return undefined;
  if (typeof parsed.kind !== "string" || !KINDS.includes(parsed.kind)) return undefined;
  // Only this file writes journals, from values of this type; the kind was checked above.
  return parsed as SqsChange;
}

function startJournal(file: string, queues: ReadonlyMap<string, SqsQueue>): SqsJournal {
  let lines = 0;
  let descriptor = compact();

  function compact(): number {
    const snapshot = snapshotChanges(queues);
    const fresh = `${file}.compacting`;
    closeSync(openSync(fresh, "w"));
    // In slices: one string of the whole state could pass the longest string V8 makes.
    for (let start = 0; start < snapshot.length; start += 1000) {
      appendFileSync(fresh, linesOf(snapshot.slice(start, start + 1000)));
    }
    // Dying before the rename leaves the old journal whole; after it, the new one.
    renameSync(fresh, file);
    lines = 0;
    return openSync(file, "a");
  }

  return {
    append(changes) {
      if (changes.length === 0) return;
      writeSync(descriptor, linesOf(changes));
      lines += changes.length;
      if (lines < LINES_MAX) return;
      closeSync(descriptor);
      descriptor = compact();
    },
    close() {
      closeSync(descriptor);
    },
  };
}

function linesOf(changes: readonly SqsChange[]): string {
  return changes.map((change) => `${JSON.stringify(change)}\n`).join("");
}
