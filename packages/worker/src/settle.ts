// Settling: verified deletes and visibility changes in batches, on a client of their own so that polls cannot starve them.
import { ChangeMessageVisibilityBatchCommand, DeleteMessageBatchCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { WorkerError } from "./errors.ts";
import { pause } from "./intake-pause.ts";
import { Batcher, type EntryResult } from "./settle-batch.ts";

/** What is asked of SQS about one receipt handle: `extend` while a run works, one of the others at its end. */
export interface Settler {
  /** Resolves when SQS confirmed this very entry. Rejects with SETTLE_FAILED when it refused it, with the AWS error when the call failed. */
  delete(receiptHandle: string): Promise<void>;
  /** Sets the visibility, seconds from now; 0 gives the message back at once. */
  setVisibility(receiptHandle: string, seconds: number): Promise<void>;
  /** A beat: as `setVisibility`, and asked once only. A lease repeats its beats itself, with a later time. */
  extend(receiptHandle: string, seconds: number): Promise<void>;
}

export interface SettlerOptions {
  readonly client: SQSClient;
  readonly queueUrl: string;
  readonly random?: () => number;
  /** An entry of a batch that SQS refused; the others of its call are done (Q14). */
  readonly onRefused?: (refused: RefusedEntry) => void;
}

export interface RefusedEntry {
  readonly action: "delete" | "visibility";
  readonly receiptHandle: string;
  /** SQS's code for the entry, or `Unconfirmed`. */
  readonly code: string;
  /** Asked again, by the same handle. */
  readonly again: boolean;
}

/** An entry that SQS refused through no fault of ours is asked for this often in all. */
const TRIES_MAX = 4;
/** Wait before the second try; doubled for each further one, with half of it jitter. */
const RETRY_MS = 100;

type About = Pick<RefusedEntry, "action" | "receiptHandle">;

export function createSettler(options: SettlerOptions): Settler {
  const { client, queueUrl, random = Math.random, onRefused = () => {} } = options;
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

  /** By the handle, never by the message's id: a message received again has a new handle, and the old one deletes nothing (Q15). */
  const ask = async (about: About, triesMax: number, send: () => Promise<EntryResult>): Promise<void> => {
    for (let tries = 1; ; tries += 1) {
      const result = await send();
      if (result.state === "done") return;
      const again = tries < triesMax && !result.senderFault;
      onRefused({ ...about, code: result.code, again });
      if (!again) throw settleError(result);
      await pause(RETRY_MS * 2 ** (tries - 1) * (0.5 + random() / 2), undefined);
    }
  };
  return {
    delete: (receiptHandle) => ask({ action: "delete", receiptHandle }, TRIES_MAX, () => deletes.add(receiptHandle)),
    setVisibility: (receiptHandle, seconds) =>
      ask({ action: "visibility", receiptHandle }, TRIES_MAX, () =>
        visibilities.add({ handle: receiptHandle, seconds }),
      ),
    extend: (receiptHandle, seconds) =>
      ask({ action: "visibility", receiptHandle }, 1, () => visibilities.add({ handle: receiptHandle, seconds })),
  };
}

/** Keeps the AWS code as the error's name, which is what a lease looks at. */
function settleError({ code, text }: Extract<EntryResult, { state: "refused" }>): Error {
  const error = new WorkerError("SETTLE_FAILED", `SQS refused the entry: ${code}: ${text}`);
  return Object.defineProperty(error, "name", { value: code });
}
