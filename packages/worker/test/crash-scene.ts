// The stage of the process tests: one SQS endpoint and one payment provider a file, and for each test its own database and queue.
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { GetQueueAttributesCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { createDatabase, openPool, type SqsServer, startSqs } from "@reprise/dev-stack";
import type { LostDelivery } from "@reprise/tracing";
import type pg from "pg";
import { expect, inject } from "vitest";
import { startPayments } from "../../../examples/src/support/payments.ts";
import { connectPayments, type PaymentsControl } from "../../../examples/src/support/payments-client.ts";
import { bundleForNode } from "../../../infra/dev/test/bundle.ts";
import type { Agent } from "../src/agent.ts";
import { readConfig } from "../src/config.ts";
import { migrateDatabase } from "../src/migrate.ts";
import { sendAnswer, sendRun } from "../src/producer.ts";
import { startWorker, type Worker, type WorkerOptions } from "../src/worker.ts";
import { crashAgents, wish } from "./crash-agents.ts";
import type { Kill } from "./crash-kill.ts";
import { startChild, type WorkerChild } from "./crash-process.ts";

type Row = Readonly<Record<string, unknown>>;
type Settings = Readonly<Record<string, string>>;

export interface Stage {
  readonly sqs: SqsServer;
  readonly payments: PaymentsControl;
  /** Plays one test on a database and a queue of its own, and takes down whatever it started. */
  play(run: (scene: CrashScene) => Promise<void>, settings?: Settings): Promise<void>;
  close(): Promise<void>;
}

export interface CrashScene {
  readonly pool: pg.Pool;
  readonly client: SQSClient;
  readonly sqs: SqsServer;
  readonly queueUrl: string;
  readonly databaseUrl: string;
  readonly payments: PaymentsControl;
  readonly customer: string;
  readonly threadId: string;
  /** A worker process that kills itself there; without a kill it lives. */
  child(kill?: Kill, settings?: Settings): WorkerChild;
  /** Resolves when the child died of SIGKILL; fails with its log when it did not. */
  died(child: WorkerChild): Promise<void>;
  /** A healthy worker in this process. */
  healthy(
    options?: { readonly agents?: readonly Agent[]; readonly settings?: Settings } & Pick<WorkerOptions, "pool">,
  ): Promise<Worker>;
  /** What the healthy workers' obituaries told. */
  readonly obituaries: readonly LostDelivery[];
  send(
    agent: string,
    run?: { readonly runId?: string; readonly threadId?: string; readonly pauseMs?: number },
  ): Promise<string>;
  sendBody(body: string): Promise<void>;
  row(runId: string): Promise<Row | undefined>;
  /** Resolves with the run's row when it has this status. */
  runIs(runId: string, status: string): Promise<Row>;
  deliveries(runId: string): Promise<readonly Row[]>;
  /** `[outcome, cause, resumed_from_step]` of each delivery, oldest first. */
  story(runId: string): Promise<readonly (readonly unknown[])[]>;
  /** Leases that are still live. */
  leases(): Promise<number>;
  /** Outcomes of the provider's log for this test's customer. */
  charges(): Promise<readonly string[]>;
  queued(): Promise<number>;
  until<T>(what: string, check: () => Promise<T | undefined | false>): Promise<T>;
}

/** Ages a wait: three times what a healthy machine needs, since others build and test on this one. */
const UNTIL_MS = 60_000;
const ROW_MS = 15_000;
/** Long enough for a process that starts cold beside others to beat in time; each redelivery by expiry waits for it. */
const VISIBILITY_SECONDS = "5";

export async function openStage(): Promise<Stage> {
  const template = await createDatabase(inject("databaseUrl"));
  // Two: the lock of the set-up stands on one connection and the set-up on another.
  const migrating = openPool(template.url, { max: 2 });
  await migrateDatabase(migrating, "public");
  await migrating.end();
  const [sqs, provider, bundle] = await Promise.all([
    startSqs(),
    startPayments(),
    bundleForNode(join(import.meta.dirname, "crash-worker.ts")),
  ]);
  const parts: StageParts = { sqs, bundle, template: template.name, paymentsUrl: provider.url };
  return {
    sqs,
    payments: connectPayments(provider.url),
    play: async (run, settings = {}) => {
      const closers: (() => Promise<unknown>)[] = [];
      try {
        await run(await openScene(parts, settings, closers));
      } finally {
        for (const close of closers.reverse()) await close();
      }
    },
    close: async () => {
      await Promise.all([sqs.stop(), provider.close()]);
      await template.drop();
      await rm(dirname(bundle), { recursive: true, force: true });
    },
  };
}

interface StageParts {
  readonly sqs: SqsServer;
  readonly bundle: string;
  readonly template: string;
  readonly paymentsUrl: string;
}

async function openScene(
  { sqs, bundle, template, paymentsUrl }: StageParts,
  settings: Settings,
  closers: (() => Promise<unknown>)[],
): Promise<CrashScene> {
  const id = randomUUID().slice(0, 8);
  const database = await createDatabase(inject("databaseUrl"), { template });
  closers.push(() => database.drop());
  const pool = openPool(database.url, { max: 3 });
  // The drop at the end may come before the last idle client was told.
  pool.on("error", () => undefined);
  closers.push(() => pool.end());
  const queueUrl = await sqs.createQueue(`crash-${id}`, { VisibilityTimeout: VISIBILITY_SECONDS });
  const newClient = (): SQSClient =>
    new SQSClient({
      endpoint: sqs.endpoint,
      region: "us-east-1",
      credentials: { accessKeyId: "local", secretAccessKey: "local" },
    });
  const client = newClient();
  closers.push(async () => client.destroy());
  const environment = {
    DATABASE_URL: database.url,
    QUEUE_URL: queueUrl,
    SQS_ENDPOINT: sqs.endpoint,
    PAYMENTS_URL: paymentsUrl,
    REPRISE_VISIBILITY_SECONDS: VISIBILITY_SECONDS,
    REPRISE_WAIT_SECONDS: "1",
    REPRISE_POOL_MAX: "6",
    ...settings,
  };
  const customer = `cus_${id}`;
  const threadId = `thread-${id}`;
  const obituaries: LostDelivery[] = [];
  const payments = connectPayments(paymentsUrl);
  const rows = async (sql: string, values: unknown[]): Promise<readonly Row[]> =>
    (await pool.query<Record<string, unknown>>(sql, values)).rows;
  const deliveries = (runId: string): Promise<readonly Row[]> =>
    rows("select * from reprise.deliveries where run_id = $1 order by started_at", [runId]);
  const row = async (runId: string): Promise<Row | undefined> =>
    (await rows("select * from reprise.runs where run_id = $1", [runId]))[0];
  return {
    pool,
    client,
    sqs,
    queueUrl,
    databaseUrl: database.url,
    payments,
    customer,
    threadId,
    obituaries,
    until,
    deliveries,
    row,
    child: (kill, more = {}) => {
      const child = startChild({
        bundle,
        environment: { ...environment, ...more },
        ...(kill === undefined ? {} : { kill }),
      });
      closers.push(async () => {
        child.signal("SIGKILL");
        await child.exited;
      });
      return child;
    },
    died: async (child) => {
      const how = await within(UNTIL_MS, child.exited);
      if (how !== "SIGKILL") throw new Error(`the worker did not kill itself (${how ?? "it lives"}):\n${child.log()}`);
    },
    healthy: async (options = {}) => {
      const config = readConfig({ ...environment, REPRISE_LOG_LEVEL: "silent", ...options.settings });
      const worker = await startWorker({
        config,
        agents: [...crashAgents(paymentsUrl), ...(options.agents ?? [])],
        sqs: newClient,
        exportObituary: async (lost) => void obituaries.push(lost),
        ...(options.pool === undefined ? {} : { pool: options.pool }),
      });
      closers.push(() => worker.stop());
      return worker;
    },
    send: async (agent, run = {}) => {
      const content = wish(customer, run.pauseMs);
      const sent = await sendRun(client, queueUrl, {
        agent,
        threadId: run.threadId ?? threadId,
        input: { messages: [{ role: "user", content }] },
        ...(run.runId === undefined ? {} : { runId: run.runId }),
      });
      return sent.runId;
    },
    sendBody: async (body) => {
      await client.send(new SendMessageCommand({ QueueUrl: queueUrl, MessageBody: body }));
    },
    runIs: (runId, status) =>
      until(`run ${runId} to be ${status}`, async () => {
        const run = await row(runId);
        return run?.["status"] === status ? run : undefined;
      }),
    story: async (runId) =>
      (await deliveries(runId)).map((delivery) => [
        delivery["outcome"],
        delivery["cause"],
        delivery["resumed_from_step"],
      ]),
    leases: async () =>
      (await rows("select 1 from reprise.thread_leases where expires_at > clock_timestamp()", [])).length,
    charges: async () => (await payments.requests({ customer, method: "POST" })).map((request) => request.outcome),
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

/** `[outcome, cause, resumed_from_step]` of each delivery, oldest first; waits a while, since a row ends after its run. */
export async function expectStory(
  scene: CrashScene,
  runId: string,
  wanted: readonly (readonly unknown[])[],
): Promise<void> {
  const deadline = Date.now() + ROW_MS;
  let story = await scene.story(runId);
  while (JSON.stringify(story) !== JSON.stringify(wanted) && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    story = await scene.story(runId);
  }
  expect(story).toEqual(wanted);
}

/** Says yes to the one question that a run of `ask` waits with. */
export async function answer(scene: CrashScene, runId: string): Promise<void> {
  const run = await scene.row(runId);
  // The worker wrote this list: ids and values of what the graph asked.
  const [pending] = JSON.parse(String(run?.["interrupts"])) as readonly { readonly id: string }[];
  await sendAnswer(scene.client, scene.queueUrl, {
    agent: "ask",
    threadId: scene.threadId,
    runId,
    interruptId: pending?.id ?? "",
    value: "yes",
  });
}

async function until<T>(what: string, check: () => Promise<T | undefined | false>): Promise<T> {
  const deadline = Date.now() + UNTIL_MS;
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > deadline) throw new Error(`waited ${UNTIL_MS} ms in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
