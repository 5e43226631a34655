// A gateway between the tool and its provider: passes requests on, and can hold an answer that the provider has committed.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { messageOf } from "../errors.ts";

export interface GatewayOptions {
  /** Origin of the provider. */
  readonly upstream: string;
  /** Headers it swallows, as a proxy does that knows no idempotency keys. Lower case. */
  readonly stripHeaders?: readonly string[];
}

export interface Gateway {
  readonly url: string;
  /** The next answer to a request that is no read waits for `whileHeld` before it is passed back. */
  holdNext(whileHeld: () => Promise<void>): void;
  close(): Promise<void>;
}

// Of one connection, or wrong once the body was read and sent anew.
const OWN_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "host",
  "content-length",
  "transfer-encoding",
  "content-encoding",
  "expect",
]);
const READS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  let whileHeld: (() => Promise<void>) | undefined;
  const dropped = new Set([...OWN_HEADERS, ...(options.stripHeaders ?? [])]);
  const pass = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const answer = await forward(request, options.upstream, dropped);
    if (!READS.has(request.method ?? "GET")) {
      const hold = whileHeld;
      whileHeld = undefined;
      await hold?.();
    }
    response.writeHead(answer.status, answer.headers).end(answer.body);
  };
  const server = createServer((request, response) => {
    pass(request, response).catch((error: unknown) => {
      if (!response.headersSent) response.writeHead(502);
      response.end(messageOf(error));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A server that listens on a port has an address of this form.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    holdNext: (hold) => {
      whileHeld = hold;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

interface Forwarded {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

async function forward(request: IncomingMessage, upstream: string, dropped: ReadonlySet<string>): Promise<Forwarded> {
  const pieces: Buffer[] = [];
  // Node leaves the pieces untyped; without an encoding set they are Buffers.
  for await (const piece of request) pieces.push(piece as Buffer);
  const body = Buffer.concat(pieces);
  const headers = Object.entries(request.headers).flatMap(([name, value]) =>
    value === undefined || dropped.has(name) ? [] : [[name, String(value)] as [string, string]],
  );
  const answer = await fetch(`${upstream}${request.url ?? "/"}`, {
    method: request.method ?? "GET",
    headers,
    redirect: "manual",
    ...(body.length === 0 ? {} : { body }),
  });
  const kept = [...answer.headers].filter(([name]) => !OWN_HEADERS.has(name));
  return { status: answer.status, headers: Object.fromEntries(kept), body: Buffer.from(await answer.arrayBuffer()) };
}
