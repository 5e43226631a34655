// Composition: puts the parts of a worker together, starts the intake, and takes it down inside the stop grace.
import { setMaxListeners } from "node:events";
import { hostname } from "node:os";
import { SQSClient } from "@aws-sdk/client-sqs";
import { type Ledger, PostgresLedger } from "@reprise/tools";
import { createGate, type LostDelivery, PRODUCT } from "@reprise/tracing";
import type pg from "pg";
import { type Agent, agentsByName } from "./agent.ts";
import { checkAtStart } from "./check-start.ts";
import type { Config } from "./config.ts";
import { handleDelivery, type WorkerParts } from "./delivery.ts";
import { Burial } from "./delivery-bury.ts";
import { deliveryEnds } from "./delivery-end.ts";
import { Receipts } from "./delivery-receipts.ts";
import { errorText, WorkerError } from "./errors.ts";
import { LeaseWatch } from "./health-leases.ts";
import { startHealth } from "./health-start.ts";
import { createIntake } from "./intake.ts";
import { IntakeGate } from "./intake-gate.ts";
import { pause } from "./intake-pause.ts";
import { type Clock, systemClock } from "./lease.ts";
import { BeatRounds } from "./lease-beats.ts";
import { createLogger, type Logger, withTraceIds } from "./log.ts";
import { WorkerMetrics } from "./metrics.ts";
import { missingMigrations } from "./migrate.ts";
import { holdPool } from "./pool.ts";
import { deliveryAdmissions } from "./run-rows.ts";
import { createSettler } from "./settle.ts";
import { firstOf } from "./signals.ts";
import { startHousekeeping } from "./worker-housekeeping.ts";

export interface WorkerOptions {
  readonly config: Config;
  readonly agents: readonly Agent[];
  /** Your own pool (TLS, IAM auth, pooler); the worker hears its errors until it stops and never ends it. Default: one from DATABASE_URL. */
  readonly pool?: pg.Pool;
  /** Your own client configuration for SQS. Default: region and endpoint of the configuration, credentials of the SDK's chain. */
  readonly sqs?: () => SQSClient;
  readonly ledger?: Ledger;
  readonly log?: Logger;
  /** Monotonic time and timers of leases and deadlines. Default: the system's. */
  readonly clock?: Clock;
  /** Where obituaries of lost deliveries go. Default: nowhere; `startTracing().exportObituary` fits. */
  readonly exportObituary?: (lost: LostDelivery) => Promise<void>;
}

export interface Worker {
  /** Who this worker is, in rows and spans. */
  readonly name: string;
  /** Deliveries in work. */
  active(): number;
  /**
   * Stops receiving, lets graphs reach their next checkpoint, hands the rest back at the end of the drain budget, and closes
   * what the worker opened. Resolves when all is done; a second call returns the same promise and cuts the drain short.
   */
  stop(): Promise<void>;
}

/** Completions and obituaries still on their way are waited for this long; the flush of the spans comes after it. */
const OBITUARY_GRACE_MS = 1_000;
/** After the forced abort, nodes get this long to let go before the process leaves without them. */
const ABORT_GRACE_MS = 2_000;

/**
 * Starts a worker.
 *
 * @throws WorkerError DATABASE_NOT_MIGRATED when the tables are missing; QUEUE_UNFIT when the queue would bury runs; AGENT_DUPLICATE
 */
export async function startWorker(options: WorkerOptions): Promise<Worker> {
  const { config, clock = systemClock } = options;
  const log = withTraceIds(options.log ?? createLogger(config.logLevel));
  const onPoolError = (text: string): void =>
    log.warn({ error: text }, "a PostgreSQL connection was lost; the next query opens another");
  const { pool, letGo } = holdPool(options.pool, {
    connectionString: config.databaseUrl,
    max: config.poolMax,
    applicationName: `${PRODUCT.name}-worker`,
    onError: onPoolError,
  });
  await requireTables(pool).catch(async (error: unknown) => {
    await letGo();
    throw error;
  });
  const newClient = options.sqs ?? ((): SQSClient => sqsClient(config));
  // Two clients: a client's sockets are shared, and long polls would make deletes wait (facts/queue, P27).
  const clients = { poll: newClient(), settle: newClient() };
  const fit = await checkAtStart(clients.settle, config, log).catch(async (error: unknown) => {
    clients.poll.destroy();
    clients.settle.destroy();
    await letGo();
    throw error;
  });
  const name = `${hostname()}:${process.pid}`;
  const drain = { asked: new AbortController(), forced: new AbortController(), pollEnded: new AbortController() };
  // Each delivery listens to both until it ends (signals.ts): as many listeners as slots are no leak.
  setMaxListeners(0, drain.asked.signal, drain.forced.signal);
  const leases = new LeaseWatch();
  const metrics = new WorkerMetrics({
    queue: queueName(config.queueUrl),
    gauges: {
      active: () => intake.active(),
      slots: config.concurrency,
      oldestLeaseMs: () => leases.oldestAgeMs(clock.now()),
    },
  });
  const ledger = options.ledger ?? new PostgresLedger(pool);
  const parts: WorkerParts = {
    config,
    pool,
    ledger,
    admissions: deliveryAdmissions(pool),
    ends: deliveryEnds(pool),
    settler: createSettler({
      client: clients.settle,
      queueUrl: config.queueUrl,
      onRefused: ({ receiptHandle, ...refused }) =>
        log.warn({ ...refused, receipt_handle: receiptHandle.slice(-24) }, "SQS refused one entry of a batch"),
    }),
    agents: agentsByName(options.agents),
    spanGate: createGate({ content: config.content }),
    burial: new Burial({
      pool,
      ledger,
      checkpointSchema: config.checkpointSchema,
      queue: queueName(config.queueUrl),
      wallNow: Date.now,
      log,
      exportObituary: countedExport(options.exportObituary, metrics),
    }),
    gate: new IntakeGate(),
    receipts: new Receipts(),
    queue: {
      url: config.queueUrl,
      name: queueName(config.queueUrl),
      maxReceives: fit.maxReceives,
    },
    worker: name,
    clock,
    beats: new BeatRounds(clock, config.visibilitySeconds * 1000),
    wallNow: Date.now,
    random: Math.random,
    log,
    metrics,
    leases,
    drain: { asked: drain.asked.signal, forced: drain.forced.signal, pollEnded: drain.pollEnded.signal },
    onThreadFree: (threadId) => housekeeping.threadFreed(threadId),
  };
  const intake = createIntake({
    client: clients.poll,
    queueUrl: config.queueUrl,
    gate: parts.gate,
    concurrency: config.concurrency,
    waitSeconds: config.waitSeconds,
    visibilitySeconds: config.visibilitySeconds,
    now: () => clock.now(),
    random: Math.random,
    onDelivery: (received) =>
      handleDelivery(parts, received).catch((error: unknown) =>
        log.error(
          { error: errorText(error) },
          "a delivery failed outside its own handling; its message returns by its visibility",
        ),
      ),
    onUnwanted: (message) =>
      parts.settler
        .setVisibility(message.ReceiptHandle ?? "", 0)
        .catch((error: unknown) =>
          log.warn(
            { sqs_message_id: message.MessageId, error: errorText(error) },
            "a message could not be given back unrun; it returns by its visibility",
          ),
        ),
    onPollError: (error, { failure, retryInMs }) => {
      metrics.pollFailed(failure);
      log.warn({ error: errorText(error), failure, retry_in_ms: Math.round(retryInMs) }, "a receive failed");
    },
    onCountMissing: () =>
      log.warn(
        {},
        "SQS sent no receive count (ApproximateReceiveCount); redeliveries cannot be told from first deliveries",
      ),
  });
  const health = await startHealth({ config, pool, clock, leases, poll: () => intake.poll() });
  const housekeeping = startHousekeeping(parts, clients.settle);
  intake.start();
  log.info({ worker: name, queue: parts.queue.name, agents: [...parts.agents.keys()] }, "worker started");

  let stopping: Promise<void> | undefined;
  const stop = async (): Promise<void> => {
    log.info({ active: intake.active() }, "stopping: no more receives, runs stop at their next checkpoint");
    housekeeping.stop();
    health.drain();
    drain.asked.abort();
    const pollEnded = intake.stop().finally(() => drain.pollEnded.abort());
    await Promise.all([pollEnded, drained(intake, drain.forced, config.drainSeconds * 1000)]);
    await Promise.race([
      Promise.all([parts.burial.settle(), housekeeping.settle()]),
      pause(OBITUARY_GRACE_MS, undefined),
    ]);
    await health.close();
    metrics.close();
    clients.poll.destroy();
    clients.settle.destroy();
    await letGo();
    log.info({}, "worker stopped");
  };
  return {
    name,
    active: () => intake.active(),
    stop: () => {
      if (stopping === undefined) stopping = stop();
      else drain.forced.abort();
      return stopping;
    },
  };
}

/** Nowhere to send obituaries to is no failure, and none that was sent. */
function countedExport(
  send: WorkerOptions["exportObituary"],
  metrics: WorkerMetrics,
): NonNullable<WorkerOptions["exportObituary"]> {
  if (send === undefined) return async () => {};
  return async (lost) => {
    try {
      await send(lost);
      metrics.buried(true);
    } catch (error) {
      metrics.buried(false);
      throw error;
    }
  };
}

/** Waits for the runs, then aborts and hands back what is left. */
async function drained(intake: { idle(): Promise<void> }, forced: AbortController, budgetMs: number): Promise<void> {
  const finished = new AbortController();
  const idle = intake.idle().finally(() => finished.abort());
  const over = firstOf([finished.signal, forced.signal]);
  await pause(budgetMs, over.signal);
  over.release();
  forced.abort();
  await Promise.race([idle, pause(ABORT_GRACE_MS, finished.signal)]);
}

export function sqsClient(config: Pick<Config, "awsRegion" | "sqsEndpoint">): SQSClient {
  return new SQSClient({
    region: config.awsRegion,
    ...(config.sqsEndpoint === undefined ? {} : { endpoint: config.sqsEndpoint }),
  });
}

export function queueName(queueUrl: string): string {
  return queueUrl.split("/").at(-1) ?? queueUrl;
}

async function requireTables(pool: pg.Pool): Promise<void> {
  const missing = await missingMigrations(pool);
  if (missing.length === 0) return;
  throw new WorkerError(
    "DATABASE_NOT_MIGRATED",
    `the database lacks ${missing.join(", ")}; run \`${PRODUCT.name} migrate\` once for each deploy`,
  );
}
