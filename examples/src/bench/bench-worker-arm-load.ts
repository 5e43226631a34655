// The throughput arms: the whole worker, or plain sqs-consumers, over handlers that wait as long as their message says.

import { setTimeout as sleep } from "node:timers/promises";
import type { Message } from "@aws-sdk/client-sqs";
import { type Config, readConfig, startWorker } from "@reprise/worker";
import { Consumer } from "sqs-consumer";
import { z } from "zod";
import { emptyAgent } from "./bench-worker-arm-worker.ts";
import type { ArmSettings, LoadArm, Play, Played } from "./bench-worker-process.ts";
import { benchClient } from "./bench-worker-stopwatch.ts";
import { cpuUs } from "./cpu-time.ts";

const inputSchema = z.object({ workMs: z.number() });
const bodySchema = z.object({ input: inputSchema });

/** Everything a run of the worker has: intake, rows, lease, root span, settlement. Where it would drive a graph, it waits. */
export function loadWorkerArm({ concurrency }: ArmSettings): (play: Play) => Promise<Played> {
  const agent = emptyAgent(async (input) => {
    await sleep(inputSchema.parse(input).workMs);
    return { messages: [] };
  });
  return (play) =>
    counted(play, async (ended) => {
      const config: Config = { ...readConfig(), queueUrl: play.queueUrl, concurrency };
      const complain = (_fields: unknown, text: string): void => void process.stderr.write(`${text}\n`);
      // The last line of each delivery, written when its message is deleted and its row closed.
      const info = (_fields: unknown, text: string): void => {
        if (text === "delivery ended") ended();
      };
      const worker = await startWorker({
        config,
        agents: [agent],
        log: { debug: () => undefined, info, warn: complain, error: complain },
        sqs: () => benchClient(config.sqsEndpoint),
      });
      return () => worker.stop();
    });
}

/** `load-singles`: one message a consumer; the other two: ten, in sqs-consumer's two forms of handler. No rows, no spans. */
export function loadConsumersArm(
  form: Exclude<LoadArm, "load-worker">,
  concurrency: number,
): (play: Play) => Promise<Played> {
  const { sqsEndpoint } = readConfig();
  const batchSize = form === "load-singles" ? 1 : 10;
  return (play) =>
    counted(play, async (ended) => {
      const consumers = Array.from({ length: concurrency / batchSize }, () => {
        const sqs = benchClient(sqsEndpoint);
        const handler =
          form === "load-batch"
            ? { handleMessageBatch: async (messages: Message[]) => Promise.all(messages.map(work)) }
            : { handleMessage: work };
        const consumer = Consumer.create({ queueUrl: play.queueUrl, sqs, batchSize, ...handler });
        consumer.on("message_processed", ended);
        // Polls that the end of a round cuts.
        consumer.on("error", () => undefined);
        consumer.start();
        return { consumer, sqs };
      });
      return async () => {
        for (const { consumer } of consumers) consumer.stop({ abort: true });
        while (consumers.some(({ consumer }) => consumer.status.isPolling)) await sleep(20);
        for (const { sqs } of consumers) sqs.destroy();
      };
    });
}

async function work(message: Message): Promise<Message> {
  await sleep(bodySchema.parse(JSON.parse(message.Body ?? "")).input.workMs);
  return message;
}

/** Starts, lets it warm up, counts ends in the window, and stops. */
async function counted({ window }: Play, start: (ended: () => void) => Promise<() => Promise<void>>): Promise<Played> {
  const { warmupMs, windowMs } = window ?? { warmupMs: 0, windowMs: 1_000 };
  let messages = 0;
  const stop = await start(() => {
    messages += 1;
  });
  await sleep(warmupMs);
  const before = { messages, cpuUs: cpuUs(), at: performance.now() };
  await sleep(windowMs);
  const played = {
    messages: messages - before.messages,
    cpuMs: (cpuUs() - before.cpuUs) / 1_000,
    wallMs: performance.now() - before.at,
  };
  await stop();
  return played;
}
