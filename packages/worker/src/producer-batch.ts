// Sends many runs: ten to a call, each with its own result, and only what failed in passing is sent again.
import {
  type BatchResultErrorEntry,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from "@aws-sdk/client-sqs";
import { injectTrace } from "@reprise/tracing";
import pLimit from "p-limit";
import { errorText, WorkerError } from "./errors.ts";
import { pause } from "./intake-pause.ts";
import { backoffMs } from "./lease-time.ts";
import { notTaken, type Sent } from "./producer.ts";
import { fifoFields, isFifo } from "./producer-fifo.ts";
import { ATTRIBUTES_BYTES, MESSAGE_BYTES_MAX, type Outgoing, type RunToSend, runMessage } from "./producer-message.ts";

/** What became of one run. A failed one may be sent again under its `runId`, whatever happened to it. */
export type RunSendResult =
  | ({ readonly state: "sent" } & Sent)
  | { readonly state: "failed"; readonly runId: string | undefined; readonly error: WorkerError };

export interface SendRunsOptions {
  /** Calls under way at the same time. Default 4, at most 50 (an SDK client's sockets). */
  readonly concurrency?: number;
  /** When it fires, what was not sent yet fails; nothing is thrown. */
  readonly signal?: AbortSignal;
  /** For tests. */
  readonly time?: { random(): number; pause(ms: number, signal: AbortSignal | undefined): Promise<void> };
}

/** SQS takes this many entries a call, and together no more bytes than one message may have (SQS quotas). */
const ENTRIES_MAX = 10;
const CONCURRENCY = 4;
const CONCURRENCY_MAX = 50;
/** Tries of one entry. The SDK repeats calls that failed as a whole by itself; these are for entries that a call refused. */
const TRIES_MAX = 4;
const RETRY = { baseMs: 100, maxMs: 5_000 } as const;

/**
 * Sends runs in batches. Never rejects for one of them: each has its result, in the order given.
 *
 * On a FIFO queue the runs of one thread are sent one after the other, in the order given; when one of them cannot be sent,
 * those behind it fail unsent, so that none overtakes it.
 */
export async function sendRuns(
  client: SQSClient,
  queueUrl: string,
  runs: readonly RunToSend[],
  options: SendRunsOptions = {},
): Promise<readonly RunSendResult[]> {
  const fifo = isFifo(queueUrl);
  const { entries, results, stopped } = prepare(runs, fifo);
  const limit = pLimit(Math.min(CONCURRENCY_MAX, Math.max(1, Math.floor(options.concurrency ?? CONCURRENCY))));
  for (const wave of fifo ? wavesByThread(entries) : [entries]) {
    const due = wave.filter(({ index, message }) => {
      if (!stopped.has(message.threadId)) return true;
      results[index] = failed(message.runId, new WorkerError("SEND_FAILED", BEHIND_FAILED));
      return false;
    });
    await Promise.all(
      packed(due).map((batch) => limit(() => sendBatch({ client, queueUrl, options, results }, batch))),
    );
    if (!fifo) continue;
    for (const { index, message } of due) if (results[index]?.state === "failed") stopped.add(message.threadId);
  }
  return results.map((result, index) => {
    if (result === undefined) throw new TypeError(`run ${index} of ${runs.length} was neither sent nor refused`);
    return result;
  });
}

const BEHIND_FAILED = "not sent: a run before it on its thread was not, and FIFO order would be lost; send both again";

interface Entry {
  readonly index: number;
  readonly message: Outgoing;
}

interface Prepared {
  readonly entries: readonly Entry[];
  /** Filled in as runs are settled: here with those that cannot be sent at all. */
  readonly results: (RunSendResult | undefined)[];
  /** FIFO threads of which nothing more is sent. */
  readonly stopped: Set<string>;
}

function prepare(runs: readonly RunToSend[], fifo: boolean): Prepared {
  const results: (RunSendResult | undefined)[] = runs.map(() => undefined);
  const behind = new Set<string>();
  const entries = runs.flatMap((run, index): readonly Entry[] => {
    try {
      if (behind.has(run.threadId)) throw new WorkerError("SEND_FAILED", BEHIND_FAILED);
      return [{ index, message: runMessage(run) }];
    } catch (error) {
      if (!(error instanceof WorkerError)) throw error;
      results[index] = failed(run.runId, error);
      // Only what comes after it is held up: what stands before it in the list keeps its place.
      if (fifo) behind.add(run.threadId);
      return [];
    }
  });
  return { entries, results, stopped: new Set() };
}

/** The first runs of all threads, then the second ones, and so on. */
export function wavesByThread(entries: readonly Entry[]): readonly (readonly Entry[])[] {
  const seen = new Map<string, number>();
  const waves: Entry[][] = [];
  for (const entry of entries) {
    const nth = seen.get(entry.message.threadId) ?? 0;
    seen.set(entry.message.threadId, nth + 1);
    const wave = waves[nth] ?? [];
    waves[nth] = wave;
    wave.push(entry);
  }
  return waves;
}

/** In order, as many to a call as SQS takes by number and by bytes. */
export function packed(entries: readonly Entry[]): readonly (readonly Entry[])[] {
  const batches: Entry[][] = [];
  let room = 0;
  for (const entry of entries) {
    const bytes = Buffer.byteLength(entry.message.body) + ATTRIBUTES_BYTES;
    const last = batches.at(-1);
    if (last === undefined || last.length === ENTRIES_MAX || bytes > room) {
      batches.push([entry]);
      room = MESSAGE_BYTES_MAX - bytes;
    } else {
      last.push(entry);
      room -= bytes;
    }
  }
  return batches;
}

interface Sending {
  readonly client: SQSClient;
  readonly queueUrl: string;
  readonly options: SendRunsOptions;
  /** Filled in as entries are settled. */
  readonly results: (RunSendResult | undefined)[];
}

async function sendBatch(sending: Sending, batch: readonly Entry[]): Promise<void> {
  const { options, results } = sending;
  const time = options.time ?? { random: Math.random, pause };
  let left = batch;
  for (let tries = 1; left.length > 0; tries += 1) {
    if (options.signal?.aborted === true) return failAll(results, left, options.signal.reason);
    let refused: ReadonlyMap<number, Refused>;
    try {
      refused = await sendOnce(sending, left);
    } catch (error) {
      return failAll(results, left, error);
    }
    left = left.filter(({ index, message }) => {
      const why = refused.get(index);
      if (why === undefined) return false;
      if (why.passing && tries < TRIES_MAX) return true;
      results[index] = failed(message.runId, notTaken(message.runId, why.text, undefined));
      return false;
    });
    if (left.length > 0) await time.pause(backoffMs(tries, time.random(), RETRY), options.signal);
  }
}

interface Refused {
  readonly text: string;
  /** Not the sender's fault: the same entry may be taken next time. */
  readonly passing: boolean;
}

/** @returns what was not confirmed, by the run's index */
async function sendOnce(
  { client, queueUrl, results }: Sending,
  batch: readonly Entry[],
): Promise<Map<number, Refused>> {
  const Entries = batch.map((entry) => entryOf(queueUrl, entry));
  const answer = await client.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
  const taken = new Map(answer.Successful?.map((entry) => [entry.Id, entry.MessageId]));
  const failures = new Map(answer.Failed?.map((failure) => [failure.Id, failure]));
  const refused = new Map<number, Refused>();
  for (const { index, message } of batch) {
    const id = String(index);
    if (taken.has(id)) {
      results[index] = { state: "sent", runId: message.runId, sqsMessageId: taken.get(id) ?? "" };
    } else {
      refused.set(index, refusedBy(failures.get(id)));
    }
  }
  return refused;
}

function entryOf(queueUrl: string, { index, message }: Entry): SendMessageBatchRequestEntry {
  return {
    Id: String(index),
    MessageBody: message.body,
    MessageAttributes: injectTrace(),
    ...fifoFields(queueUrl, message),
  };
}

/** An entry that the answer does not mention may or may not be in the queue. Sent twice it is one run. */
function refusedBy(failure: BatchResultErrorEntry | undefined): Refused {
  if (failure === undefined) return { text: "its answer does not mention the entry", passing: true };
  return { text: `${failure.Code}: ${failure.Message ?? ""}`, passing: failure.SenderFault !== true };
}

function failAll(results: (RunSendResult | undefined)[], entries: readonly Entry[], cause: unknown): void {
  for (const { index, message } of entries)
    results[index] = failed(message.runId, notTaken(message.runId, errorText(cause), cause));
}

function failed(runId: string | undefined, error: WorkerError): RunSendResult {
  return { state: "failed", runId, error };
}
