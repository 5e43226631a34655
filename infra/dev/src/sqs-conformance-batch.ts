// Conformance, batches, dead letters and size limits (11 behaviours).

import {
  DeleteMessageBatchCommand,
  ListDeadLetterSourceQueuesCommand,
  type Message,
  SendMessageBatchCommand,
  StartMessageMoveTaskCommand,
} from "@aws-sdk/client-sqs";
import { behaviour, must, pause, refusalOf, type SqsBehaviour, type SqsScene } from "./sqs-conformance-scene.ts";

function entries(bodies: readonly string[]): { Id: string; MessageBody: string }[] {
  return bodies.map((body, index) => ({ Id: `e${index}`, MessageBody: body }));
}

/** A queue with a dead-letter queue behind it. */
async function redriven(
  scene: SqsScene,
  redrive: { readonly maxReceiveCount: number | string; readonly visibility?: string },
) {
  const dead = await scene.queue();
  const deadArn = await scene.arn(dead);
  const policy = JSON.stringify({ deadLetterTargetArn: deadArn, maxReceiveCount: redrive.maxReceiveCount });
  const url = await scene.queue({ VisibilityTimeout: redrive.visibility ?? "30", RedrivePolicy: policy });
  return { url, dead, deadArn };
}

const batchBehaviours: readonly SqsBehaviour[] = [
  behaviour("ten messages are sent, received and deleted in batches", async (scene) => {
    const url = await scene.queue();
    const Entries = entries(Array.from({ length: 10 }, (_, index) => `m${index}`));
    const sent = await scene.client.send(new SendMessageBatchCommand({ QueueUrl: url, Entries }));
    const received: Message[] = [];
    // Real SQS may need several receives to find ten messages.
    for (let round = 0; round < 10 && received.length < 10; round += 1) received.push(...(await scene.receive(url)));
    const handles = received.map(({ ReceiptHandle }, index) => ({ Id: `d${index}`, ReceiptHandle }));
    const deleted = await scene.client.send(new DeleteMessageBatchCommand({ QueueUrl: url, Entries: handles }));
    const seen = [sent.Successful?.length, received.length, deleted.Successful?.length].join();
    must(seen === "10,10,10", "all ten pass through", seen);
  }),

  behaviour("a batch delete with one bad handle reports that entry as failed", async (scene) => {
    const url = await scene.queue();
    await scene.send(url, "x");
    const { handle } = await scene.receiveOne(url);
    const Entries = [
      { Id: "good", ReceiptHandle: handle },
      { Id: "bad", ReceiptHandle: "garbage" },
    ];
    const reply = await scene.client.send(new DeleteMessageBatchCommand({ QueueUrl: url, Entries }));
    must(reply.Successful?.[0]?.Id === "good", "the good entry succeeds", reply);
    const failed = reply.Failed?.[0];
    must(failed?.Id === "bad" && failed.Code === "ReceiptHandleIsInvalid", "the bad entry fails by name", reply.Failed);
  }),

  behaviour("a batch of eleven and a batch with a repeated id are refused whole", async (scene) => {
    const url = await scene.queue();
    const send = (Entries: { Id: string; MessageBody: string }[]) =>
      refusalOf(scene.client.send(new SendMessageBatchCommand({ QueueUrl: url, Entries })));
    const eleven = await send(entries(Array.from({ length: 11 }, () => "m")));
    const repeated = await send(entries(["1", "2"]).map((entry) => ({ ...entry, Id: "same" })));
    must(/TooManyEntriesInBatchRequest/.test(eleven), "eleven are too many", eleven);
    must(/BatchEntryIdsNotDistinct/.test(repeated), "ids must differ", repeated);
  }),

  behaviour("a receive for eleven messages is refused", async (scene) => {
    const url = await scene.queue();
    const refusal = await refusalOf(scene.receive(url, { MaxNumberOfMessages: 11 }));
    must(/InvalidParameterValue|ReadCountOutOfRange/.test(refusal), "eleven are too many", refusal);
  }),
];

const deadLetterBehaviours: readonly SqsBehaviour[] = [
  behaviour(
    "a message received maxReceiveCount times moves to the dead-letter queue, id and attributes kept",
    async (scene) => {
      const { url, dead } = await redriven(scene, { maxReceiveCount: 2, visibility: "1" });
      const MessageAttributes = { k: { DataType: "String", StringValue: "v" } };
      const sent = await scene.send(url, "poison", { MessageAttributes });
      const counts: (string | undefined)[] = [];
      for (let delivery = 0; delivery < 2; delivery += 1) {
        counts.push((await scene.receiveOne(url, { WaitTimeSeconds: 2 })).receiveCount);
        await pause(1_150);
      }
      const third = await scene.receive(url);
      const letter = await scene.receiveOne(dead, { WaitTimeSeconds: 3 });
      must(counts.join() === "1,2" && third.length === 0, "it is delivered twice, not three times", [
        counts,
        third.length,
      ]);
      must(letter.id === sent.MessageId, "the dead letter keeps its id", [letter.id, sent.MessageId]);
      must(letter.message.MessageAttributes?.["k"]?.StringValue === "v", "and its attributes", letter.message);
    },
  ),

  behaviour("maxReceiveCount may be written as text", async (scene) => {
    const { url, dead } = await redriven(scene, { maxReceiveCount: "1" });
    await scene.send(url, "poison");
    const { handle } = await scene.receiveOne(url);
    await scene.changeVisibility(url, { handle, seconds: 0 });
    const second = await scene.receive(url);
    must(second.length === 0, "there is no second delivery", second.length);
    await scene.receiveOne(dead, { WaitTimeSeconds: 2 });
  }),

  behaviour("a dead-letter queue lists its sources and its messages can be moved back", async (scene) => {
    const { url, dead, deadArn } = await redriven(scene, { maxReceiveCount: 1 });
    const sources = await scene.client.send(new ListDeadLetterSourceQueuesCommand({ QueueUrl: dead }));
    must(sources.queueUrls?.includes(url) === true, "the source is listed", sources.queueUrls);
    const moved = await refusalOf(scene.client.send(new StartMessageMoveTaskCommand({ SourceArn: deadArn })));
    must(moved === "none", "a move task starts", moved);
  }),
];

const sizeBehaviours: readonly SqsBehaviour[] = [
  behaviour("MaximumMessageSize counts the body and the attributes, to the byte", async (scene) => {
    const url = await scene.queue({ MaximumMessageSize: "262144" });
    const fits = await refusalOf(scene.send(url, "x".repeat(262_144)));
    const tooLong = await refusalOf(scene.send(url, "x".repeat(262_145)));
    const MessageAttributes = { k: { DataType: "String", StringValue: "v" } };
    const withAttributes = await refusalOf(scene.send(url, "x".repeat(262_140), { MessageAttributes }));
    must(fits === "none", "the whole size can be used", fits);
    must(tooLong === "InvalidParameterValue", "one byte more is refused", tooLong);
    must(withAttributes === "InvalidParameterValue", "attributes count", withAttributes);
  }),

  behaviour("the default message limit is 1 MiB", async (scene) => {
    const url = await scene.queue();
    const limit = (await scene.attributes(url))["MaximumMessageSize"];
    const fits = await refusalOf(scene.send(url, "x".repeat(1_048_576)));
    const tooLong = await refusalOf(scene.send(url, "x".repeat(1_048_577)));
    must(limit === "1048576", "the attribute says so", limit);
    must(fits === "none" && tooLong === "InvalidParameterValue", "and it is kept", [fits, tooLong]);
  }),

  behaviour("the messages of a batch have 1 MiB together", async (scene) => {
    const url = await scene.queue();
    const Entries = entries(["x".repeat(600_000), "x".repeat(600_000)]);
    const refusal = await refusalOf(scene.client.send(new SendMessageBatchCommand({ QueueUrl: url, Entries })));
    must(/BatchRequestTooLong/.test(refusal), "more is refused whole", refusal);
  }),

  behaviour("a body with a control character is InvalidMessageContents", async (scene) => {
    const url = await scene.queue();
    const refusal = await refusalOf(scene.send(url, "a\u0001b"));
    must(refusal === "InvalidMessageContents", "it is refused", refusal);
  }),
];

export const batchAndLimitBehaviours: readonly SqsBehaviour[] = [
  ...batchBehaviours,
  ...deadLetterBehaviours,
  ...sizeBehaviours,
];
