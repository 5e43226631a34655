// Creates the run queue and its dead-letter queue on whatever SQS endpoint there is.

import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  SetQueueAttributesCommand,
  SQSClient,
} from "@aws-sdk/client-sqs";
import { DevStackError } from "./errors.ts";

export interface QueueOptions {
  readonly name: string;
  readonly visibilitySeconds: number;
  readonly maxReceiveCount: number;
}

export interface Queues {
  readonly queueUrl: string;
  readonly deadLetterQueueUrl: string;
}

/** Where the queues are made. Without `credentials` the SDK's own chain decides. */
export interface QueueTarget {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** SQS keeps the original send time when it moves a message, so the dead-letter queue must keep longer than its source. */
const RETENTION_SECONDS = 4 * 24 * 3_600;
const DEAD_LETTER_RETENTION_SECONDS = 14 * 24 * 3_600;

type Attributes = Readonly<Record<string, string>>;

/**
 * Idempotent: a queue that is already there gets our attributes.
 * @throws DevStackError STACK_QUEUE_FAILED, the SDK's error as its cause.
 */
export async function createQueues(target: QueueTarget, options: QueueOptions): Promise<Queues> {
  const client = new SQSClient({ ...target });
  const fifo: Attributes = options.name.endsWith(".fifo") ? { FifoQueue: "true" } : {};
  try {
    const deadLetterQueueUrl = await createQueue(client, deadLetterName(options.name), fifo, {
      MessageRetentionPeriod: String(DEAD_LETTER_RETENTION_SECONDS),
    });
    const deadLetterTargetArn = await arnOf(client, deadLetterQueueUrl);
    const queueUrl = await createQueue(client, options.name, fifo, {
      MessageRetentionPeriod: String(RETENTION_SECONDS),
      VisibilityTimeout: String(options.visibilitySeconds),
      RedrivePolicy: JSON.stringify({ deadLetterTargetArn, maxReceiveCount: options.maxReceiveCount }),
    });
    return { queueUrl, deadLetterQueueUrl };
  } catch (error) {
    throw new DevStackError(
      "STACK_QUEUE_FAILED",
      `Cannot create queue ${options.name} at ${target.endpoint}: ${String(error)}. Set QUEUE_URL to a queue that exists, or unset SQS_ENDPOINT to use the embedded endpoint.`,
      { cause: error },
    );
  } finally {
    client.destroy();
  }
}

/** The dead-letter queue's name; a FIFO queue's must be FIFO as well, which its ending says. */
export function deadLetterName(name: string): string {
  return name.endsWith(".fifo") ? `${name.slice(0, -".fifo".length)}-dead.fifo` : `${name}-dead`;
}

async function createQueue(
  client: SQSClient,
  name: string,
  fixed: Attributes,
  attributes: Attributes,
): Promise<string> {
  try {
    const made = await client.send(
      new CreateQueueCommand({ QueueName: name, Attributes: { ...fixed, ...attributes } }),
    );
    return required(made.QueueUrl, "CreateQueue", "QueueUrl");
  } catch (error) {
    // It exists with other attributes: from a run with other options, whose messages should stay.
    if (!(error instanceof Error) || !/^Queue(NameExists|AlreadyExists)$/.test(error.name)) throw error;
    const found = await client.send(new GetQueueUrlCommand({ QueueName: name }));
    const url = required(found.QueueUrl, "GetQueueUrl", "QueueUrl");
    await client.send(new SetQueueAttributesCommand({ QueueUrl: url, Attributes: { ...attributes } }));
    return url;
  }
}

async function arnOf(client: SQSClient, queueUrl: string): Promise<string> {
  const answer = await client.send(new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["QueueArn"] }));
  return required(answer.Attributes?.["QueueArn"], "GetQueueAttributes", "QueueArn");
}

function required(value: string | undefined, operation: string, field: string): string {
  if (value === undefined) throw new Error(`${operation} answered without ${field}`);
  return value;
}
