// Receipt handles of the messages in work: two receives of one message in this process share the newer handle.

export interface Receipt {
  /** Of the latest receive: to be read when it is used. SQS may refuse, or silently ignore, what an older one asks for. */
  readonly handle: string;
}

export interface OpenReceipt {
  readonly receipt: Receipt;
  /** Another delivery of the same message is in work in this process, and goes on with this one's handle (Q16). */
  readonly twin: boolean;
  readonly close: () => void;
}

interface Shared {
  handle: string;
  deliveries: number;
}

/** Bounded by the worker's deliveries: a message leaves with its last one. */
export class Receipts {
  readonly #shared = new Map<string, Shared>();

  open(sqsMessageId: string, handle: string): OpenReceipt {
    const known = this.#shared.get(sqsMessageId);
    const shared = known ?? { handle, deliveries: 0 };
    shared.handle = handle;
    shared.deliveries += 1;
    this.#shared.set(sqsMessageId, shared);
    const close = (): void => {
      shared.deliveries -= 1;
      if (shared.deliveries === 0) this.#shared.delete(sqsMessageId);
    };
    return { receipt: shared, twin: known !== undefined, close };
  }

  get size(): number {
    return this.#shared.size;
  }
}
