// Settling: verified deletes and visibility changes in batches, on a client of their own so that polls cannot starve them.
import {
  type BatchResultErrorEntry,
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type SQSClient,
} from "@aws-sdk/client-sqs";
import { WorkerError } from "./errors.ts";

/** SQS takes ten entries a batch call (SQS quotas). */
const BATCH_MAX = 10;
/** How long the first of a batch waits for others. */
const GATHER_MS = 4;

export interface Settler {
  /** Resolves when SQS confirmed this very entry. Rejects with SETTLE_FAILED when it refused it, with the AWS error when the call failed. */
  delete(receiptHandle: string): Promise<void>;
  /** Sets the visibility, seconds from now; 0 gives the message back at once. */
  setVisibility(receiptHandle: string, seconds: number): Promise<void>;
}

export interface SettlerOptions {
  readonly client: SQSClient;
  readonly queueUrl: string;
}

export function createSettler({ client, queueUrl }: SettlerOptions): Settler {
  const deletes = new Batcher<string>(async (handles) => {
    const Entries = handles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
    return client.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
  });
  const visibilities = new Batcher<{ readonly handle: string; readonly seconds: number }>(async (items) => {
    const Entries = items.map((item, index) => ({
      Id: String(index),
      ReceiptHandle: item.handle,
      VisibilityTimeout: Math.max(0, Math.round(item.seconds)),
    }));
    return client.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: queueUrl, Entries }));
  });
  return {
    delete: (receiptHandle) => deletes.add(receiptHandle),
    setVisibility: (handle, seconds) => visibilities.add({ handle, seconds }),
  };
}

interface BatchAnswer {
  readonly Successful?: readonly { readonly Id: string | undefined }[] | undefined;
  readonly Failed?: readonly BatchResultErrorEntry[] | undefined;
}

interface Waiting<Item> {
  readonly item: Item;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

/** Gathers single requests into batch calls and hands each its own result: a batch answer of 200 says nothing of one entry. */
class Batcher<Item> {
  readonly #send: (items: readonly Item[]) => Promise<BatchAnswer>;
  #waiting: Waiting<Item>[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(send: (items: readonly Item[]) => Promise<BatchAnswer>) {
    this.#send = send;
  }

  // Bounded by the worker's slots: a delivery has at most one request here at a time.
  add(item: Item): Promise<void> {
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
      const done = new Set(answer.Successful?.map((entry) => entry.Id));
      const failures = new Map(answer.Failed?.map((failure) => [failure.Id, failure]));
      batch.forEach((waiting, index) => {
        const id = String(index);
        if (done.has(id)) waiting.done();
        else waiting.failed(settleError(failures.get(id) ?? { Id: id, SenderFault: false, Code: "Unconfirmed" }));
      });
    } catch (error) {
      for (const waiting of batch) waiting.failed(error);
    }
  }
}

/** Keeps the AWS code as the error's name, which is what a lease looks at. */
function settleError(failure: BatchResultErrorEntry): Error {
  const error = new WorkerError("SETTLE_FAILED", `SQS refused the entry: ${failure.Code}: ${failure.Message ?? ""}`);
  return Object.defineProperty(error, "name", { value: failure.Code?.split(".").at(-1) ?? "SETTLE_FAILED" });
}
