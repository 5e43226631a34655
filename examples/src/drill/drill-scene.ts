// The stage of every drill: embedded stack, payment provider, real worker processes, a stream of runs, and what became of them.
import { fileURLToPath } from "node:url";
import { GetQueueAttributesCommand, SQSClient } from "@aws-sdk/client-sqs";
import { openPool, type StackOptions, startStack } from "@reprise/dev-stack";
import { PRODUCT } from "@reprise/tracing";
import { migrateDatabase, sendRun } from "@reprise/worker";
import type pg from "pg";
import { connectPayments, type PaymentsControl } from "../support/payments-client.ts";
import { spawnPayments } from "../support/payments-process.ts";
import { startWorkerProcess, type WorkerProcess } from "../support/worker-process.ts";

export type DrillScene = {
  /** The harness's own connections: never through a proxy, so that it sees what workers cannot. */
  readonly pool: pg.Pool;
  readonly payments: PaymentsControl;
  /** What a worker process of this scene gets. */
  readonly environment: Readonly<Record<string, string>>;
  /** Sends one run that charges a customer of its own once; ids count up from 0. */
  readonly send: () => Promise<void>;
  readonly sent: () => number;
  readonly worker: (environment?: Readonly<Record<string, string>>) => Promise<WorkerProcess>;
  /** Runs in each status now. */
  readonly statuses: () => Promise<Readonly<Record<string, number>>>;
  /** Resolves when every run sent has a terminal status; false when the time is over first. */
  readonly allEnded: (timeoutMs: number) => Promise<boolean>;
  readonly outcome: () => Promise<DrillOutcome>;
};

/** What the provider, PostgreSQL and the queues say of all runs sent. */
export type DrillOutcome = {
  readonly sent: number;
  readonly statuses: Readonly<Record<string, number>>;
  readonly charged_once: number;
  readonly doubled: number;
  readonly uncharged: number;
  readonly left_in_queue: number;
  readonly in_dead_letter_queue: number;
  readonly lost_deliveries: number;
  /** Deliveries by the cause on their root span. */
  readonly causes: Readonly<Record<string, number>>;
  /** Deliveries by how they ended. */
  readonly outcomes: Readonly<Record<string, number>>;
};

const MODULE = fileURLToPath(new URL("../agents/billing.js", import.meta.url));
/** The last deletes are on their way when the last run is seen finished. */
const SETTLE_MS = 2_500;

export async function withDrill<T>(
  options: {
    readonly stack?: StackOptions;
    /** Where the harness itself reaches PostgreSQL, when workers go through something in between. */
    readonly directUrl?: string;
    readonly settings: Readonly<Record<string, string>>;
  },
  play: (scene: DrillScene) => Promise<T>,
): Promise<T> {
  const stack = await startStack({ environment: {}, visibilitySeconds: 20, ...options.stack });
  const provider = await spawnPayments();
  const pool = openPool(options.directUrl ?? stack.databaseUrl, { max: 4 });
  // The harness outlives what it does to the server; its next query opens another connection.
  pool.on("error", () => undefined);
  const client = clientFor(stack.sqsEndpoint ?? "");
  const workers: WorkerProcess[] = [];
  const payments = connectPayments(provider.url);
  const environment = {
    ...stack.environment,
    PAYMENTS_URL: provider.url,
    // A worker says that it is ready on level info.
    REPRISE_LOG_LEVEL: "info",
    ...options.settings,
  };
  let sent = 0;
  const statuses = (): Promise<Record<string, number>> => histogram(pool, "runs", "status");
  const scene: DrillScene = {
    pool,
    payments,
    environment,
    sent: () => sent,
    statuses,
    send: async () => {
      const id = sent++;
      await sendRun(client, stack.queueUrl, {
        agent: "billing",
        threadId: `thread_${id}`,
        runId: `run_${id}`,
        input: { messages: [{ role: "user", content: `Charge cus_${id}.` }] },
      });
    },
    worker: async (extra = {}) => {
      const worker = await startWorkerProcess({ module: MODULE, environment: { ...environment, ...extra } });
      workers.push(worker);
      return worker;
    },
    allEnded: (timeoutMs) => until(timeoutMs, async () => ended(await statuses()) === sent),
    outcome: async () => {
      await sleep(SETTLE_MS);
      const queues = { queueUrl: stack.queueUrl, deadLetterQueueUrl: stack.deadLetterQueueUrl ?? "" };
      return outcomeOf({ pool, payments, client, sent, ...queues });
    },
  };
  try {
    await migrateDatabase(pool, "public");
    return await play(scene);
  } finally {
    for (const worker of workers) worker.signal("SIGKILL");
    client.destroy();
    await pool.end();
    await provider.stop();
    await stack.stop();
  }
}

function clientFor(endpoint: string): SQSClient {
  return new SQSClient({
    region: "us-east-1",
    endpoint,
    credentials: { accessKeyId: "dev", secretAccessKey: "dev" },
  });
}

function ended(statuses: Readonly<Record<string, number>>): number {
  return ["finished", "failed", "cancelled", "rejected", "parked", "abandoned"].reduce(
    (sum, status) => sum + (statuses[status] ?? 0),
    0,
  );
}

/** Polls until `holds`; what it throws meanwhile (a server that is down) counts as "not yet". */
export async function until(timeoutMs: number, holds: () => Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    if (await holds().catch(() => false)) return true;
    if (performance.now() > deadline) return false;
    await sleep(200);
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function histogram(pool: pg.Pool, table: "runs" | "deliveries", column: string): Promise<Record<string, number>> {
  const { rows } = await pool.query<{ name: string; n: number }>(
    `select coalesce(${column}, 'none') as name, count(*)::int as n from ${PRODUCT.schema}.${table} group by 1 order by 1`,
  );
  return Object.fromEntries(rows.map(({ name, n }) => [name, n]));
}

async function outcomeOf(parts: {
  readonly pool: pg.Pool;
  readonly payments: PaymentsControl;
  readonly client: SQSClient;
  readonly sent: number;
  readonly queueUrl: string;
  readonly deadLetterQueueUrl: string;
}): Promise<DrillOutcome> {
  const { pool, payments, client, sent, queueUrl, deadLetterQueueUrl } = parts;
  const perCustomer = new Map<string, number>();
  for (const { customer } of await payments.charges()) perCustomer.set(customer, (perCustomer.get(customer) ?? 0) + 1);
  const counts = Array.from({ length: sent }, (_, id) => perCustomer.get(`cus_${id}`) ?? 0);
  const lost = await pool.query<{ n: number }>("select coalesce(sum(lost_deliveries), 0)::int as n from reprise.runs");
  return {
    sent,
    statuses: await histogram(pool, "runs", "status"),
    charged_once: counts.filter((n) => n === 1).length,
    doubled: counts.filter((n) => n > 1).length,
    uncharged: counts.filter((n) => n === 0).length,
    left_in_queue: await messagesIn(client, queueUrl),
    in_dead_letter_queue: await messagesIn(client, deadLetterQueueUrl),
    lost_deliveries: lost.rows[0]?.n ?? 0,
    causes: await histogram(pool, "deliveries", "cause"),
    outcomes: await histogram(pool, "deliveries", "outcome"),
  };
}

async function messagesIn(client: SQSClient, QueueUrl: string): Promise<number> {
  const { Attributes } = await client.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }));
  return Number(Attributes?.ApproximateNumberOfMessages) + Number(Attributes?.ApproximateNumberOfMessagesNotVisible);
}
