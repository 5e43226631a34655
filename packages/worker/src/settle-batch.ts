// Batches: gathers single requests into calls of up to ten, and hands each its own answer.
import type { BatchResultErrorEntry } from "@aws-sdk/client-sqs";

/** SQS takes ten entries a batch call (SQS quotas). */
const BATCH_MAX = 10;
/** How long the first of a batch waits for others. */
const GATHER_MS = 4;

export interface BatchAnswer {
  readonly Successful?: readonly { readonly Id: string | undefined }[] | undefined;
  readonly Failed?: readonly BatchResultErrorEntry[] | undefined;
}

/** What SQS said of one entry. An entry that it mentions nowhere is refused as `Unconfirmed`: a 200 says nothing of one entry. */
export type EntryResult =
  | { readonly state: "done" }
  | { readonly state: "refused"; readonly code: string; readonly senderFault: boolean; readonly text: string };

interface Waiting<Item> {
  readonly item: Item;
  readonly done: (result: EntryResult) => void;
  readonly failed: (error: unknown) => void;
}

export class Batcher<Item> {
  readonly #send: (items: readonly Item[]) => Promise<BatchAnswer>;
  #waiting: Waiting<Item>[] = [];
  #timer: NodeJS.Timeout | undefined;

  /** @param send one call; the entry of each item must have the item's index as its `Id` */
  constructor(send: (items: readonly Item[]) => Promise<BatchAnswer>) {
    this.#send = send;
  }

  /** Bounded by the worker's slots: a delivery has at most one request here at a time. Rejects when the whole call fails. */
  add(item: Item): Promise<EntryResult> {
    return new Promise((done, failed) => {
      this.#waiting.push({ item, done, failed });
      if (this.#waiting.length >= BATCH_MAX) this.#flush();
      else this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS);
    });
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const batch = this.#waiting.splice(0, BATCH_MAX);
    if (batch.length > 0) void this.#deliver(batch);
    if (this.#waiting.length > 0) this.#flush();
  }

  async #deliver(batch: readonly Waiting<Item>[]): Promise<void> {
    try {
      const answer = await this.#send(batch.map((waiting) => waiting.item));
      for (const [index, waiting] of batch.entries()) waiting.done(resultOf(answer, String(index)));
    } catch (error) {
      for (const waiting of batch) waiting.failed(error);
    }
  }
}

function resultOf(answer: BatchAnswer, id: string): EntryResult {
  if (answer.Successful?.some((entry) => entry.Id === id) === true) return { state: "done" };
  const failure = answer.Failed?.find((entry) => entry.Id === id);
  return {
    state: "refused",
    // "AWS.SimpleQueueService.MessageNotInflight" in the query protocol, without its prefix in JSON.
    code: failure?.Code?.split(".").at(-1) ?? "Unconfirmed",
    senderFault: failure?.SenderFault ?? false,
    text: failure?.Message ?? "",
  };
}
