// One call of an SQS operation: what the operation may use, and what it gives back.

import type { SqsFaultList } from "./sqs-faults.ts";
import type { SqsMessage } from "./sqs-message.ts";
import type { SqsClock, SqsConnection, SqsPolls } from "./sqs-polls.ts";
import type { SqsParameters } from "./sqs-request.ts";
import type { SqsStore } from "./sqs-store.ts";

/** What every operation may use. One per call. */
export interface SqsCall {
  readonly store: SqsStore;
  readonly polls: SqsPolls<SqsMessage>;
  readonly faults: SqsFaultList;
  readonly clock: SqsClock;
  readonly parameters: SqsParameters;
  /** host:port the client used: queue URLs carry it back. */
  readonly host: string;
  readonly connection: SqsConnection;
}

/** The reply body in wire names. */
export type SqsReply = Readonly<Record<string, unknown>>;

export type SqsOperation = (call: SqsCall) => SqsReply | Promise<SqsReply>;
