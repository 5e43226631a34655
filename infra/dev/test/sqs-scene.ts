// For the unit tests of the SQS endpoint: the endpoint without HTTP, on a clock that only the test moves.

import { type SqsAnswer, SqsEndpoint, type SqsEndpointOptions } from "../src/sqs-endpoint.ts";
import type { SqsFault, SqsFaults } from "../src/sqs-faults.ts";
import type { SqsReceivedMessage } from "../src/sqs-message.ts";
import type { SqsClock, SqsConnection } from "../src/sqs-polls.ts";

export interface ManualClock extends SqsClock {
  /** Moves time and runs what falls due on the way, each at its own time. */
  advance(ms: number): Promise<void>;
}

interface Due {
  readonly at: number;
  readonly run: () => void;
}

export function manualClock(startAt = 1_700_000_000_000): ManualClock {
  let now = startAt;
  const due = new Set<Due>();
  return {
    now: () => now,
    after(delayMs, run) {
      const entry = { at: now + delayMs, run };
      due.add(entry);
      return () => due.delete(entry);
    },
    async advance(ms) {
      const until = now + ms;
      for (;;) {
        const [next] = [...due].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        due.delete(next);
        now = Math.max(now, next.at);
        next.run();
        await settled();
      }
      now = until;
      await settled();
    },
  };
}

/** Lets everything that is already resolved run. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

export interface ManualConnection extends SqsConnection {
  /** The client is gone. `silently`: the socket is closed, but nobody was told yet. */
  close(how?: "silently"): void;
}

export function manualConnection(): ManualConnection {
  let closed = false;
  const listeners: (() => void)[] = [];
  return {
    isClosed: () => closed,
    onClose: (run) => void listeners.push(run),
    close(how) {
      closed = true;
      if (how !== "silently") for (const run of listeners) run();
    },
  };
}

export type Parameters = Readonly<Record<string, unknown>>;

export interface EndpointScene {
  readonly clock: ManualClock;
  readonly endpoint: SqsEndpoint;
  readonly faults: SqsFaults;
  answer(operation: string, parameters?: Parameters, connection?: SqsConnection): Promise<SqsAnswer>;
  /** The reply body; throws the error code when refused. */
  call(operation: string, parameters?: Parameters): Promise<Record<string, unknown>>;
  /** The error code of a refused call; "none" when it succeeds. */
  refusal(operation: string, parameters?: Parameters): Promise<string>;
  queue(name: string, attributes?: Readonly<Record<string, string>>): Promise<string>;
  send(queue: string, body: string, more?: Parameters): Promise<Record<string, unknown>>;
  receive(queue: string, more?: Parameters): Promise<readonly SqsReceivedMessage[]>;
  /** "body:receive count" of each received message. */
  seen(queue: string, more?: Parameters): Promise<string>;
  poll(queue: string, connection?: SqsConnection): Promise<readonly SqsReceivedMessage[]>;
  /** visible/in flight/delayed */
  counts(queue: string): Promise<string>;
  fault(fault: SqsFault): void;
}

export function endpointScene(
  options: Partial<SqsEndpointOptions> & { readonly clock?: ManualClock } = {},
): EndpointScene {
  const clock = options.clock ?? manualClock();
  const endpoint = new SqsEndpoint({ region: "us-east-1", account: "000000000000", ...options, clock });
  const answer: EndpointScene["answer"] = (operation, parameters = {}, connection = manualConnection()) =>
    endpoint.answer({ operation, body: JSON.stringify(parameters), host: "sqs.test", connection });
  const call: EndpointScene["call"] = async (operation, parameters) => bodyOf(await answer(operation, parameters));
  const receive: EndpointScene["receive"] = async (queue, more = {}) =>
    messagesOf(await call("ReceiveMessage", { ...receiveAll(queue), ...more }));
  return {
    clock,
    endpoint,
    faults: endpoint.faults,
    answer,
    call,
    receive,
    fault: (fault) => endpoint.faults.add(fault),
    refusal: async (operation, parameters) => {
      const given = await answer(operation, parameters);
      return given.kind === "error" ? given.error.code : "none";
    },
    queue: async (name, attributes = {}) =>
      String((await call("CreateQueue", { QueueName: name, Attributes: attributes }))["QueueUrl"]),
    send: (queue, body, more = {}) => call("SendMessage", { QueueUrl: queue, MessageBody: body, ...more }),
    seen: async (queue, more) =>
      (await receive(queue, more))
        .map(({ Body, Attributes }) => `${Body}:${Attributes?.["ApproximateReceiveCount"]}`)
        .join(),
    poll: async (queue, connection) =>
      messagesOf(bodyOf(await answer("ReceiveMessage", { ...receiveAll(queue), WaitTimeSeconds: 20 }, connection))),
    counts: async (queue) => {
      const reply = await call("GetQueueAttributes", { QueueUrl: queue, AttributeNames: ["All"] });
      // GetQueueAttributes answers a record of strings.
      const attributes = reply["Attributes"] as Readonly<Record<string, string>>;
      return ["", "NotVisible", "Delayed"].map((kind) => attributes[`ApproximateNumberOfMessages${kind}`]).join("/");
    },
  };
}

function receiveAll(queue: string): Parameters {
  return {
    QueueUrl: queue,
    MaxNumberOfMessages: 10,
    MessageSystemAttributeNames: ["All"],
    MessageAttributeNames: ["All"],
  };
}

function bodyOf(answer: SqsAnswer): Record<string, unknown> {
  if (answer.kind === "reply") return { ...answer.body };
  throw new Error(answer.kind === "error" ? `${answer.error.code}: ${answer.message}` : "the connection was reset");
}

function messagesOf(reply: Parameters): readonly SqsReceivedMessage[] {
  // ReceiveMessage answers views made by viewMessage, and nothing when there are none.
  return (reply["Messages"] ?? []) as readonly SqsReceivedMessage[];
}

/** The handle of the one message received. */
export function handleOf(messages: readonly SqsReceivedMessage[]): string {
  const handle = messages[0]?.ReceiptHandle;
  if (typeof handle !== "string" || messages.length !== 1)
    throw new Error(`one message expected, not ${messages.length}`);
  return handle;
}
