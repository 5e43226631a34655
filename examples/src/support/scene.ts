// The scene of the in-process examples: the embedded stack, migrated, a worker of ours, and a way to wait for a run's end.
import { SQSClient } from "@aws-sdk/client-sqs";
import { openPool, startStack } from "@reprise/dev-stack";
import { type Agent, migrateDatabase, readConfig, sendRun, startWorker } from "@reprise/worker";
import type pg from "pg";
import { SupportError } from "./errors.ts";

export type RunResult = { readonly status: string; readonly result: unknown };

export type ExampleScene = {
  readonly pool: pg.Pool;
  /** Sends one user message to an agent and waits for the run's end. */
  readonly ask: (agent: string, text: string) => Promise<RunResult>;
};

const WAIT_MS = 30_000;

/** Runs `play` on a stack of its own and takes it down, whatever happens. */
export async function withScene<T>(agents: readonly Agent[], play: (scene: ExampleScene) => Promise<T>): Promise<T> {
  const stack = await startStack({ visibilitySeconds: 10 });
  const pool = openPool(stack.databaseUrl, { max: 2 });
  const settings = { ...stack.environment, REPRISE_LOG_LEVEL: "warn", REPRISE_WAIT_SECONDS: "1" };
  const config = readConfig(settings);
  const newClient = (): SQSClient => clientFor(settings);
  const client = newClient();
  try {
    await migrateDatabase(pool, config.checkpointSchema);
    const worker = await startWorker({ config, agents, sqs: newClient });
    try {
      return await play({ pool, ask: (agent, text) => ask({ pool, client, queueUrl: config.queueUrl }, agent, text) });
    } finally {
      await worker.stop();
    }
  } finally {
    client.destroy();
    await pool.end();
    await stack.stop();
  }
}

function clientFor(settings: Readonly<Record<string, string>>): SQSClient {
  const accessKeyId = settings["AWS_ACCESS_KEY_ID"];
  const secretAccessKey = settings["AWS_SECRET_ACCESS_KEY"];
  return new SQSClient({
    region: settings["AWS_REGION"] ?? "us-east-1",
    ...(settings["SQS_ENDPOINT"] === undefined ? {} : { endpoint: settings["SQS_ENDPOINT"] }),
    ...(accessKeyId === undefined || secretAccessKey === undefined
      ? {}
      : { credentials: { accessKeyId, secretAccessKey } }),
  });
}

type AskParts = { readonly pool: pg.Pool; readonly client: SQSClient; readonly queueUrl: string };

async function ask({ pool, client, queueUrl }: AskParts, agent: string, text: string): Promise<RunResult> {
  const threadId = `thread_${Math.random().toString(36).slice(2, 10)}`;
  const input = { messages: [{ role: "user", content: text }] };
  const { runId } = await sendRun(client, queueUrl, { agent, threadId, input });
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const { rows } = await pool.query<{ status: string; result: string | null }>(
      "select status, result from reprise.runs where run_id = $1",
      [runId],
    );
    const row = rows[0];
    if (row !== undefined && !["queued", "running"].includes(row.status)) {
      return { status: row.status, result: row.result === null ? null : JSON.parse(row.result) };
    }
    if (Date.now() > deadline) throw new SupportError("EXAMPLE_FAILED", `run ${runId} did not end in ${WAIT_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** An example that shows something must also notice when it no longer does. */
export function check(holds: boolean, what: string): void {
  if (!holds) throw new SupportError("EXAMPLE_FAILED", `expected that ${what}`);
  process.stdout.write(`  ok: ${what}\n`);
}
