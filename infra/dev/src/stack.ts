// Composes the development stack: each of PostgreSQL, SQS and the trace sink is the outside one when named, else embedded.

import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { PRODUCT } from "@reprise/tracing";
import { type DevEnvironment, readEnvironment } from "./env.ts";
import { DevStackError } from "./errors.ts";
import { type Postgres, startPostgres } from "./postgres.ts";
import { temporaryFolders } from "./postgres-binaries.ts";
import { type Sink, startSink } from "./sink.ts";
import { SqsEndpointError } from "./sqs-errors.ts";
import { type SqsServer, startSqs } from "./sqs-server.ts";
import { createQueues, type Queues, type QueueTarget } from "./stack-queues.ts";

export interface StackOptions {
  /** What is used instead of an embedded part. Default: read from the process's environment; `{}` embeds everything. */
  readonly environment?: DevEnvironment;
  /** Folder that keeps databases, queues and spans over a restart. Default: none, everything is forgotten at stop. */
  readonly dataDir?: string;
  /** Tried first; a taken one is replaced by a free one. Default: any free ports. */
  readonly preferredPorts?: { readonly postgres: number; readonly sqs: number; readonly sink: number };
  /** Default `reprise-runs`; a name that ends in `.fifo` makes FIFO queues. */
  readonly queueName?: string;
  /** Default 30. */
  readonly visibilitySeconds?: number;
  /** Default 50: hand-backs and deferrals burn receives too, and the run's own fault counters decide much earlier. */
  readonly maxReceiveCount?: number;
}

export interface Stack {
  readonly databaseUrl: string;
  readonly queueUrl: string;
  /** Absent when QUEUE_URL named the queue: its redrive policy is not ours. */
  readonly deadLetterQueueUrl?: string;
  /** Absent when QUEUE_URL names a queue of AWS itself. */
  readonly sqsEndpoint?: string;
  readonly otlpEndpoint: string;
  /** The embedded parts, where there are any. */
  readonly sink?: Sink;
  readonly sqs?: SqsServer;
  readonly postgres?: Postgres;
  /** What a worker needs in its environment to use this stack. */
  readonly environment: Readonly<Record<string, string>>;
  /** Stops the embedded parts, last started first; also those after one that failed to stop. Safe to call twice. */
  stop(): Promise<void>;
}

const REGION = "us-east-1";
/** Any will do: the embedded endpoint checks none, but the SDK refuses to send without. */
const DUMMY_CREDENTIALS = { accessKeyId: `${PRODUCT.name}-dev`, secretAccessKey: `${PRODUCT.name}-dev` } as const;

interface QueuePart extends Partial<Queues> {
  readonly queueUrl: string;
  readonly sqsEndpoint?: string;
  readonly sqs?: SqsServer;
  readonly credentials?: QueueTarget["credentials"];
}

/** @throws DevStackError of the part that failed; the parts already started are stopped first. */
export async function startStack(options: StackOptions = {}): Promise<Stack> {
  checkOptions(options);
  const from = options.environment ?? readEnvironment();
  const stops: (() => Promise<void>)[] = [];
  const own = <Part extends { stop(): Promise<void> }>(part: Part): Part => {
    stops.unshift(() => part.stop());
    return part;
  };
  try {
    if (options.dataDir !== undefined) mkdirSync(options.dataDir, { recursive: true });
    const postgres = from.databaseUrl === undefined ? own(await embedPostgres(options)) : undefined;
    const queue = await startQueue(from, options, own);
    const sink = from.otlpEndpoint === undefined ? own(await embedSink(options)) : undefined;
    const databaseUrl = from.databaseUrl ?? postgres?.url ?? "";
    const otlpEndpoint = from.otlpEndpoint ?? sink?.endpoint ?? "";
    const { credentials, ...urls } = queue;
    return {
      ...urls,
      databaseUrl,
      otlpEndpoint,
      ...(postgres === undefined ? {} : { postgres }),
      ...(sink === undefined ? {} : { sink }),
      environment: workerEnvironment({ databaseUrl, otlpEndpoint, queue, region: from.region }),
      stop: () => stopAll(stops),
    };
  } catch (error) {
    // The first error is the one to tell; a part that also fails to stop would only hide it.
    await stopAll(stops).catch(() => undefined);
    throw error;
  }
}

function checkOptions({ visibilitySeconds = 30, maxReceiveCount = 50 }: StackOptions): void {
  const whole = (value: number, [min, max]: readonly [number, number], name: string): void => {
    if (Number.isInteger(value) && value >= min && value <= max) return;
    throw new DevStackError(
      "STACK_OPTION_INVALID",
      `${name} is ${value}; SQS takes whole numbers from ${min} to ${max}.`,
    );
  };
  whole(visibilitySeconds, [0, 43_200], "visibilitySeconds");
  whole(maxReceiveCount, [1, 1_000], "maxReceiveCount");
}

/**
 * Run as root in a private folder, the borrowed account cannot reach the data folder: then the data goes below the
 * temporary folder, under a name made from the wanted one, so that a restart finds it again.
 */
async function embedPostgres({ dataDir, preferredPorts }: StackOptions): Promise<Postgres> {
  const start = (folder: string | undefined): Promise<Postgres> =>
    atPreferredPort(preferredPorts?.postgres, (port) =>
      startPostgres({ ...port, ...(folder === undefined ? {} : { dataDir: folder }) }),
    );
  if (dataDir === undefined) return start(undefined);
  const wanted = resolve(dataDir, "postgres");
  const label = createHash("sha256").update(wanted).digest("hex").slice(0, 12);
  let unreachable: unknown;
  for (const folder of [
    wanted,
    ...temporaryFolders().map((temporary) => join(temporary, `${PRODUCT.name}-dev-${label}`)),
  ]) {
    try {
      return await start(folder);
    } catch (error) {
      if (!(error instanceof DevStackError) || error.code !== "POSTGRES_DATA_DIR_UNREACHABLE") throw error;
      unreachable ??= error;
    }
  }
  throw unreachable;
}

function embedSink({ dataDir, preferredPorts }: StackOptions): Promise<Sink> {
  const file = dataDir === undefined ? {} : { file: join(dataDir, "spans.jsonl") };
  return atPreferredPort(preferredPorts?.sink, (port) => startSink({ ...port, ...file }));
}

/** QUEUE_URL: that queue, nothing created. SQS_ENDPOINT alone: our queues there. Neither: our queues on our endpoint. */
async function startQueue(
  from: DevEnvironment,
  options: StackOptions,
  own: (sqs: SqsServer) => SqsServer,
): Promise<QueuePart> {
  // Dummy keys would hide the caller's own; without any, an outside emulator still wants some.
  const outside = {
    ...(from.sqsEndpoint === undefined ? {} : { sqsEndpoint: from.sqsEndpoint }),
    ...(from.sqsEndpoint === undefined || from.hasAwsCredentials ? {} : { credentials: DUMMY_CREDENTIALS }),
  };
  if (from.queueUrl !== undefined) return { queueUrl: from.queueUrl, ...outside };
  if (from.sqsEndpoint !== undefined) {
    return {
      ...outside,
      ...(await createQueues(queueTarget(from.sqsEndpoint, from.region, outside.credentials), queueOptions(options))),
    };
  }
  const { dataDir, preferredPorts } = options;
  const journal = dataDir === undefined ? {} : { journalFile: join(dataDir, "sqs.jsonl") };
  const region = from.region ?? REGION;
  const sqs = own(await atPreferredPort(preferredPorts?.sqs, (port) => startSqs({ ...port, ...journal, region })));
  const queues = await createQueues(queueTarget(sqs.endpoint, region, DUMMY_CREDENTIALS), queueOptions(options));
  return { ...queues, sqs, sqsEndpoint: sqs.endpoint, credentials: DUMMY_CREDENTIALS };
}

function queueTarget(
  endpoint: string,
  region: string | undefined,
  credentials: QueueTarget["credentials"] | undefined,
): QueueTarget {
  return { endpoint, region: region ?? REGION, ...(credentials === undefined ? {} : { credentials }) };
}

function queueOptions({
  queueName,
  visibilitySeconds,
  maxReceiveCount,
}: StackOptions): Parameters<typeof createQueues>[1] {
  return {
    name: queueName ?? `${PRODUCT.name}-runs`,
    visibilitySeconds: visibilitySeconds ?? 30,
    maxReceiveCount: maxReceiveCount ?? 50,
  };
}

function workerEnvironment(parts: {
  readonly databaseUrl: string;
  readonly otlpEndpoint: string;
  readonly queue: QueuePart;
  readonly region: string | undefined;
}): Readonly<Record<string, string>> {
  const { sqsEndpoint, credentials, queueUrl } = parts.queue;
  return {
    DATABASE_URL: parts.databaseUrl,
    QUEUE_URL: queueUrl,
    // SQS_ENDPOINT is ours; the SDK itself reads the other one.
    ...(sqsEndpoint === undefined ? {} : { SQS_ENDPOINT: sqsEndpoint, AWS_ENDPOINT_URL_SQS: sqsEndpoint }),
    ...(sqsEndpoint === undefined && parts.region === undefined ? {} : { AWS_REGION: parts.region ?? REGION }),
    ...(credentials === undefined
      ? {}
      : { AWS_ACCESS_KEY_ID: credentials.accessKeyId, AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey }),
    OTEL_EXPORTER_OTLP_ENDPOINT: parts.otlpEndpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  };
}

/** A second stack on the machine, or a server of somebody else, has the preferred port: any other will do. */
async function atPreferredPort<Part>(
  preferred: number | undefined,
  start: (port: { readonly port?: number }) => Promise<Part>,
): Promise<Part> {
  if (preferred === undefined) return start({});
  try {
    return await start({ port: preferred });
  } catch (error) {
    if (!isPortTaken(error)) throw error;
    return start({});
  }
}

function isPortTaken(error: unknown): boolean {
  if (error instanceof SqsEndpointError) return error.code === "SQS_LISTEN_FAILED";
  return (
    error instanceof DevStackError && (error.code === "POSTGRES_PORT_IN_USE" || error.code === "SINK_LISTEN_FAILED")
  );
}

async function stopAll(stops: readonly (() => Promise<void>)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const stop of stops) await stop().catch((error: unknown) => failures.push(error));
  if (failures.length > 0)
    throw failures.length === 1 ? failures[0] : new AggregateError(failures, "parts of the stack did not stop");
}
