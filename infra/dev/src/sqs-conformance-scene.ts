// The scene of one conformance behaviour: its own clients and queues at any SQS endpoint, removed afterwards.

import { randomUUID } from "node:crypto";
import {
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  DeleteMessageCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  type ReceiveMessageCommandInput,
  SendMessageCommand,
  type SendMessageCommandInput,
  type SendMessageCommandOutput,
  SQSClient,
} from "@aws-sdk/client-sqs";

/** Where the suite runs: our endpoint, another emulator, or real SQS. */
export interface SqsTarget {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: {
    readonly accessKeyId: string;
    readonly secretAccessKey: string;
    readonly sessionToken?: string;
  };
}

/** One rule of SQS. `run` resolves when the target keeps it, and rejects with what was seen when it does not. */
export interface SqsBehaviour {
  readonly name: string;
  readonly run: (target: SqsTarget) => Promise<void>;
}

type Attributes = Readonly<Record<string, string>>;

export interface SqsScene {
  readonly client: SQSClient;
  /** A second client has its own connections: a long poll on one never delays a call on the other. */
  newClient(): SQSClient;
  queueName(): string;
  queue(attributes?: Attributes): Promise<string>;
  fifoQueue(attributes?: Attributes): Promise<string>;
  /** Removed with the others after the behaviour. */
  forget(queueUrl: string): void;
  send(queueUrl: string, body: string, more?: Partial<SendMessageCommandInput>): Promise<SendMessageCommandOutput>;
  /** Up to 10 messages with every attribute; a long poll of 1 s unless said otherwise. */
  receive(queueUrl: string, more?: SqsReceiveOptions): Promise<readonly Message[]>;
  /** Exactly one message with a handle, or the behaviour fails. */
  receiveOne(queueUrl: string, more?: SqsReceiveOptions): Promise<HeldMessage>;
  delete(queueUrl: string, receiptHandle: string): Promise<void>;
  changeVisibility(queueUrl: string, change: { readonly handle: string; readonly seconds: number }): Promise<void>;
  attributes(queueUrl: string): Promise<Attributes>;
  arn(queueUrl: string): Promise<string>;
}

export interface SqsReceiveOptions extends Partial<ReceiveMessageCommandInput> {
  readonly client?: SQSClient;
}

export interface HeldMessage {
  readonly message: Message;
  readonly handle: string;
  readonly id: string;
  readonly body: string;
  /** Undefined when the endpoint did not say. */
  readonly receiveCount: string | undefined;
}

/** A behaviour from its name and its steps. */
export function behaviour(name: string, steps: (scene: SqsScene) => Promise<void>): SqsBehaviour {
  return {
    name,
    async run(target) {
      const { scene, close } = openScene(target);
      try {
        await steps(scene);
      } finally {
        await close();
      }
    },
  };
}

/** Fails the behaviour with what was expected and what was seen. */
export function must(kept: boolean, expectation: string, seen?: unknown): asserts kept {
  if (!kept) throw new Error(`expected that ${expectation}; seen: ${JSON.stringify(seen) ?? "nothing"}`);
}

/** The name of the error a call is refused with; "none" when it succeeds. */
export async function refusalOf(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return "none";
  } catch (error) {
    return error instanceof Error ? error.name : String(error);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** Runs and says how long it took, in milliseconds. */
export async function timed<Result>(
  run: () => Promise<Result>,
): Promise<{ readonly result: Result; readonly ms: number }> {
  const startedAt = performance.now();
  const result = await run();
  return { result, ms: Math.round(performance.now() - startedAt) };
}

function openScene(target: SqsTarget): { readonly scene: SqsScene; readonly close: () => Promise<void> } {
  const clients: SQSClient[] = [];
  const queues = new Set<string>();
  // One try a call: a retry by the SDK would hide what the endpoint did.
  const newClient = (): SQSClient => {
    const client = new SQSClient({ ...target, maxAttempts: 1 });
    clients.push(client);
    return client;
  };
  const client = newClient();
  const create = async (name: string, attributes: Attributes): Promise<string> => {
    const { QueueUrl } = await client.send(new CreateQueueCommand({ QueueName: name, Attributes: { ...attributes } }));
    must(QueueUrl !== undefined, "CreateQueue answers a queue URL");
    queues.add(QueueUrl);
    return QueueUrl;
  };
  const scene: SqsScene = {
    client,
    newClient,
    queueName: newName,
    queue: (attributes = {}) => create(newName(), attributes),
    fifoQueue: (attributes = {}) => create(`${newName()}.fifo`, { FifoQueue: "true", ...attributes }),
    forget: (queueUrl) => void queues.delete(queueUrl),
    ...messageCalls(client),
  };
  const close = async (): Promise<void> => {
    await Promise.allSettled([...queues].map((QueueUrl) => client.send(new DeleteQueueCommand({ QueueUrl }))));
    for (const open of clients) open.destroy();
  };
  return { scene, close };
}

function newName(): string {
  return `conformance-${randomUUID()}`;
}

type MessageCalls = Pick<
  SqsScene,
  "send" | "receive" | "receiveOne" | "delete" | "changeVisibility" | "attributes" | "arn"
>;

function messageCalls(client: SQSClient): MessageCalls {
  const receive: SqsScene["receive"] = async (queueUrl, { client: other, ...more } = {}) => {
    const command = new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: 1,
      MessageSystemAttributeNames: ["All"],
      MessageAttributeNames: ["All"],
      ...more,
    });
    return (await (other ?? client).send(command)).Messages ?? [];
  };
  const attributes: SqsScene["attributes"] = async (queueUrl) => {
    const reply = await client.send(new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["All"] }));
    return reply.Attributes ?? {};
  };
  return {
    receive,
    attributes,
    send: (QueueUrl, MessageBody, more = {}) => client.send(new SendMessageCommand({ QueueUrl, MessageBody, ...more })),
    receiveOne: async (queueUrl, more) => held(await receive(queueUrl, { MaxNumberOfMessages: 1, ...more })),
    delete: async (QueueUrl, ReceiptHandle) => {
      await client.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
    },
    changeVisibility: async (QueueUrl, { handle, seconds }) => {
      const change = { QueueUrl, ReceiptHandle: handle, VisibilityTimeout: seconds };
      await client.send(new ChangeMessageVisibilityCommand(change));
    },
    arn: async (queueUrl) => {
      const { QueueArn } = await attributes(queueUrl);
      must(QueueArn !== undefined, "GetQueueAttributes answers a QueueArn");
      return QueueArn;
    },
  };
}

function held(messages: readonly Message[]): HeldMessage {
  const [message] = messages;
  must(messages.length === 1 && message !== undefined, "one message is received", messages.length);
  const { ReceiptHandle, MessageId, Body } = message;
  must(ReceiptHandle !== undefined && MessageId !== undefined, "a message has a handle and an id", message);
  const receiveCount = message.Attributes?.ApproximateReceiveCount;
  return { message, handle: ReceiptHandle, id: MessageId, body: Body ?? "", receiveCount };
}
