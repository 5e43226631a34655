// The scene of the real tests: a fresh database, an SQS endpoint over HTTP, a worker in this process. Everything is taken down.
import { randomUUID } from "node:crypto";
import { GetQueueAttributesCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { createDatabase, openPool, type SqsServer, startSqs } from "@reprise/dev-stack";
import type pg from "pg";
import { afterEach, inject } from "vitest";
import type { Agent } from "../src/agent.ts";
import { type Config, readConfig } from "../src/config.ts";
import { migrateDatabase } from "../src/migrate.ts";
import { sendRun } from "../src/producer.ts";
import { startWorker, type Worker, type WorkerOptions } from "../src/worker.ts";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

export interface Scene {
  readonly pool: pg.Pool;
  readonly sqs: SqsServer;
  readonly client: SQSClient;
  readonly queueUrl: string;
  readonly config: Config;
  start(agents: readonly Agent[], options?: Partial<WorkerOptions>): Promise<Worker>;
  send(run: {
    agent: string;
    threadId?: string;
    runId?: string;
    input?: unknown;
    supersede?: boolean;
    onBusy?: "enqueue" | "reject";
  }): Promise<{ runId: string; threadId: string }>;
  sendBody(body: string): Promise<void>;
  run(runId: string): Promise<Record<string, unknown> | undefined>;
  deliveries(runId: string): Promise<readonly Record<string, unknown>[]>;
  /** Waits until the check gives a value; fails after 20 s with what was there. */
  until<T>(what: string, check: () => Promise<T | undefined | false>): Promise<T>;
  /** Messages in the queue, visible and in flight. */
  queued(): Promise<number>;
}

export async function scene(
  environment: Readonly<Record<string, string>> = {},
  queueAttributes: Readonly<Record<string, string>> = {},
): Promise<Scene> {
  const database = await createDatabase(inject("databaseUrl"));
  closers.push(() => database.drop());
  const pool = openPool(database.url, { max: 5 });
  closers.push(() => pool.end());
  await migrateDatabase(pool, "public");
  const sqs = await startSqs();
  closers.push(() => sqs.stop());
  const suffix = queueAttributes["FifoQueue"] === "true" ? ".fifo" : "";
  const queueUrl = await sqs.createQueue(`runs-${randomUUID().slice(0, 8)}${suffix}`, {
    VisibilityTimeout: "2",
    ...queueAttributes,
  });
  const client = new SQSClient({
    endpoint: sqs.endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "x", secretAccessKey: "y" },
  });
  closers.push(async () => client.destroy());
  const config = readConfig({
    DATABASE_URL: database.url,
    QUEUE_URL: queueUrl,
    SQS_ENDPOINT: sqs.endpoint,
    REPRISE_VISIBILITY_SECONDS: "2",
    REPRISE_WAIT_SECONDS: "1",
    REPRISE_LOG_LEVEL: "silent",
    ...environment,
  });
  const until: Scene["until"] = async (what, check) => {
    const deadline = Date.now() + 20_000;
    for (;;) {
      const value = await check();
      if (value !== undefined && value !== false) return value;
      if (Date.now() > deadline) throw new Error(`waited 20 s in vain for ${what}`);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  };
  return {
    pool,
    sqs,
    client,
    queueUrl,
    config,
    until,
    start: async (agents, options = {}) => {
      const own = (): SQSClient =>
        new SQSClient({
          endpoint: sqs.endpoint,
          region: "us-east-1",
          credentials: { accessKeyId: "x", secretAccessKey: "y" },
        });
      const worker = await startWorker({ config, agents, sqs: own, ...options });
      closers.push(() => worker.stop());
      return worker;
    },
    send: async (run) => {
      const threadId = run.threadId ?? `thread-${randomUUID().slice(0, 8)}`;
      const sent = await sendRun(client, queueUrl, {
        ...run,
        threadId,
        input: run.input ?? { messages: [{ role: "user", content: "hello" }] },
      });
      return { runId: sent.runId, threadId };
    },
    sendBody: async (body) => {
      await client.send(new SendMessageCommand({ QueueUrl: queueUrl, MessageBody: body }));
    },
    run: async (runId) =>
      (await pool.query<Record<string, unknown>>("select * from reprise.runs where run_id = $1", [runId])).rows[0],
    deliveries: async (runId) =>
      (
        await pool.query<Record<string, unknown>>(
          "select * from reprise.deliveries where run_id = $1 order by started_at",
          [runId],
        )
      ).rows,
    queued: async () => {
      const { Attributes } = await client.send(
        new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["All"] }),
      );
      return (
        Number(Attributes?.ApproximateNumberOfMessages) + Number(Attributes?.ApproximateNumberOfMessagesNotVisible)
      );
    },
  };
}
