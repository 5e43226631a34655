// Conformance, FIFO queues: order, group locks and deduplication (5 behaviours).

import { behaviour, must, pause, refusalOf, type SqsBehaviour } from "./sqs-conformance-scene.ts";

const BY_CONTENT = { ContentBasedDeduplication: "true" };

export const fifoBehaviours: readonly SqsBehaviour[] = [
  behaviour("FIFO: a message in flight locks its group and no other", async (scene) => {
    const url = await scene.fifoQueue(BY_CONTENT);
    for (const body of ["a1", "a2", "b1"]) await scene.send(url, body, { MessageGroupId: body.charAt(0) });
    const first = await scene.receiveOne(url);
    const second = await scene.receiveOne(url);
    const locked = await scene.receive(url, { WaitTimeSeconds: 0 });
    await scene.delete(url, first.handle);
    const next = await scene.receiveOne(url);
    const order = [first.body, second.body, locked.length, next.body].join();
    must(order === "a1,b1,0,a2", "a2 waits for a1, b1 does not", order);
    const { SequenceNumber, MessageGroupId } = first.message.Attributes ?? {};
    must(
      SequenceNumber !== undefined && MessageGroupId === "a",
      "sequence and group are shown",
      first.message.Attributes,
    );
  }),

  behaviour("FIFO: one receive may take several messages of a group, in order", async (scene) => {
    const url = await scene.fifoQueue(BY_CONTENT);
    for (const body of ["a1", "a2", "a3"]) await scene.send(url, body, { MessageGroupId: "a" });
    const bodies = (await scene.receive(url, { MaxNumberOfMessages: 3 })).map(({ Body }) => Body).join();
    must(bodies === "a1,a2,a3", "all three come, in order", bodies);
  }),

  behaviour(
    "FIFO: a repeated deduplication id is accepted and stored once; id and group are required",
    async (scene) => {
      const url = await scene.fifoQueue();
      const first = await scene.send(url, "x", { MessageGroupId: "a", MessageDeduplicationId: "d1" });
      const repeat = await scene.send(url, "y", { MessageGroupId: "a", MessageDeduplicationId: "d1" });
      const stored = (await scene.attributes(url))["ApproximateNumberOfMessages"];
      const noId = await refusalOf(scene.send(url, "z", { MessageGroupId: "a" }));
      const noGroup = await refusalOf(scene.send(url, "z", { MessageDeduplicationId: "d2" }));
      must(stored === "1" && repeat.MessageId === first.MessageId, "the repeat changes nothing", [
        stored,
        repeat.MessageId,
      ]);
      must(noId === "InvalidParameterValue", "a deduplication id is needed", noId);
      must(/MissingParameter|InvalidParameterValue/.test(noGroup), "a group is needed", noGroup);
    },
  ),

  behaviour("FIFO: an expired message comes back before the next of its group", async (scene) => {
    const url = await scene.fifoQueue({ ...BY_CONTENT, VisibilityTimeout: "1" });
    for (const body of ["a1", "a2"]) await scene.send(url, body, { MessageGroupId: "a" });
    const first = await scene.receiveOne(url);
    await pause(1_200);
    const again = await scene.receiveOne(url);
    must(first.body === "a1" && again.body === "a1", "order holds over a redelivery", [first.body, again.body]);
    must(again.receiveCount === "2", "and it counts 2", again.receiveCount);
  }),

  behaviour("FIFO: an expired handle does not delete", async (scene) => {
    const url = await scene.fifoQueue({ ...BY_CONTENT, VisibilityTimeout: "1" });
    await scene.send(url, "a1", { MessageGroupId: "a" });
    const { handle } = await scene.receiveOne(url);
    await pause(1_300);
    const refusal = await refusalOf(scene.delete(url, handle));
    must(/InvalidParameterValue|ReceiptHandleIsInvalid/.test(refusal), "it is refused", refusal);
  }),
];
