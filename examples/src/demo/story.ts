// The demo's story, played on real parts: a worker is killed after the provider committed, a second one takes over.
import { fileURLToPath } from "node:url";
import { SQSClient } from "@aws-sdk/client-sqs";
import { openPool, type Stack, startStack } from "@reprise/dev-stack";
import { migrateDatabase, sendRun } from "@reprise/worker";
import type pg from "pg";
import { SupportError } from "../support/errors.ts";
import { connectPayments, type PaymentsControl } from "../support/payments-client.ts";
import { type PaymentsProcess, spawnPayments } from "../support/payments-process.ts";
import { startWorkerProcess, type WorkerProcess } from "../support/worker-process.ts";

export type StoryOptions = {
  /** The agent whose key is generated at call time. */
  readonly naive: boolean;
  /** Progress, for people. */
  readonly say: (text: string) => void;
};

/** What is left to look at when the story is over. */
export type Stage = {
  readonly runId: string;
  readonly threadId: string;
  readonly customer: string;
  readonly pool: pg.Pool;
  readonly stack: Stack;
  readonly payments: PaymentsControl;
};

/** Short, so that the demo does not wait: SQS gives the message again this long after the killed worker's last beat. */
const VISIBILITY_SECONDS = 4;
const FINISH_TIMEOUT_MS = 60_000;
const AGENTS = fileURLToPath(new URL("../agents/billing.js", import.meta.url));

/** Plays the story, hands the stage to `look`, and takes everything down whatever happens. */
export async function playStory<T>(options: StoryOptions, look: (stage: Stage) => Promise<T>): Promise<T> {
  const { say } = options;
  const opened: (() => Promise<unknown>)[] = [];
  try {
    say("Starting PostgreSQL, an SQS endpoint, an OTLP sink and a payment provider, all on this machine.");
    // A collector of yours would receive the spans, and the demo could not read them back: its own sink it is.
    const stack = await startStack({ visibilitySeconds: VISIBILITY_SECONDS, environment: {} });
    opened.push(() => stack.stop());
    const provider = await spawnPayments();
    opened.push(() => provider.stop());
    const pool = openPool(stack.databaseUrl, { max: 3 });
    opened.push(() => pool.end());
    await migrateDatabase(pool, "public");
    const stage = stageOf(stack, pool, provider);
    await killMidCharge(stage, provider, options);
    return await look(stage);
  } finally {
    for (const close of opened.reverse()) await close();
  }
}

function stageOf(stack: Stack, pool: pg.Pool, provider: PaymentsProcess): Stage {
  const id = Math.random().toString(36).slice(2, 8);
  return {
    runId: `run_${id}`,
    threadId: `thread_${id}`,
    customer: `cus_${id}`,
    pool,
    stack,
    payments: connectPayments(provider.url),
  };
}

async function killMidCharge(stage: Stage, provider: PaymentsProcess, options: StoryOptions): Promise<void> {
  const { say } = options;
  const start = (): Promise<WorkerProcess> =>
    startWorkerProcess({
      module: AGENTS,
      environment: {
        ...stage.stack.environment,
        PAYMENTS_URL: provider.url,
        REPRISE_VISIBILITY_SECONDS: String(VISIBILITY_SECONDS),
        REPRISE_WAIT_SECONDS: "5",
      },
    });
  await stage.payments.arm({ kind: "commit_then_stall", holdMs: null, times: 1 });
  const first = await start();
  say(`Worker 1 is up (pid ${first.pid}). Sending run ${stage.runId}: charge ${stage.customer} once.`);
  await send(stage, options.naive ? "billing-naive" : "billing");
  const held = await stage.payments.nextHeld({ customer: stage.customer });
  say(`The provider committed charge ${held.chargeId ?? "?"} and has not answered yet. SIGKILL to worker 1.`);
  first.signal("SIGKILL");
  await first.exited;
  const second = await start();
  say(
    `Worker 2 is up (pid ${second.pid}). SQS gives the message again when its visibility (${VISIBILITY_SECONDS} s) has expired.`,
  );
  await finished(stage);
  second.signal("SIGTERM");
  say(`The run is finished. Worker 2 was asked to stop and left with code ${String(await second.exited)}.`);
}

async function send(stage: Stage, agent: string): Promise<void> {
  const { stack, runId, threadId, customer } = stage;
  const client = new SQSClient({
    region: "us-east-1",
    endpoint: stack.sqsEndpoint ?? "",
    credentials: { accessKeyId: "dev", secretAccessKey: "dev" },
  });
  const input = { messages: [{ role: "user", content: `Charge ${customer} for the pro plan.` }] };
  await sendRun(client, stack.queueUrl, { agent, threadId, runId, input });
  client.destroy();
}

async function finished(stage: Stage): Promise<void> {
  const deadline = Date.now() + FINISH_TIMEOUT_MS;
  for (;;) {
    const { rows } = await stage.pool.query<{ status: string }>("select status from reprise.runs where run_id = $1", [
      stage.runId,
    ]);
    const status = rows[0]?.status ?? "unknown";
    if (status === "finished") return;
    if (Date.now() > deadline) {
      throw new SupportError(
        "EXAMPLE_FAILED",
        `run ${stage.runId} is ${status} after ${FINISH_TIMEOUT_MS} ms; expected finished`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
