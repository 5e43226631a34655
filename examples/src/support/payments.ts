// A small payment provider over HTTP on the loopback: it honours idempotency keys, keeps its own request log, and misbehaves on demand.
import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { SupportError } from "./errors.ts";
import { ChargeBook } from "./payments-book.ts";
import { type Charge, sha256Hex } from "./payments-charge.ts";
import type { PaymentsParts, RequestFacts } from "./payments-create.ts";
import { FaultDesk } from "./payments-faults.ts";
import { HeldReplies } from "./payments-held.ts";
import { RequestLog } from "./payments-log.ts";
import { deliverReply, errorReply } from "./payments-reply.ts";
import { routeRequest } from "./payments-routes.ts";

export type PaymentsOptions = {
  /** 0, the default, lets the kernel pick a free one. */
  readonly port?: number;
  /** Append the request log to this JSON lines file, flushed to disk line by line. Default: memory only. */
  readonly logFile?: string;
  /** Log entries kept in memory. Default 10,000. */
  readonly logEntriesMax?: number;
  /** Charges and keys kept before requests are refused. Default 100,000 of each. */
  readonly bookEntriesMax?: number;
  /** How long a key is remembered. Default 24 hours, as Stripe's v1 keys at least are. */
  readonly keyRetentionMs?: number;
  /** Milliseconds since 1970. Default the system clock. */
  readonly now?: () => number;
  /** Called in the provider's process once a charge is made and its answer on record, before the reply leaves. Must not throw. */
  readonly onCommitted?: (charge: Charge) => void;
};

export type Payments = {
  /** Origin without a trailing slash, for example `http://127.0.0.1:40123`. */
  readonly url: string;
  /** Ends held replies and open connections; resolves when the port is free. */
  readonly close: () => Promise<void>;
};

const HOST = "127.0.0.1";
const BODY_BYTES_MAX = 65_536;
const DAY_MS = 86_400_000;

/** Starts the provider in this process. Talk to it with payments-client.ts, here and when it runs as a process of its own. */
export async function startPayments(options: PaymentsOptions = {}): Promise<Payments> {
  const closing = new AbortController();
  const now = options.now ?? Date.now;
  const entriesMax = options.bookEntriesMax ?? 100_000;
  const parts: PaymentsParts = {
    book: new ChargeBook({ now, keyRetentionMs: options.keyRetentionMs ?? DAY_MS, entriesMax }),
    faults: new FaultDesk(),
    held: new HeldReplies(),
    log: new RequestLog({ entriesMax: options.logEntriesMax ?? 10_000, file: options.logFile ?? null }),
    now,
    closing: closing.signal,
    onCommitted: options.onCommitted ?? (() => undefined),
  };
  const server = createServer((request, response) => {
    void serve(request, response, parts).catch((cause: unknown) => fail(response, cause));
  });
  const port = await listen(server, options.port ?? 0);
  const close = async (): Promise<void> => {
    closing.abort();
    await closeServer(server);
    parts.log.close();
  };
  return { url: `http://${HOST}:${port}`, close };
}

async function serve(request: IncomingMessage, response: ServerResponse, parts: PaymentsParts): Promise<void> {
  const at = new Date(parts.now()).toISOString();
  const id = `req_${randomBytes(8).toString("hex")}`;
  response.setHeader("request-id", id);
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const body = await readBody(request);
  if (body === null) {
    response.setHeader("connection", "close");
    return await deliverReply(
      errorReply(413, "body_too_large", `at most ${BODY_BYTES_MAX} bytes`),
      response,
      parts.closing,
    );
  }
  const url = new URL(request.url ?? "/", `http://${HOST}`);
  const facts: RequestFacts = {
    id,
    at,
    method: request.method ?? "GET",
    path: url.pathname,
    idempotencyKey: headerOf(request, "idempotency-key"),
    bodySha256: body.length === 0 ? null : sha256Hex(body),
    traceparent: headerOf(request, "traceparent"),
  };
  const incoming = { facts, url, body: body.toString("utf8"), gone: gone.signal };
  await deliverReply(await routeRequest(incoming, parts), response, parts.closing);
}

/** The provider's own failure, a full disk under the log for instance: it answers and lives on. */
function fail(response: ServerResponse, cause: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const message = cause instanceof Error ? cause.message : String(cause);
  void deliverReply(errorReply(500, "provider_failed", message), response, AbortSignal.abort()).catch(() => undefined);
}

/** The raw body, or null when it is larger than the bound. */
async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of request) {
    // Node leaves the pieces untyped; without an encoding set they are Buffers.
    const buffer = piece as Buffer;
    bytes += buffer.length;
    if (bytes > BODY_BYTES_MAX) return null;
    pieces.push(buffer);
  }
  return Buffer.concat(pieces);
}

function headerOf(request: IncomingMessage, name: string): string | null {
  const value = request.headers[name];
  return typeof value === "string" ? value : null;
}

async function listen(server: Server, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => {
      const message = `the payment provider could not listen on ${HOST}:${port}; name a free port, or 0 to have one picked`;
      reject(new SupportError("PAYMENTS_START_FAILED", message, { cause }));
    });
    server.listen(port, HOST, resolve);
  });
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : port;
}

async function closeServer(server: Server): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
