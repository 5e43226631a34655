// The arm without us: receives ten at a time and deletes them in one call, two loops at once, as the cheapest consumer would.

import { DeleteMessageBatchCommand, ReceiveMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { readConfig } from "@reprise/worker";
import type { Play, Played } from "./bench-worker-process.ts";
import { benchClient, stopwatch } from "./bench-worker-stopwatch.ts";

const LOOPS = 2;

export function receiveArm(): (play: Play) => Promise<Played> {
  const config = readConfig();
  return async ({ count, queueUrl }) => {
    const client = benchClient(config.sqsEndpoint);
    const watch = stopwatch();
    let left = count;
    const loop = async (): Promise<void> => {
      while (left > 0) {
        const deleted = await receiveAndDelete(client, queueUrl);
        if (deleted > 0) watch.begin();
        left -= deleted;
      }
    };
    await Promise.all(Array.from({ length: LOOPS }, loop));
    client.destroy();
    return watch.end();
  };
}

async function receiveAndDelete(client: SQSClient, QueueUrl: string): Promise<number> {
  const { Messages = [] } = await client.send(
    new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: 1,
      MessageSystemAttributeNames: ["All"],
      MessageAttributeNames: ["All"],
    }),
  );
  if (Messages.length === 0) return 0;
  const Entries = Messages.map(({ ReceiptHandle }, index) => ({
    Id: String(index),
    ReceiptHandle: ReceiptHandle ?? "",
  }));
  const { Successful = [] } = await client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
  return Successful.length;
}
