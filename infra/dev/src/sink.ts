// An OTLP/HTTP JSON receiver on loopback that shows traces to a person: POST /v1/traces; GET /, /traces and /stats.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type OtlpSpan, type OtlpTrace, parseFilter, readTraceRequest, renderTrace } from "@reprise/tracing";
import { DevStackError } from "./errors.ts";
import { readBody } from "./sink-body.ts";
import { openSinkFile, type SinkFile } from "./sink-file.ts";
import { createSinkStore, type SinkStore, type SinkStoreStats } from "./sink-store.ts";

export interface SinkOptions {
  /** Port on 127.0.0.1. Default: a free one. */
  readonly port?: number;
  /** JSON-lines file that every span is appended to, one `OtlpSpan` a line. Default: none. */
  readonly file?: string;
  /** Spans kept in memory. Default 50,000. */
  readonly spansMax?: number;
  /** Their size as JSON. Default 64 MiB. */
  readonly bytesMax?: number;
}

export interface SinkStats extends SinkStoreStats {
  readonly requests: number;
  /** Requests answered with a 4xx. */
  readonly requestsRefused: number;
  /** Spans without valid ids, name or times. */
  readonly spansRejected: number;
  /** Lines that the file could not take. */
  readonly linesLost: number;
}

export interface Sink {
  /** `http://127.0.0.1:<port>`, fit for OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly endpoint: string;
  spans(): readonly OtlpSpan[];
  /**
   * Traces of which any span matches, oldest first.
   * @param where a filter such as `receive_count>1`; beside attributes it sees name, status, duration_ms, trace_id, span_id.
   * @throws DevStackError SINK_FILTER_INVALID.
   */
  traces(where?: string): readonly OtlpTrace[];
  stats(): SinkStats;
  /** Closes the port and every connection. Safe to call twice. */
  stop(): Promise<void>;
}

const HOST = "127.0.0.1";
const SPANS_MAX = 50_000;
const BYTES_MAX = 64 * 1_048_576;
const BODY_BYTES_MAX = 16 * 1_048_576;
const CONNECTIONS_MAX = 64;
const REQUEST_WAIT_MS = 30_000;
/** Newest traces on the page for people; /traces gives all. */
const TREES_SHOWN_MAX = 100;

interface Parts {
  readonly store: SinkStore;
  readonly file: SinkFile | undefined;
  readonly bodyBytesMax: number;
  readonly count: { requests: number; requestsRefused: number; spansRejected: number };
}

interface Answer {
  readonly status: number;
  readonly type: "application/json" | "text/plain" | "text/html";
  readonly text: string;
}

/** @throws DevStackError SINK_LISTEN_FAILED, for example when the port is taken. */
export async function startSink(options: SinkOptions = {}): Promise<Sink> {
  const bytesMax = options.bytesMax ?? BYTES_MAX;
  const parts: Parts = {
    store: createSinkStore({ spansMax: options.spansMax ?? SPANS_MAX, bytesMax }),
    file: options.file === undefined ? undefined : openSinkFile(options.file),
    bodyBytesMax: Math.min(BODY_BYTES_MAX, bytesMax),
    count: { requests: 0, requestsRefused: 0, spansRejected: 0 },
  };
  const server = createServer((request, response) => {
    void handle(parts, request, response).catch((error: unknown) => {
      // The peer hung up in the middle, mostly; whoever is still there gets a word.
      if (!response.headersSent) send(response, { status: 500, type: "text/plain", text: String(error) });
      else response.destroy();
    });
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.requestTimeout = REQUEST_WAIT_MS;
  const port = await listen(server, options.port ?? 0);
  return {
    endpoint: `http://${HOST}:${port}`,
    spans: () => parts.store.traces().flatMap((trace) => trace.spans),
    traces: (where) => matching(parts.store, where),
    stats: () => stats(parts),
    stop: () => close(server),
  };
}

async function handle(parts: Parts, request: IncomingMessage, response: ServerResponse): Promise<void> {
  parts.count.requests += 1;
  const answer = isLocalHost(request.headers.host) ? await route(parts, request) : foreignHost();
  if (answer.status >= 400) parts.count.requestsRefused += 1;
  // An unread body would be taken for the next request of the connection.
  if (!request.complete) response.setHeader("connection", "close");
  send(response, answer);
}

async function route(parts: Parts, request: IncomingMessage): Promise<Answer> {
  const url = new URL(request.url ?? "/", `http://${HOST}`);
  if (url.pathname === "/v1/traces") {
    return request.method === "POST"
      ? receive(parts, request)
      : plain(405, "POST traces here; read them at /traces or /.");
  }
  if (request.method !== "GET" && request.method !== "HEAD")
    return plain(405, "Only GET here; POST traces to /v1/traces.");
  const where = url.searchParams.get("where") ?? undefined;
  switch (url.pathname) {
    case "/":
      return show(parts.store, where, request.headers.accept ?? "");
    case "/traces":
      return filtered(parts.store, where, (traces) => json(200, traces));
    case "/stats":
      return json(200, stats(parts));
    default:
      return plain(
        404,
        "Here are POST /v1/traces, GET /, GET /traces?where=receive_count>1 and GET /stats. Metrics and logs are not kept.",
      );
  }
}

/** Answers as OTLP asks: 200 also when single spans were rejected, with their number in partialSuccess. */
async function receive(parts: Parts, request: IncomingMessage): Promise<Answer> {
  const read = await readBody(request, parts.bodyBytesMax);
  if (!read.ok) return plain(read.status, read.message);
  const found = readTraceRequest(read.body);
  if (!found.ok) return plain(400, `Not an OTLP trace request: ${found.message}.`);
  const lines = found.spans.map((span) => JSON.stringify(span));
  found.spans.forEach((span, index) => {
    parts.store.add(span, Buffer.byteLength(lines[index] ?? ""));
  });
  parts.file?.append(lines);
  parts.count.spansRejected += found.rejected;
  const errorMessage = `first unreadable field: ${found.unreadable ?? "none"}`;
  return json(200, {
    partialSuccess: found.rejected === 0 ? {} : { rejectedSpans: String(found.rejected), errorMessage },
  });
}

function show(store: SinkStore, where: string | undefined, accept: string): Answer {
  return filtered(store, where, (traces) => {
    const shown = traces.slice(-TREES_SHOWN_MAX);
    const head = `${traces.length} traces${where === undefined ? "" : ` where ${where}`}${shown.length < traces.length ? `, the newest ${shown.length}` : ""}`;
    const text = `${[head, ...shown.map((trace) => renderTrace(trace))].join("\n\n")}\n`;
    if (!accept.includes("text/html")) return { status: 200, type: "text/plain", text };
    const body = `<!doctype html><meta charset="utf-8"><title>Traces</title><form><input name="where" size="60" placeholder="receive_count&gt;1" value="${escapeHtml(where ?? "")}"></form><pre>${escapeHtml(text)}</pre>\n`;
    return { status: 200, type: "text/html", text: body };
  });
}

function filtered(store: SinkStore, where: string | undefined, then: (traces: readonly OtlpTrace[]) => Answer): Answer {
  try {
    return then(matching(store, where));
  } catch (error) {
    if (error instanceof DevStackError) return json(400, { code: error.code, message: error.message });
    throw error;
  }
}

function matching(store: SinkStore, where: string | undefined): readonly OtlpTrace[] {
  const traces = store.traces();
  if (where === undefined || where.trim() === "") return traces;
  const filter = parseFilter(where);
  if (!filter.ok) throw new DevStackError("SINK_FILTER_INVALID", filter.message);
  return traces.filter((trace) => trace.spans.some((span) => filter.matches(filterFields(span))));
}

/** What a filter sees: the span's attributes, its resource's, and its own fields, which no attribute can hide. */
function filterFields(span: OtlpSpan): Readonly<Record<string, unknown>> {
  const own = { name: span.name, status: span.status.code.toLowerCase(), duration_ms: span.durationMs };
  return { ...span.resource, ...span.attributes, ...own, trace_id: span.traceId, span_id: span.spanId };
}

function stats({ store, file, count }: Parts): SinkStats {
  return { ...store.stats(), ...count, linesLost: file?.linesLost() ?? 0 };
}

/** A page of another site can point its own name at 127.0.0.1 and read what we serve; its Host header gives it away. */
function isLocalHost(host: string | undefined): boolean {
  return /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.test(host ?? "");
}

function foreignHost(): Answer {
  return plain(403, `Ask for this sink as http://${HOST} or http://localhost.`);
}

function plain(status: number, text: string): Answer {
  return { status, type: "text/plain", text: `${text}\n` };
}

function json(status: number, value: unknown): Answer {
  return { status, type: "application/json", text: JSON.stringify(value) };
}

function send(response: ServerResponse, { status, type, text }: Answer): void {
  const charset = type === "application/json" ? "" : "; charset=utf-8";
  response.writeHead(status, {
    "content-type": `${type}${charset}`,
    "content-length": Buffer.byteLength(text),
    "x-content-type-options": "nosniff",
    // The page is text: nothing in it may run or load anything.
    "content-security-policy": "default-src 'none'; form-action 'self'",
  });
  response.end(text);
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) => {
      const message = `The trace sink cannot listen on ${HOST}:${port} (${cause.message}). Choose another port, or none.`;
      reject(new DevStackError("SINK_LISTEN_FAILED", message, { cause }));
    });
    server.listen(port, HOST, () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    // The error of a second close is that it is closed.
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
