// The scene of the worker's benchmarks: PostgreSQL, the embedded SQS in this process, and the arms in processes of their own.

import { randomUUID } from "node:crypto";
import { SendMessageBatchCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { openPool, type SqsServer, startSqs } from "@reprise/dev-stack";
import { MESSAGE_SCHEMA, migrateDatabase } from "@reprise/worker";
import { REQUEST } from "./bench-worker-agent.ts";
import { type ArmSettings, type Play, type Played, startArm, type WorkerBenchProcess } from "./bench-worker-process.ts";
import { benchClient } from "./bench-worker-stopwatch.ts";
import { requireWork } from "./errors.ts";
import { waitForIdleCpu } from "./idle-cpu.ts";
import type { Arm } from "./statistics.ts";

export interface WorkerScene {
  /** An arm whose every round plays `count` messages or runs, and costs what `cost` makes of it. */
  arm(settings: ArmSettings, round: Round): Arm;
  close(): Promise<void>;
}

export interface Round {
  readonly count: number;
  readonly cost: (played: Played) => number;
  readonly window?: NonNullable<Play["window"]>;
  /** How long the handler of the message at `index` works, where the arm reads it. Default 0. */
  readonly workMs?: (index: number) => number;
}

const AGENT = "bench";
const BATCH = 10;

/** `waits`: wait for an idle CPU before each round. */
export async function openWorkerScene(databaseUrl: string, waits: boolean): Promise<WorkerScene> {
  const pool = openPool(databaseUrl, { max: 1 });
  await migrateDatabase(pool, "public").finally(() => pool.end());
  const sqs = await startSqs();
  const client = benchClient(sqs.endpoint);
  const processes: WorkerBenchProcess[] = [];
  const environment = {
    DATABASE_URL: databaseUrl,
    QUEUE_URL: `${sqs.endpoint}/queue-of-each-round`,
    SQS_ENDPOINT: sqs.endpoint,
    AWS_ACCESS_KEY_ID: "bench",
    AWS_SECRET_ACCESS_KEY: "bench",
  };
  return {
    arm: (settings, { count, cost, window, workMs = () => 0 }) => {
      const process = startArm(settings, environment);
      processes.push(process);
      return async () => {
        const queueUrl = settings.arm === "bare-graph" ? "" : await fullQueue({ sqs, client }, { count, workMs });
        if (waits) await waitForIdleCpu();
        return cost(await process.play({ count, queueUrl, ...(window === undefined ? {} : { window }) }));
      };
    },
    close: async () => {
      await Promise.all(processes.map((process) => process.close()));
      client.destroy();
      await sqs.stop();
    },
  };
}

/** A queue of its own for each round, filled before it: no arm meets what another left. */
async function fullQueue(
  { sqs, client }: { readonly sqs: SqsServer; readonly client: SQSClient },
  { count, workMs }: { readonly count: number; readonly workMs: (index: number) => number },
): Promise<string> {
  const url = await sqs.createQueue(`round-${randomUUID()}`, { VisibilityTimeout: "120" });
  for (let sent = 0; sent < count; sent += BATCH) {
    const Entries = Array.from({ length: Math.min(BATCH, count - sent) }, (_, index) => ({
      Id: String(index),
      MessageBody: messageBody(workMs(sent + index)),
    }));
    const { Successful = [] } = await client.send(new SendMessageBatchCommand({ QueueUrl: url, Entries }));
    requireWork(Successful.length === Entries.length, "a queue was not filled");
  }
  return url;
}

function messageBody(workMs: number): string {
  const runId = randomUUID();
  return JSON.stringify({
    schema: MESSAGE_SCHEMA,
    run_id: runId,
    thread_id: `thread-${runId}`,
    agent: AGENT,
    input: { messages: [{ role: "user", content: REQUEST }], workMs },
  });
}
