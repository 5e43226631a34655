// Conformance, receiving: attributes, long polls and the receive count (15 behaviours).

import { createHash } from "node:crypto";
import { type MessageAttributeValue, ReceiveMessageCommand } from "@aws-sdk/client-sqs";
import { behaviour, must, pause, refusalOf, type SqsBehaviour, timed } from "./sqs-conformance-scene.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const XRAY_HEADER = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

/** Written from the developer guide and apart from the endpoint's own code: a shared mistake would prove nothing. */
function digestOf(attributes: Readonly<Record<string, MessageAttributeValue>>): string {
  const hash = createHash("md5");
  const part = (bytes: Buffer): void => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    hash.update(length);
    hash.update(bytes);
  };
  for (const [name, value] of Object.entries(attributes).sort(([a], [b]) => (a < b ? -1 : 1))) {
    part(Buffer.from(name));
    part(Buffer.from(value.DataType ?? ""));
    hash.update(Buffer.from([value.BinaryValue === undefined ? 1 : 2]));
    part(Buffer.from(value.BinaryValue ?? value.StringValue ?? ""));
  }
  return hash.digest("hex");
}

const attributeBehaviours: readonly SqsBehaviour[] = [
  behaviour("body and message attributes come back unchanged, with right MD5 digests", async (scene) => {
    const url = await scene.queue();
    const MessageAttributes = {
      traceparent: { DataType: "String", StringValue: TRACEPARENT },
      n: { DataType: "Number", StringValue: "42" },
      b: { DataType: "Binary", BinaryValue: Buffer.from([1, 2, 3]) },
    };
    const sent = await scene.send(url, "héllo", { MessageAttributes });
    const { message, id } = await scene.receiveOne(url);
    const digest = digestOf(MessageAttributes);
    must(sent.MD5OfMessageBody === createHash("md5").update("héllo").digest("hex"), "the body digest is right", sent);
    must(sent.MD5OfMessageAttributes === digest, "the sent attribute digest is right", sent);
    must(message.MD5OfMessageAttributes === digest, "the received attribute digest is right", message);
    must(id === sent.MessageId, "the message keeps its id", [id, sent.MessageId]);
    const received = message.MessageAttributes ?? {};
    must(received["traceparent"]?.StringValue === TRACEPARENT, "text comes back", received);
    must(Buffer.from(received["b"]?.BinaryValue ?? []).equals(Buffer.from([1, 2, 3])), "bytes come back", received);
  }),

  behaviour("the AWSTraceHeader system attribute is carried", async (scene) => {
    const url = await scene.queue();
    const header = { DataType: "String", StringValue: XRAY_HEADER };
    await scene.send(url, "x", { MessageSystemAttributes: { AWSTraceHeader: header } });
    const { message } = await scene.receiveOne(url);
    must(message.Attributes?.AWSTraceHeader === XRAY_HEADER, "the header comes back", message.Attributes);
  }),

  behaviour("a receive that asks for them gets the system attributes", async (scene) => {
    const url = await scene.queue();
    await scene.send(url, "x");
    const { message, receiveCount } = await scene.receiveOne(url);
    const { SentTimestamp, ApproximateFirstReceiveTimestamp, SenderId } = message.Attributes ?? {};
    must(receiveCount === "1", "the first receive counts 1", receiveCount);
    const all = SentTimestamp !== undefined && ApproximateFirstReceiveTimestamp !== undefined && SenderId !== undefined;
    must(all, "sent time, first receive time and sender are there", message.Attributes);
  }),

  behaviour("a receive that asks for nothing gets no attributes", async (scene) => {
    const url = await scene.queue();
    await scene.send(url, "x", { MessageAttributes: { k: { DataType: "String", StringValue: "v" } } });
    const command = new ReceiveMessageCommand({ QueueUrl: url, WaitTimeSeconds: 1 });
    const message = (await scene.client.send(command)).Messages?.[0];
    must(message !== undefined, "the message is received");
    must(message.Attributes === undefined, "no system attribute is shown", message.Attributes);
    must(message.MessageAttributes === undefined, "no message attribute is shown", message.MessageAttributes);
  }),

  behaviour("a standard queue carries MessageGroupId (fair queues)", async (scene) => {
    const url = await scene.queue();
    const refusal = await refusalOf(scene.send(url, "x", { MessageGroupId: "tenant-1" }));
    must(refusal === "none", "the group is accepted", refusal);
    const { message } = await scene.receiveOne(url);
    must(message.Attributes?.MessageGroupId === "tenant-1", "the group is shown", message.Attributes);
  }),
];

// Upper bounds are wide: the suite runs many behaviours at once on a small machine. Each still tells the two cases apart.
const pollBehaviours: readonly SqsBehaviour[] = [
  behaviour("a short poll of an empty queue returns at once", async (scene) => {
    const url = await scene.queue();
    const { result, ms } = await timed(() => scene.receive(url, { WaitTimeSeconds: 0 }));
    must(result.length === 0 && ms < 900, "nothing comes, quickly", { messages: result.length, ms });
  }),

  behaviour("a long poll for ten returns as soon as one message is sent", async (scene) => {
    const url = await scene.queue();
    const polled = timed(() => scene.receive(url, { WaitTimeSeconds: 8, client: scene.newClient() }));
    await pause(700);
    await scene.send(url, "x");
    const { result, ms } = await polled;
    must(result.length === 1 && ms < 3_000, "the poll returns with the one message", { messages: result.length, ms });
  }),

  behaviour("a long poll for ten returns at once when one message is there", async (scene) => {
    const url = await scene.queue();
    await scene.send(url, "x");
    const { result, ms } = await timed(() => scene.receive(url, { WaitTimeSeconds: 5 }));
    must(result.length === 1 && ms < 2_000, "it does not wait for a full batch", { messages: result.length, ms });
  }),

  behaviour("a long poll of an empty queue waits its whole time", async (scene) => {
    const url = await scene.queue();
    const { result, ms } = await timed(() => scene.receive(url, { WaitTimeSeconds: 2 }));
    must(result.length === 0 && ms > 1_800 && ms < 4_000, "it returns empty after 2 s", {
      messages: result.length,
      ms,
    });
  }),

  behaviour("a waiting long poll gets a message whose visibility ends meanwhile", async (scene) => {
    const url = await scene.queue({ VisibilityTimeout: "2" });
    await scene.send(url, "x");
    await scene.receiveOne(url);
    const { result, ms } = await timed(() => scene.receive(url, { WaitTimeSeconds: 8, client: scene.newClient() }));
    must(result.length === 1 && ms > 1_300 && ms < 4_500, "it comes at the expiry", { messages: result.length, ms });
  }),

  behaviour("an aborted long poll does not swallow the next message", async (scene) => {
    const url = await scene.queue({ VisibilityTimeout: "30" });
    const abort = new AbortController();
    const command = new ReceiveMessageCommand({ QueueUrl: url, WaitTimeSeconds: 10, MaxNumberOfMessages: 10 });
    const aborted = refusalOf(scene.newClient().send(command, { abortSignal: abort.signal }));
    await pause(500);
    abort.abort();
    await aborted;
    await pause(200);
    await scene.send(url, "x");
    const { receiveCount } = await scene.receiveOne(url, { WaitTimeSeconds: 2 });
    must(receiveCount === "1", "the next receive is the first", receiveCount);
  }),

  behaviour("of two waiting long polls one gets the message and the other waits on", async (scene) => {
    const url = await scene.queue();
    const poll = () => timed(() => scene.receive(url, { WaitTimeSeconds: 3, client: scene.newClient() }));
    const polls = [poll(), poll()];
    await pause(500);
    await scene.send(url, "x");
    const seen = (await Promise.all(polls)).map(({ result, ms }) => ({ messages: result.length, ms }));
    const loser = seen.find(({ messages }) => messages === 0);
    must(seen.filter(({ messages }) => messages === 1).length === 1, "one poll gets it", seen);
    must(loser !== undefined && loser.ms > 2_500, "the other waits its whole time", seen);
  }),
];

const countBehaviours: readonly SqsBehaviour[] = [
  behaviour("the receive count goes 1, 2, 3 over three expired deliveries", async (scene) => {
    const url = await scene.queue({ VisibilityTimeout: "1" });
    const sent = await scene.send(url, "x");
    const first = await scene.receiveOne(url);
    const hidden = await scene.receive(url, { WaitTimeSeconds: 0 });
    must(hidden.length === 0, "a received message is hidden", hidden.length);
    await pause(1_150);
    const second = await scene.receiveOne(url);
    await pause(1_150);
    const third = await scene.receiveOne(url);
    const seen = [first.receiveCount, second.receiveCount, third.receiveCount].join();
    must(seen === "1,2,3", "each delivery counts one", seen);
    must(first.handle !== second.handle, "each delivery has its own handle");
    must(second.id === sent.MessageId, "the message keeps its id", [second.id, sent.MessageId]);
    const firstTimes = [first, second].map(({ message }) => message.Attributes?.ApproximateFirstReceiveTimestamp);
    must(firstTimes[0] === firstTimes[1], "the first receive time stays", firstTimes);
  }),

  behaviour("a delayed message appears after its delay", async (scene) => {
    const url = await scene.queue();
    await scene.send(url, "x", { DelaySeconds: 2 });
    const early = await scene.receive(url, { WaitTimeSeconds: 0 });
    must(early.length === 0, "it is not there at once", early.length);
    await pause(2_100);
    const { receiveCount } = await scene.receiveOne(url);
    must(receiveCount === "1", "it is there afterwards, received for the first time", receiveCount);
  }),

  behaviour("a receive may set its own visibility timeout", async (scene) => {
    const url = await scene.queue();
    await scene.send(url, "x");
    await scene.receiveOne(url, { VisibilityTimeout: 1 });
    await pause(1_200);
    const { receiveCount } = await scene.receiveOne(url);
    must(receiveCount === "2", "the message comes back after it", receiveCount);
  }),
];

export const receiveBehaviours: readonly SqsBehaviour[] = [
  ...attributeBehaviours,
  ...pollBehaviours,
  ...countBehaviours,
];
