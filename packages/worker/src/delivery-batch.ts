// Gathers what several deliveries ask of PostgreSQL into one statement, and hands each its own answer.

export interface BatchOptions<Item, Answer> {
  /** One statement for all, in this order. The answers are found by `idOf`, never by place. */
  readonly send: (items: readonly Item[]) => Promise<ReadonlyMap<string, Answer>>;
  /** Unique among the items that can wait together. */
  readonly idOf: (item: Item) => string;
  /** Statements that lock rows in one order cannot deadlock. Sorted by this. */
  readonly lockOf: (item: Item) => string;
  /** How long the first waits for others, in milliseconds. 0: for those that ask in the same turn of the event loop, as the messages of one receive do. */
  readonly gatherMs: number;
}

/** More would make the first of a statement wait for the last. */
const BATCH_MAX = 50;

interface Waiting<Item, Answer> {
  readonly item: Item;
  readonly done: (answer: Answer) => void;
  readonly failed: (error: unknown) => void;
}

/** Bounded by the worker's slots: a delivery asks one thing at a time. Nothing is dropped. */
export class RowBatch<Item, Answer> {
  readonly #options: BatchOptions<Item, Answer>;
  #waiting: Waiting<Item, Answer>[] = [];
  #cancel: (() => void) | undefined;

  constructor(options: BatchOptions<Item, Answer>) {
    this.#options = options;
  }

  /** Rejects when the statement failed for this very item. */
  add(item: Item): Promise<Answer> {
    return new Promise((done, failed) => {
      this.#waiting.push({ item, done, failed });
      if (this.#waiting.length >= BATCH_MAX) this.#flush();
      else this.#cancel ??= this.#later();
    });
  }

  #later(): () => void {
    const { gatherMs } = this.#options;
    if (gatherMs === 0) {
      const immediate = setImmediate(() => this.#flush());
      return () => clearImmediate(immediate);
    }
    const timer = setTimeout(() => this.#flush(), gatherMs);
    return () => clearTimeout(timer);
  }

  #flush(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    const batch = this.#waiting.splice(0, BATCH_MAX);
    void this.#send(batch);
  }

  async #send(batch: readonly Waiting<Item, Answer>[]): Promise<void> {
    const { send, idOf, lockOf } = this.#options;
    const sorted = batch.toSorted((a, b) => compare(lockOf(a.item), lockOf(b.item)));
    try {
      const answers = await send(sorted.map(({ item }) => item));
      for (const waiting of sorted) answer(waiting, answers.get(idOf(waiting.item)), idOf(waiting.item));
    } catch (error) {
      if (sorted.length === 1) sorted[0]?.failed(error);
      // One item may have failed the statement for all: each gets a statement of its own, and its own error.
      else await Promise.all(sorted.map((waiting) => this.#send([waiting])));
    }
  }
}

function answer<Item, Answer>(waiting: Waiting<Item, Answer>, found: Answer | undefined, id: string): void {
  if (found === undefined) waiting.failed(new Error(`the statement's answer does not mention delivery ${id}`));
  else waiting.done(found);
}

function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
