// What a FIFO queue asks of every message: the thread as its group, and an id by which SQS drops a repeat.
import { createHash } from "node:crypto";

/** SQS takes 1 to 128 of these for both (SendMessage, SQS API reference); our ids may be longer, and hold any letter. */
const PLAIN = /^[A-Za-z0-9!"#$%&'()*+,\-./:;<=>?@[\\\]^_`{|}~]{1,128}$/;

export interface FifoFields {
  readonly MessageGroupId?: string;
  readonly MessageDeduplicationId?: string;
}

/** Nothing for a standard queue. Ids that SQS would refuse are replaced by their SHA-256: equal stays equal, other stays other. */
export function fifoFields(
  queueUrl: string,
  { threadId, deduplicationId }: { readonly threadId: string; readonly deduplicationId: string },
): FifoFields {
  if (!isFifo(queueUrl)) return {};
  return { MessageGroupId: fifoId(threadId), MessageDeduplicationId: fifoId(deduplicationId) };
}

export function isFifo(queueUrl: string): boolean {
  return queueUrl.endsWith(".fifo");
}

function fifoId(text: string): string {
  return PLAIN.test(text) ? text : createHash("sha256").update(text).digest("hex");
}
