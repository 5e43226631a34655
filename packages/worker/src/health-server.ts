// The two probes over HTTP: `/live` and `/ready`, by status code, with the reasons as a small JSON body.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { WorkerError } from "./errors.ts";
import type { Health } from "./health.ts";

export interface HealthServerOptions {
  /** 0 takes any free port (tests). */
  readonly port: number;
  readonly live: () => Health;
  readonly ready: () => Promise<Health>;
}

export interface HealthServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Probes come one at a time; whoever opens more connections than this waits in the backlog. */
const CONNECTIONS_MAX = 32;
const REQUEST_MAX_MS = 5_000;

/**
 * Listens on all addresses: kubelet and load balancers come from outside. Nothing secret is served, no body is read.
 *
 * @throws WorkerError HEALTH_PORT_UNAVAILABLE
 */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const server = createServer((request, response) => {
    answer(options, request).then(
      ({ status, body }) => send(response, status, body),
      () => send(response, 500, { status: "fail", reasons: ["the probe itself failed"] }),
    );
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.requestTimeout = REQUEST_MAX_MS;
  server.headersTimeout = REQUEST_MAX_MS;
  await new Promise<void>((resolve, reject) => {
    const failed = (error: Error): void =>
      reject(
        new WorkerError(
          "HEALTH_PORT_UNAVAILABLE",
          `the probes could not listen on port ${options.port} (${error.message}); free it, choose another, or 0 for none`,
          { cause: error },
        ),
      );
    server.once("error", failed);
    server.listen(options.port, () => {
      server.off("error", failed);
      resolve();
    });
  });
  // A failing accept (out of descriptors) is a failed probe, not the end of the process.
  server.on("error", () => {});
  // The probes alone keep no process alive that has nothing else to do.
  server.unref();
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : options.port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

interface Answer {
  readonly status: number;
  readonly body: Health;
}

async function answer(options: HealthServerOptions, request: IncomingMessage): Promise<Answer> {
  if (request.method !== "GET" && request.method !== "HEAD")
    return { status: 405, body: { status: "fail", reasons: ["probes are asked with GET"] } };
  switch ((request.url ?? "").split("?")[0]) {
    case "/live":
      return judged(options.live());
    case "/ready":
      return judged(await options.ready());
    default:
      return { status: 404, body: { status: "fail", reasons: ["there are /live and /ready"] } };
  }
}

function judged(body: Health): Answer {
  return { status: body.status === "pass" ? 200 : 503, body };
}

function send(response: ServerResponse, status: number, body: Health): void {
  const text = `${JSON.stringify(body)}\n`;
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
    "cache-control": "no-store",
  });
  response.end(text);
}
