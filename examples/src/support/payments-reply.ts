// How a decided reply reaches the wire: sent, held until the client is gone, or cut off by a reset.
import type { ServerResponse } from "node:http";

export type JsonReply = {
  readonly kind: "json";
  readonly status: number;
  readonly body: unknown;
  readonly headers: { readonly [name: string]: string };
};

export type Reply =
  | JsonReply
  /** Wait `holdMs`, or with null for as long as the client stays; then send. `onEnd` hears which of the two ended it. */
  | {
      readonly kind: "held";
      readonly holdMs: number | null;
      readonly reply: JsonReply;
      readonly onEnd: (how: "released" | "client_gone") => void;
    }
  | { readonly kind: "reset" };

/** A JSON reply with the headers given. */
export function jsonReply(status: number, body: unknown, headers: { readonly [name: string]: string } = {}): JsonReply {
  return { kind: "json", status, body, headers };
}

/** A refusal in the shape payment providers use: a type, a stable code, a sentence. */
export function errorReply(status: number, code: string, message: string): JsonReply {
  return jsonReply(status, { error: { type: errorType(status, code), code, message } });
}

/** Performs the reply; resolves when it is out, or when there is nobody left to send it to. */
export async function deliverReply(reply: Reply, response: ServerResponse, closing: AbortSignal): Promise<void> {
  switch (reply.kind) {
    case "json":
      sendJson(reply, response);
      return;
    case "held": {
      const how = await hold(reply.holdMs, response, closing);
      reply.onEnd(how);
      if (how === "released") sendJson(reply.reply, response);
      return;
    }
    case "reset":
      // A RST, not a FIN: the client must see ECONNRESET, as from a provider whose host died.
      response.socket?.resetAndDestroy();
      return;
    default:
      return neverReply(reply);
  }
}

function sendJson(reply: JsonReply, response: ServerResponse): void {
  if (response.destroyed) return;
  const body = `${JSON.stringify(reply.body)}\n`;
  response.writeHead(reply.status, {
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    ...reply.headers,
  });
  response.end(body);
}

async function hold(
  holdMs: number | null,
  response: ServerResponse,
  closing: AbortSignal,
): Promise<"released" | "client_gone"> {
  if (response.destroyed || closing.aborted) return "client_gone";
  return await new Promise((resolve) => {
    const finish = (how: "released" | "client_gone"): void => {
      clearTimeout(timer);
      response.off("close", gone);
      closing.removeEventListener("abort", gone);
      resolve(how);
    };
    // The close event is the kernel's word that the peer's socket is gone: a SIGKILLed worker gets here within milliseconds.
    const gone = (): void => finish("client_gone");
    const timer = holdMs === null ? undefined : setTimeout(() => finish("released"), holdMs);
    response.once("close", gone);
    closing.addEventListener("abort", gone, { once: true });
  });
}

function errorType(status: number, code: string): string {
  if (code.startsWith("idempotency_")) return "idempotency_error";
  if (status === 402) return "card_error";
  return status >= 500 ? "api_error" : "invalid_request_error";
}

function neverReply(reply: never): never {
  throw new TypeError(`unknown reply: ${JSON.stringify(reply)}`);
}
