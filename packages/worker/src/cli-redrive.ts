// `reprise redrive`: parked messages back to their queues, each once, by name or by filter.
import { SendMessageCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { PRODUCT } from "@reprise/tracing";
import type pg from "pg";
import { operatorName } from "./cli-by.ts";
import { withDatabase } from "./cli-database.ts";
import { filterOption, invalid, wholeOption } from "./cli-options.ts";
import { LOOKED_AT_MAX, matchesParked, unknownParked } from "./cli-parked.ts";
import { jsonLines } from "./cli-print.ts";
import { readOne } from "./config.ts";
import { errorText, WorkerError } from "./errors.ts";
import { attributesOf } from "./message-attributes.ts";
import { fifoFields } from "./producer-fifo.ts";
import {
  abandonRedrive,
  beginRedrive,
  decideRedrive,
  endRedrive,
  kindOf,
  listParked,
  type ParkedMessage,
  readParked,
} from "./run-redrive.ts";
import { sqsClient } from "./worker.ts";

const LIMIT_MAX = 10_000;

export interface RedriveOptions {
  readonly where?: string;
  readonly limit: string;
  readonly by?: string;
  readonly dryRun?: true;
  readonly json?: true;
}

export interface Redriven {
  readonly id: string;
  readonly parked_id: string;
  readonly run_id: string | null;
  readonly state: "sent" | "would_send" | "already" | "refused";
  readonly reason: string;
}

/**
 * @throws WorkerError PARKED_UNKNOWN before anything is sent; REDRIVE_REFUSED after all, when one that was named could not be
 * sent; SEND_FAILED when SQS did not take one
 */
export async function redrive(ids: readonly string[], options: RedriveOptions): Promise<void> {
  if ((ids.length === 0) === (options.where === undefined)) throw invalid("name what to redrive: ids, or --where");
  const limit = wholeOption("--limit", options.limit, { min: 1, max: LIMIT_MAX });
  const filter = filterOption(options.where);
  const client = sqsClient({ awsRegion: readOne("awsRegion"), sqsEndpoint: readOne("sqsEndpoint") });
  try {
    await withDatabase("redrive", async (pool) => {
      const chosen =
        filter === undefined
          ? ids
          : (await listParked(pool, LOOKED_AT_MAX))
              .filter((row) => matchesParked(row, filter))
              .slice(0, limit)
              .map((row) => row.parked_id);
      const messages = await Promise.all(chosen.map((id) => parkedOf(pool, id)));
      const done: Redriven[] = [];
      for (const { id, message } of messages) {
        const one = { id, ...(await redriveOne({ pool, client }, message, options)) };
        done.push(one);
        process.stdout.write(options.json === true ? jsonLines([one]) : `${sentence(one)}\n`);
      }
      conclude(done, { named: filter === undefined });
    });
  } finally {
    client.destroy();
  }
}

async function parkedOf(pool: pg.Pool, id: string): Promise<{ readonly id: string; readonly message: ParkedMessage }> {
  const message = await readParked(pool, id);
  if (message === undefined) throw unknownParked(id);
  return { id, message };
}

async function redriveOne(
  { pool, client }: { readonly pool: pg.Pool; readonly client: SQSClient },
  message: ParkedMessage,
  options: RedriveOptions,
): Promise<Omit<Redriven, "id">> {
  const { parked_id, run_id } = message;
  const told = (state: Redriven["state"], reason: string): Omit<Redriven, "id"> => ({
    parked_id,
    run_id,
    state,
    reason,
  });
  const decision = decideRedrive(message, kindOf(message.body));
  if (decision.state === "already") return told("already", decision.reason);
  if (decision.state === "refuse") return told("refused", decision.reason);
  if (options.dryRun === true) return told("would_send", `to ${message.queue_url}`);
  const by = options.by ?? operatorName();
  if (!(await beginRedrive(pool, { parkedId: parked_id, by, reopen: decision.reopen }))) {
    return told("already", "another redrive of it is under way or done");
  }
  const sqsMessageId = await sendAgain(client, message).catch(async (error: unknown) => {
    await abandonRedrive(pool, parked_id);
    const text = `SQS did not take parked message ${parked_id}: ${errorText(error)}; it is still parked, redrive it again`;
    throw new WorkerError("SEND_FAILED", text, { cause: error });
  });
  await endRedrive(pool, parked_id, sqsMessageId);
  return told("sent", `as ${sqsMessageId} to ${message.queue_url}`);
}

/** The bytes as they came. Attributes of text go along, a traceparent among them, so the new delivery links to the first request. */
async function sendAgain(client: SQSClient, message: ParkedMessage): Promise<string> {
  const sent = await client.send(
    new SendMessageCommand({
      QueueUrl: message.queue_url,
      MessageBody: message.body.toString("utf8"),
      MessageAttributes: attributesOf(message.message_attributes),
      ...fifoFields(message.queue_url, {
        threadId: message.thread_id ?? `parked-${message.parked_id}`,
        // The same redrive, taken over after a kill, is one message within SQS's five minutes.
        deduplicationId: `redrive-${message.parked_id}-${message.parked_at.getTime()}`,
      }),
    }),
  );
  return sent.MessageId ?? "";
}

function sentence({ id, parked_id, run_id, state, reason }: Redriven): string {
  const what =
    id === parked_id
      ? `parked message ${parked_id}${run_id === null ? "" : ` of run ${run_id}`}`
      : `run ${id} (parked message ${parked_id})`;
  switch (state) {
    case "sent":
      return `${what} was sent ${reason}`;
    case "would_send":
      return `${what} would be sent ${reason}`;
    case "already":
      return `${what} was not sent: ${reason}`;
    case "refused":
      return `${what} was not sent: ${reason}`;
    default:
      return state satisfies never;
  }
}

/** A filter chooses what can be redriven; a name that cannot be is an error of whoever named it. Sent already is none. */
function conclude(done: readonly Redriven[], { named }: { readonly named: boolean }): void {
  if (done.length === 0) process.stderr.write(`${PRODUCT.name}: nothing parked matches\n`);
  const refused = done.filter((one) => one.state === "refused");
  if (!named || refused.length === 0) return;
  const list = refused.map((one) => `${one.id} (${one.reason})`).join("; ");
  throw new WorkerError("REDRIVE_REFUSED", `${refused.length} of ${done.length} could not be redriven: ${list}`);
}
