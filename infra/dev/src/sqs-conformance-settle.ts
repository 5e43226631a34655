// Conformance, settling: what visibility changes and deletes do with fresh, expired, stale and garbage handles (10 behaviours).

import { ChangeMessageVisibilityBatchCommand } from "@aws-sdk/client-sqs";
import { behaviour, must, pause, refusalOf, type SqsBehaviour } from "./sqs-conformance-scene.ts";

const NOT_IN_FLIGHT = /MessageNotInflight|InvalidParameterValue/;

const visibilityBehaviours: readonly SqsBehaviour[] = [
  behaviour("a visibility of 0 redelivers at once with count 2", async (scene) => {
    const url = await scene.queue();
    await scene.send(url, "x");
    const { handle } = await scene.receiveOne(url);
    await scene.changeVisibility(url, { handle, seconds: 0 });
    const { receiveCount } = await scene.receiveOne(url, { WaitTimeSeconds: 2 });
    must(receiveCount === "2", "the second delivery counts 2", receiveCount);
  }),

  behaviour("heartbeats extend the visibility and leave the receive count alone", async (scene) => {
    const url = await scene.queue({ VisibilityTimeout: "1" });
    await scene.send(url, "x");
    const { handle } = await scene.receiveOne(url);
    await pause(400);
    await scene.changeVisibility(url, { handle, seconds: 2 });
    await pause(1_000);
    await scene.changeVisibility(url, { handle, seconds: 2 });
    const hidden = await scene.receive(url, { WaitTimeSeconds: 0 });
    await pause(2_200);
    const { receiveCount } = await scene.receiveOne(url);
    must(hidden.length === 0, "the message stays hidden while it is extended", hidden.length);
    must(receiveCount === "2", "two heartbeats are no deliveries", receiveCount);
  }),

  behaviour("ChangeMessageVisibilityBatch changes every entry", async (scene) => {
    const url = await scene.queue();
    await scene.send(url, "a");
    await scene.send(url, "b");
    const held = [await scene.receiveOne(url), await scene.receiveOne(url)];
    const Entries = held.map(({ handle }, index) => ({ Id: `e${index}`, ReceiptHandle: handle, VisibilityTimeout: 0 }));
    const reply = await scene.client.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: url, Entries }));
    const again = [await scene.receiveOne(url), await scene.receiveOne(url)];
    must(reply.Successful?.length === 2, "both entries succeed", reply);
    must(new Set(again.map(({ id }) => id)).size === 2, "both messages come back", again.length);
  }),

  behaviour("a visibility beyond 43200 s is InvalidParameterValue", async (scene) => {
    const url = await scene.queue();
    await scene.send(url, "x");
    const { handle } = await scene.receiveOne(url);
    const refusal = await refusalOf(scene.changeVisibility(url, { handle, seconds: 43_201 }));
    must(refusal === "InvalidParameterValue", "it is refused, not clamped", refusal);
  }),

  behaviour("a stale handle cannot change the visibility", async (scene) => {
    const url = await scene.queue({ VisibilityTimeout: "1" });
    await scene.send(url, "x");
    const { handle } = await scene.receiveOne(url);
    await pause(1_200);
    await scene.receive(url, { VisibilityTimeout: 0 });
    const refusal = await refusalOf(scene.changeVisibility(url, { handle, seconds: 10 }));
    must(NOT_IN_FLIGHT.test(refusal), "it is refused", refusal);
  }),

  behaviour("the visibility of a deleted message cannot be changed", async (scene) => {
    const url = await scene.queue();
    await scene.send(url, "x");
    const { handle } = await scene.receiveOne(url);
    await scene.delete(url, handle);
    const refusal = await refusalOf(scene.changeVisibility(url, { handle, seconds: 10 }));
    must(NOT_IN_FLIGHT.test(refusal), "it is refused", refusal);
  }),
];

const deleteBehaviours: readonly SqsBehaviour[] = [
  behaviour("a delete removes the message and may be repeated", async (scene) => {
    const url = await scene.queue({ VisibilityTimeout: "1" });
    await scene.send(url, "x");
    const { handle } = await scene.receiveOne(url);
    await scene.delete(url, handle);
    const again = await refusalOf(scene.delete(url, handle));
    await pause(1_200);
    const left = await scene.receive(url, { WaitTimeSeconds: 0 });
    must(again === "none", "the second delete succeeds", again);
    must(left.length === 0, "the message is gone", left.length);
  }),

  behaviour("an expired handle that nobody took over still deletes", async (scene) => {
    const url = await scene.queue({ VisibilityTimeout: "1" });
    await scene.send(url, "x");
    const { handle } = await scene.receiveOne(url);
    await pause(1_200);
    const refusal = await refusalOf(scene.delete(url, handle));
    const left = await scene.receive(url);
    must(refusal === "none", "the delete succeeds", refusal);
    must(left.length === 0, "the message is gone", left.length);
  }),

  // Whether the message is really gone is left open by AWS, so nothing is asserted on it here.
  behaviour("a stale handle's delete succeeds whether or not it deletes", async (scene) => {
    const url = await scene.queue({ VisibilityTimeout: "1" });
    await scene.send(url, "x");
    const first = await scene.receiveOne(url);
    await pause(1_200);
    await scene.receiveOne(url);
    const refusal = await refusalOf(scene.delete(url, first.handle));
    must(refusal === "none", "the delete answers success, which is no proof", refusal);
  }),

  behaviour("a garbage handle is ReceiptHandleIsInvalid", async (scene) => {
    const url = await scene.queue();
    const refusal = await refusalOf(scene.delete(url, "garbage"));
    const change = await refusalOf(scene.changeVisibility(url, { handle: "garbage", seconds: 3 }));
    must(refusal === "ReceiptHandleIsInvalid", "the delete is refused", refusal);
    must(change !== "none", "the visibility change is refused", change);
  }),
];

export const settleBehaviours: readonly SqsBehaviour[] = [...visibilityBehaviours, ...deleteBehaviours];
