// Preflight, the looking: one look each at queue, dead-letter queue, database and collector, all at once, none for long.
import { GetQueueAttributesCommand, GetQueueUrlCommand, type SQSClient } from "@aws-sdk/client-sqs";
import type pg from "pg";
import { z } from "zod";
import type { CheckedConfig, CheckFacts, Probe } from "./check.ts";
import type { DatabaseFacts } from "./check-database.ts";
import { askOtlp, type OtlpTarget } from "./check-otlp.ts";
import type { ProcessFacts } from "./check-process.ts";
import { deadLetterOf, type QueueAttributes, type QueueFacts } from "./check-queue.ts";
import { errorName, errorText } from "./errors.ts";
import { missingMigrations } from "./migrate.ts";

export interface CheckParts {
  readonly config: CheckedConfig;
  readonly client: SQSClient;
  readonly pool: pg.Pool;
  readonly otlp: OtlpTarget;
  /** Of one look. Default 5 s. */
  readonly timeoutMs?: number;
  readonly now?: () => number;
}

const TIMEOUT_MS = 5_000;

/** Never rejects: what could not be looked at says so in its place. */
export async function collectFacts(parts: CheckParts): Promise<CheckFacts> {
  const limitMs = parts.timeoutMs ?? TIMEOUT_MS;
  const now = parts.now ?? Date.now;
  const clock = dateOf(parts.client, now);
  const [queue, database, tracing] = await Promise.all([
    within(limitMs, (signal) => lookAtQueue(parts.client, parts.config.queueUrl, { limitMs, signal })),
    within(limitMs, () => lookAtDatabase(parts.pool, parts.config, now)),
    lookAtTracing(parts.otlp, limitMs),
  ]);
  return { config: parts.config, queue, database, process: { tracing, queueSkewMs: clock() } };
}

/** One look with an end, whatever hangs: a socket, a name server, a lock. */
export async function within<T>(limitMs: number, look: (signal: AbortSignal) => Promise<T>): Promise<Probe<T>> {
  const cut = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new DOMException(`no answer within ${limitMs / 1000} s`, "TimeoutError"));
      cut.abort();
    }, limitMs);
  });
  try {
    return { state: "read", value: await Promise.race([look(cut.signal), late]) };
  } catch (error) {
    return { state: "unread", name: nameOf(error), error: reasonOf(error) };
  } finally {
    clearTimeout(timer);
  }
}

/** AWS errors have their code as their name. */
function nameOf(error: unknown): string {
  return error instanceof Error && error.name !== "Error" ? error.name : errorName(error);
}

/** fetch says only that it failed, and a refused connection to several addresses says nothing: the cause says why. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  return errorText(cause) || errorName(cause);
}

/** All attributes of the queue: one request, which the worker makes at its start as well. */
export async function queueAttributes(
  client: SQSClient,
  queueUrl: string,
  signal: AbortSignal,
): Promise<QueueAttributes> {
  const command = new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["All"] });
  const { Attributes } = await client.send(command, { abortSignal: signal });
  return Attributes ?? {};
}

async function lookAtQueue(
  client: SQSClient,
  queueUrl: string,
  { limitMs, signal }: { readonly limitMs: number; readonly signal: AbortSignal },
): Promise<QueueFacts> {
  const attributes = await queueAttributes(client, queueUrl, signal);
  const name = deadLetterOf(attributes);
  if (name === undefined) return { attributes };
  const deadLetter = await within(limitMs / 2, async (cut) => {
    const { QueueUrl } = await client.send(new GetQueueUrlCommand({ QueueName: name }), { abortSignal: cut });
    return queueAttributes(client, QueueUrl ?? "", cut);
  });
  return { attributes, deadLetter };
}

/** The SDK keeps the response's headers to itself, so its Date is read on the way. */
function dateOf(client: SQSClient, now: () => number): () => Probe<number> {
  let skew: Probe<number> = { state: "unread", name: "NoDate", error: "SQS did not answer" };
  client.middlewareStack.add(
    (next) => async (args) => {
      const sentAt = now();
      const result = await next(args);
      const date = dateHeader(result.response);
      // Whole seconds, cut off: half a second later is the middle of what it can mean.
      if (date !== undefined) skew = { state: "read", value: date + 500 - (sentAt + now()) / 2 };
      return result;
    },
    { step: "deserialize", name: "preflightDate", override: true },
  );
  return () => skew;
}

const responseSchema = z.object({ headers: z.record(z.string(), z.string()) });

function dateHeader(response: unknown): number | undefined {
  const read = responseSchema.safeParse(response);
  const ms = Date.parse((read.success ? read.data.headers["date"] : undefined) ?? "");
  return Number.isNaN(ms) ? undefined : ms;
}

const factsSchema = z.object({
  version: z.number(),
  read_only: z.boolean(),
  max: z.number(),
  reserved: z.number(),
  used: z.number(),
  has_checkpoints: z.boolean(),
});

async function lookAtDatabase(pool: pg.Pool, config: CheckedConfig, now: () => number): Promise<DatabaseFacts> {
  const { rows } = await pool.query(
    `select current_setting('server_version_num')::int as version, pg_is_in_recovery() as read_only,
       current_setting('max_connections')::int as max, current_setting('superuser_reserved_connections')::int as reserved,
       (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as used,
       to_regclass($1) is not null as has_checkpoints`,
    [`${quoted(config.checkpointSchema)}.checkpoints`],
  );
  const row = factsSchema.parse(rows[0]);
  // The connection is open now, so this is one round trip.
  const sentAt = now();
  const clock = await pool.query<{ ms: number }>("select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms");
  const skewMs = (clock.rows[0]?.ms ?? Number.NaN) - (sentAt + now()) / 2;
  return {
    version: row.version,
    readOnly: row.read_only,
    missingMigrations: await missingMigrations(pool),
    hasCheckpoints: row.has_checkpoints,
    connectionsMax: row.max,
    connectionsReserved: row.reserved,
    connectionsUsed: row.used,
    skewMs,
  };
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

async function lookAtTracing(target: OtlpTarget, limitMs: number): Promise<ProcessFacts["tracing"]> {
  if (target.state === "off") return target;
  const answer = await within(limitMs, (signal) => askOtlp(target, signal));
  return { state: "asked", url: target.url, configured: target.configured, answer };
}
