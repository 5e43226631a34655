// The store: all queues of one endpoint, how they are addressed, and the one door every change goes through.

import { SqsError } from "./sqs-errors.ts";
import { openJournal, type SqsJournal } from "./sqs-journal.ts";
import { applyChange, type SqsChange, type SqsQueue } from "./sqs-queue.ts";

export interface SqsStoreOptions {
  readonly region: string;
  readonly account: string;
  readonly journalFile?: string | undefined;
  /** Called once for each queue a commit touched, after it: a waiting long poll may have something to take. */
  readonly onTouched: (queue: string) => void;
}

/** A bound of this endpoint: tests make a queue each, and a forgotten loop must not eat the machine. */
export const QUEUES_MAX = 5_000;

export class SqsStore {
  readonly #queues = new Map<string, SqsQueue>();
  readonly #options: SqsStoreOptions;
  readonly #journal: SqsJournal | undefined;

  constructor(options: SqsStoreOptions) {
    this.#options = options;
    this.#journal = options.journalFile === undefined ? undefined : openJournal(options.journalFile, this.#queues);
  }

  queues(): Iterable<SqsQueue> {
    return this.#queues.values();
  }

  find(name: string): SqsQueue | undefined {
    return this.#queues.get(name);
  }

  /** By name or by URL: the last part of the path is what counts, whatever host a client reached us by. */
  queue(nameOrUrl: string): SqsQueue {
    const queue = this.#queues.get(queueNameOf(nameOrUrl));
    if (queue === undefined) {
      throw new SqsError(
        "QueueDoesNotExist",
        `There is no queue ${queueNameOf(nameOrUrl)} at this endpoint: create it first.`,
      );
    }
    return queue;
  }

  findByArn(arn: string): SqsQueue | undefined {
    return this.#queues.get(arn.split(":").at(-1) ?? "");
  }

  arn(queue: string): string {
    return `arn:aws:sqs:${this.#options.region}:${this.#options.account}:${queue}`;
  }

  url(queue: string, host: string): string {
    return `http://${host}/${this.#options.account}/${queue}`;
  }

  roomForQueue(): void {
    if (this.#queues.size < QUEUES_MAX) return;
    throw new SqsError("OverLimit", `The embedded endpoint holds ${QUEUES_MAX} queues, its bound: delete some.`, {
      bound: "queues",
    });
  }

  /** Journal first: what was answered must be found again after a kill. */
  commit(changes: readonly SqsChange[]): void {
    this.#journal?.append(changes);
    for (const change of changes) applyChange(this.#queues, change);
    for (const queue of new Set(changes.map((change) => change.queue))) this.#options.onTouched(queue);
  }

  close(): void {
    this.#journal?.close();
  }
}

export function queueNameOf(nameOrUrl: string): string {
  return nameOrUrl.split("/").at(-1) ?? "";
}
