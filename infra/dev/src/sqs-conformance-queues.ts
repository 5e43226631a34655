// Conformance, queues: making, finding, describing and removing them (8 behaviours).

import {
  CreateQueueCommand,
  DeleteQueueCommand,
  GetQueueUrlCommand,
  ListQueuesCommand,
  PurgeQueueCommand,
  SetQueueAttributesCommand,
} from "@aws-sdk/client-sqs";
import { behaviour, must, pause, refusalOf, type SqsBehaviour, type SqsScene } from "./sqs-conformance-scene.ts";

/** visible / in flight / delayed, as the queue reports them. */
async function counts(scene: SqsScene, queueUrl: string): Promise<string> {
  const attributes = await scene.attributes(queueUrl);
  return [
    attributes["ApproximateNumberOfMessages"],
    attributes["ApproximateNumberOfMessagesNotVisible"],
    attributes["ApproximateNumberOfMessagesDelayed"],
  ].join("/");
}

export const queueBehaviours: readonly SqsBehaviour[] = [
  behaviour("a created queue is found by name and by prefix", async (scene) => {
    const url = await scene.queue();
    const QueueName = url.split("/").at(-1);
    const found = await scene.client.send(new GetQueueUrlCommand({ QueueName }));
    const listed = await scene.client.send(new ListQueuesCommand({ QueueNamePrefix: QueueName }));
    must(found.QueueUrl === url, "GetQueueUrl answers the URL CreateQueue gave", found.QueueUrl);
    must(listed.QueueUrls?.[0] === url, "ListQueues finds the queue by its prefix", listed.QueueUrls);
  }),

  behaviour("creating a queue again is refused only with another attribute value", async (scene) => {
    const first = await scene.queue({ VisibilityTimeout: "5" });
    const QueueName = first.split("/").at(-1);
    const create = (VisibilityTimeout: string) =>
      scene.client.send(new CreateQueueCommand({ QueueName, Attributes: { VisibilityTimeout } }));
    const second = await create("5");
    const refusal = await refusalOf(create("6"));
    must(second.QueueUrl === first, "the same attributes find the same queue", second.QueueUrl);
    must(/QueueNameExists|QueueAlreadyExists/.test(refusal), "another value is refused", refusal);
  }),

  behaviour("a queue that does not exist is QueueDoesNotExist by name and by URL", async (scene) => {
    const byName = await refusalOf(scene.client.send(new GetQueueUrlCommand({ QueueName: scene.queueName() })));
    const byUrl = await refusalOf(scene.send(`${await scene.queue()}-gone`, "x"));
    must(byName === "QueueDoesNotExist", "GetQueueUrl names the error", byName);
    must(byUrl === "QueueDoesNotExist", "SendMessage names the error", byUrl);
  }),

  behaviour("a queue counts visible, in-flight and delayed messages", async (scene) => {
    const url = await scene.queue();
    for (const body of ["a", "b", "c"]) await scene.send(url, body);
    await scene.send(url, "d", { DelaySeconds: 60 });
    const before = await counts(scene, url);
    await scene.receiveOne(url);
    const after = await counts(scene, url);
    must(before === "3/0/1", "three are visible and one delayed", before);
    must(after === "2/1/1", "a received message is in flight", after);
  }),

  behaviour("an expired visibility shows in the counts without a receive", async (scene) => {
    const url = await scene.queue({ VisibilityTimeout: "1" });
    await scene.send(url, "x");
    await scene.receiveOne(url);
    await pause(1_300);
    const after = await counts(scene, url);
    must(after === "1/0/0", "the message is visible again", after);
  }),

  behaviour("SetQueueAttributes changes the visibility timeout of later receives", async (scene) => {
    const url = await scene.queue();
    const Attributes = { VisibilityTimeout: "1" };
    await scene.client.send(new SetQueueAttributesCommand({ QueueUrl: url, Attributes }));
    await scene.send(url, "x");
    await scene.receiveOne(url);
    await pause(1_200);
    const again = await scene.receiveOne(url);
    must(again.receiveCount === "2", "the message comes back after the new timeout", again.receiveCount);
  }),

  behaviour("PurgeQueue removes every message", async (scene) => {
    const url = await scene.queue();
    await scene.send(url, "x");
    await scene.client.send(new PurgeQueueCommand({ QueueUrl: url }));
    await pause(50);
    const left = await scene.receive(url, { WaitTimeSeconds: 0 });
    must(left.length === 0, "nothing is left", left.length);
  }),

  behaviour("a deleted queue takes no messages", async (scene) => {
    const url = await scene.queue();
    await scene.client.send(new DeleteQueueCommand({ QueueUrl: url }));
    scene.forget(url);
    const refusal = await refusalOf(scene.send(url, "x"));
    must(refusal === "QueueDoesNotExist", "sending to it is refused", refusal);
  }),
];
