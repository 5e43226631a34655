// The SQS endpoint on HTTP: AWS JSON 1.0 over loopback, plus /health, /_faults, /_requests and /_refusals for tests.

import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type SqsAnswer, SqsEndpoint } from "./sqs-endpoint.ts";
import { type SqsBound, SqsEndpointError, wireError } from "./sqs-errors.ts";
import type { SqsFaults } from "./sqs-faults.ts";
import type { SqsClock } from "./sqs-polls.ts";
import { answerControl, type ControlReply } from "./sqs-server-control.ts";

export interface SqsOptions {
  /** Default 0: any free port. */
  readonly port?: number;
  /** Default none: everything is forgotten at stop. With a file, queues and receive counts survive a killed process. */
  readonly journalFile?: string;
  /** Epoch milliseconds; default Date.now. Decides visibility, delays and windows; the length of a long poll stays real. */
  readonly now?: () => number;
  /** Default us-east-1. */
  readonly region?: string;
  /** Default 000000000000. */
  readonly account?: string;
}

export interface SqsServer {
  /** http://127.0.0.1:port */
  readonly endpoint: string;
  /** The queue's URL. Rejects when SQS would refuse the name or an attribute. */
  createQueue(name: string, attributes?: Readonly<Record<string, string>>): Promise<string>;
  readonly faults: SqsFaults;
  /** Calls since the start by operation name: all of them, or those of one queue. */
  requests(queue?: string): Readonly<Record<string, number>>;
  /** What the bounds (request bytes, polls, messages, queues, faults) refused since the start. */
  refusals(): Readonly<Partial<Record<SqsBound, number>>>;
  /** Ends waiting polls with an empty reply and closes all connections. A second call does nothing. */
  stop(): Promise<void>;
}

const HOST = "127.0.0.1";
/** A batch of 1 MiB can be several times that as JSON with base64 and escapes. */
const REQUEST_BYTES_MAX = 8 * 1_048_576;
const CONTENT_TYPE = "application/x-amz-json-1.0";

/** Rejects with SqsEndpointError `SQS_LISTEN_FAILED` or `SQS_JOURNAL_CORRUPT`. */
export async function startSqs(options: SqsOptions = {}): Promise<SqsServer> {
  const endpoint = new SqsEndpoint({
    region: options.region ?? "us-east-1",
    account: options.account ?? "000000000000",
    clock: realClock(options.now ?? Date.now),
    journalFile: options.journalFile,
  });
  const server = createServer((request, response) => {
    void serve(endpoint, request, response).catch((error: unknown) => fail(response, error));
  });
  server.keepAliveTimeout = 60_000;
  try {
    const port = await listen(server, options.port ?? 0);
    return handle({ endpoint, server, address: `${HOST}:${port}` });
  } catch (error) {
    endpoint.close();
    throw error;
  }
}

/** Timers are unref'd: a waiting poll must not keep a finished test process alive. */
function realClock(now: () => number): SqsClock {
  return {
    now,
    after(delayMs, run) {
      const timer = setTimeout(run, delayMs);
      timer.unref();
      return () => clearTimeout(timer);
    },
  };
}

/** Loopback only, always: the endpoint asks nobody for credentials. */
function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) => {
      const message = `The SQS endpoint cannot listen on ${HOST}:${port} (${cause.message}). Choose another port, or 0 for any.`;
      reject(new SqsEndpointError("SQS_LISTEN_FAILED", message, { cause }));
    });
    server.listen(port, HOST, () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
  });
}

interface Running {
  readonly endpoint: SqsEndpoint;
  readonly server: Server;
  readonly address: string;
}

function handle({ endpoint, server, address }: Running): SqsServer {
  let stopping: Promise<void> | undefined;
  return {
    endpoint: `http://${address}`,
    createQueue: (name, attributes = {}) => createQueue(endpoint, { name, attributes, address }),
    faults: endpoint.faults,
    requests: (queue) => endpoint.requests(queue),
    refusals: () => endpoint.refusals(),
    stop() {
      stopping ??= stop(endpoint, server);
      return stopping;
    },
  };
}

async function stop(endpoint: SqsEndpoint, server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  endpoint.endPolls();
  // One turn of the loop for the empty replies of the polls that just ended; then nobody may keep us open.
  await new Promise<void>((resolve) => {
    setImmediate(resolve);
  });
  server.closeAllConnections();
  await closed;
  endpoint.close();
}

interface QueueToCreate {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly address: string;
}

async function createQueue(endpoint: SqsEndpoint, { name, attributes, address }: QueueToCreate): Promise<string> {
  const answer = await endpoint.answer({
    operation: "CreateQueue",
    body: JSON.stringify({ QueueName: name, Attributes: attributes }),
    host: address,
    connection: { isClosed: () => false, onClose: () => undefined },
  });
  const url = answer.kind === "reply" ? answer.body["QueueUrl"] : undefined;
  if (typeof url === "string") return url;
  const reason = answer.kind === "error" ? `${answer.error.code}: ${answer.message}` : "a fault dropped the reply";
  throw new SqsEndpointError("SQS_QUEUE_REFUSED", `Queue ${name} was not created. ${reason}`);
}

async function serve(endpoint: SqsEndpoint, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await readBody(request);
  if (body === undefined) {
    endpoint.countRefusal("request_bytes");
    response.setHeader("connection", "close");
    const message = `A request has at most ${REQUEST_BYTES_MAX} bytes.`;
    write(response, { kind: "error", error: wireError("RequestTooLarge"), message });
    return;
  }
  const target = request.headers["x-amz-target"];
  if (request.method === "POST" && typeof target === "string") {
    const answer = await endpoint.answer({
      operation: target.replace(/^AmazonSQS\./, ""),
      body,
      host: request.headers.host ?? HOST,
      connection: {
        isClosed: () => response.destroyed || request.socket.destroyed,
        onClose: (run) => void response.on("close", run),
      },
    });
    write(response, answer);
    return;
  }
  const path = new URL(request.url ?? "/", `http://${HOST}`);
  writeControl(response, answerControl(endpoint, { method: request.method ?? "GET", path, body }));
}

/** Undefined when the body is larger than the bound; the rest of it is read and thrown away so the reply arrives. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    // IncomingMessage yields Buffers as long as no encoding is set, and none is.
    const part = chunk as Buffer;
    bytes += part.length;
    if (bytes <= REQUEST_BYTES_MAX) chunks.push(part);
  }
  return bytes > REQUEST_BYTES_MAX ? undefined : Buffer.concat(chunks).toString();
}

function write(response: ServerResponse, answer: SqsAnswer): void {
  if (response.destroyed) return;
  switch (answer.kind) {
    case "reset":
      response.socket?.resetAndDestroy();
      return;
    case "reply":
      response.writeHead(200, { "content-type": CONTENT_TYPE, "x-amzn-requestid": randomUUID() });
      response.end(JSON.stringify(answer.body));
      return;
    case "error": {
      const { code, queryCode, httpStatus } = answer.error;
      const fault = httpStatus >= 500 ? "Receiver" : "Sender";
      response.writeHead(httpStatus, {
        "content-type": CONTENT_TYPE,
        "x-amzn-requestid": randomUUID(),
        "x-amzn-query-error": `${queryCode};${fault}`,
      });
      response.end(JSON.stringify({ __type: `com.amazonaws.sqs#${code}`, message: answer.message }));
      return;
    }
    default:
      throw unknownAnswer(answer);
  }
}

function unknownAnswer(answer: never): Error {
  return new Error(`unknown answer ${JSON.stringify(answer)}`);
}

function writeControl(response: ServerResponse, reply: ControlReply): void {
  response.writeHead(reply.httpStatus, { "content-type": "application/json" });
  response.end(JSON.stringify(reply.body));
}

/** The endpoint itself failed (a full disk, a bug): a 500 the SDK retries, with the reason in it. */
function fail(response: ServerResponse, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  write(response, { kind: "error", error: wireError("InternalFailure", 500), message });
}
