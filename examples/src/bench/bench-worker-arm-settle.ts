// The settling arms: a thousand receipt handles deleted one by one, or by the worker's settler; as many in flight either way.

import { DeleteMessageCommand, ReceiveMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { createSettler, readConfig } from "@reprise/worker";
import type { Play, Played, SettleArm } from "./bench-worker-process.ts";
import { benchClient, stopwatch } from "./bench-worker-stopwatch.ts";

const IN_FLIGHT = 50;

export function settleArm(arm: SettleArm): (play: Play) => Promise<Played> {
  const { sqsEndpoint } = readConfig();
  return async ({ count, queueUrl }) => {
    const client = benchClient(sqsEndpoint);
    const handles = await receiveAll(client, queueUrl, count);
    const settler = createSettler({ client, queueUrl });
    const single = (ReceiptHandle: string): Promise<unknown> =>
      client.send(new DeleteMessageCommand({ QueueUrl: queueUrl, ReceiptHandle }));
    const remove = arm === "settle-single" ? single : settler.delete;
    const watch = stopwatch();
    watch.begin();
    await Promise.all(
      Array.from({ length: IN_FLIGHT }, async () => {
        for (let handle = handles.pop(); handle !== undefined; handle = handles.pop()) await remove(handle);
      }),
    );
    const played = watch.end();
    client.destroy();
    return played;
  };
}

async function receiveAll(client: SQSClient, QueueUrl: string, count: number): Promise<string[]> {
  const handles: string[] = [];
  while (handles.length < count) {
    const { Messages = [] } = await client.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));
    handles.push(...Messages.map(({ ReceiptHandle }) => ReceiptHandle ?? ""));
  }
  return handles;
}
