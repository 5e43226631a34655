// Where `reprise trace` reads spans: a file of JSON lines (twice, so that only the run's are kept), or a sink over HTTP.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { ATTR, type OtlpSpan, type OtlpTrace, PRODUCT, readSpans, traceOf } from "@reprise/tracing";
import { errorText, WorkerError } from "./errors.ts";

/** Spans kept of one run; the rest are not read. */
const SPANS_MAX = 200_000;
const ANSWER_WAIT_MS = 30_000;
/** Of a sink's answer. */
const ANSWER_BYTES_MAX = 256 * 1_048_576;

export interface ReadTraces {
  /** Every trace of which a span names the run, oldest first. */
  readonly traces: readonly OtlpTrace[];
  /** All spans looked at, whosever they are. */
  readonly spansRead: number;
}

/** @throws WorkerError TRACE_SOURCE */
export async function readTraces(from: string, runId: string): Promise<ReadTraces> {
  const { spans, spansRead } = /^https?:\/\//.test(from) ? await fromSink(from, runId) : await fromFile(from, runId);
  const byTrace = new Map<string, Map<string, OtlpSpan>>();
  for (const span of spans) {
    // The later of two with one id: an exporter sent the batch again, or a snapshot was followed by its span.
    const one = byTrace.get(span.traceId) ?? new Map<string, OtlpSpan>();
    byTrace.set(span.traceId, one.set(span.spanId, span));
  }
  const traces = [...byTrace.values()].map((one) => traceOf([...one.values()]));
  return {
    traces: traces.toSorted((a, b) => (BigInt(a.startTimeUnixNano) < BigInt(b.startTimeUnixNano) ? -1 : 1)),
    spansRead,
  };
}

interface Read {
  readonly spans: readonly OtlpSpan[];
  readonly spansRead: number;
}

async function fromFile(path: string, runId: string): Promise<Read> {
  const ids = new Set<string>();
  const count = await eachSpan(path, (span) => {
    if (span.attributes[ATTR.runId] === runId) ids.add(span.traceId);
  });
  if (ids.size === 0) return { spans: [], spansRead: count };
  const spans: OtlpSpan[] = [];
  await eachSpan(path, (span) => {
    if (ids.has(span.traceId) && spans.length < SPANS_MAX) spans.push(span);
  });
  return { spans, spansRead: count };
}

/** Lines that are no JSON, such as the torn last one of a file still being written, are passed over. @returns spans seen */
async function eachSpan(path: string, look: (span: OtlpSpan) => void): Promise<number> {
  let count = 0;
  try {
    const lines = createInterface({ input: createReadStream(path, "utf8"), crlfDelay: Number.POSITIVE_INFINITY });
    for await (const text of lines) {
      for (const span of readSpans(parsed(text))) {
        count += 1;
        look(span);
      }
    }
    return count;
  } catch (error) {
    throw unreadable(path, errorText(error), error);
  }
}

async function fromSink(endpoint: string, runId: string): Promise<Read> {
  const url = new URL("traces", endpoint.endsWith("/") ? endpoint : `${endpoint}/`);
  // Quoted, and without what would end the quotes: the answer is filtered again below.
  url.searchParams.set("where", `run_id="${runId.replaceAll(/["\\]/g, "")}"`);
  const text = await answerOf(url).catch((error: unknown) => {
    throw error instanceof WorkerError ? error : unreadable(endpoint, errorText(error), error);
  });
  const all = readSpans(parsed(text));
  const ids = new Set(all.filter((span) => span.attributes[ATTR.runId] === runId).map((span) => span.traceId));
  return { spans: all.filter((span) => ids.has(span.traceId)).slice(0, SPANS_MAX), spansRead: all.length };
}

async function answerOf(url: URL): Promise<string> {
  const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_WAIT_MS) });
  if (!response.ok) throw unreadable(url.href, `it answered ${response.status}`);
  if (Number(response.headers.get("content-length") ?? 0) > ANSWER_BYTES_MAX)
    throw unreadable(url.href, "its answer is too large");
  return response.text();
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function unreadable(from: string, why: string, cause?: unknown): WorkerError {
  const text = `${from} cannot be read (${why}). Give a file of OTLP/JSON lines, as a collector's file exporter writes, or the URL of \`${PRODUCT.name}\`'s development sink`;
  return new WorkerError("TRACE_SOURCE", text, cause === undefined ? undefined : { cause });
}
