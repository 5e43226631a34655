// Which request goes where: the provider's own API under /v1, and the controls a test or a demo uses.
import type { Charge } from "./payments-charge.ts";
import { createCharge, type PaymentsParts, parseJson, type RequestFacts } from "./payments-create.ts";
import { parseFault } from "./payments-faults.ts";
import { errorReply, type JsonReply, jsonReply, type Reply } from "./payments-reply.ts";

/** A whole request, body read. */
export type IncomingRequest = {
  readonly facts: RequestFacts;
  readonly url: URL;
  readonly body: string;
  /** Aborts when the client is gone: a long poll must not outlive its caller. */
  readonly gone: AbortSignal;
};

const PAGE_MAX = 1_000;
const PAGE_DEFAULT = 100;
const HELD_WAIT_MS_DEFAULT = 30_000;
const HELD_WAIT_MS_MAX = 60_000;

/** Answers a request. Everything under /v1 leaves a log line; the controls leave none. */
export async function routeRequest(incoming: IncomingRequest, parts: PaymentsParts): Promise<Reply> {
  const { method } = incoming.facts;
  const path = incoming.url.pathname;
  if (path === "/v1/charges" && method === "POST") return await createCharge(incoming.facts, incoming.body, parts);
  if (path.startsWith("/v1/")) return readRoute(incoming, parts);
  return await controlRoute(incoming, parts);
}

function readRoute(incoming: IncomingRequest, parts: PaymentsParts): JsonReply {
  const { facts, url } = incoming;
  const { reply, charge } = facts.method === "GET" ? read(url, parts) : { reply: unknownRoute(incoming), charge: null };
  const outcome = reply.status < 400 || reply.status === 404 ? "read" : "rejected";
  parts.log.write({
    ...facts,
    customer: url.searchParams.get("customer") ?? charge?.customer ?? null,
    outcome,
    status: reply.status,
    reply: "sent",
    chargeId: charge?.id ?? null,
  });
  return reply;
}

function read(url: URL, { book }: PaymentsParts): { readonly reply: JsonReply; readonly charge: Charge | null } {
  const byKey = decodeAfter("/v1/charges/by-key/", url.pathname);
  if (byKey !== null) {
    const found = book.byKey(byKey);
    if (found.state === "found") return { reply: jsonReply(200, found.charge), charge: found.charge };
    if (found.state === "in_flight") return { reply: LOOKUP_IN_FLIGHT, charge: null };
    return { reply: errorReply(404, "charge_not_found", "no charge was made under this key so far"), charge: null };
  }
  const byId = decodeAfter("/v1/charges/", url.pathname);
  const charge = byId === null ? undefined : book.byId(byId);
  if (charge !== undefined) return { reply: jsonReply(200, charge), charge };
  if (url.pathname === "/v1/charges")
    return { reply: listCharges(url, book.list(url.searchParams.get("customer"))), charge: null };
  return { reply: errorReply(404, "charge_not_found", "there is no charge of this id"), charge: null };
}

/** Newest first, as payment providers list them. */
function listCharges(url: URL, oldestFirst: readonly Charge[]): JsonReply {
  const limit = Math.min(numberOf(url, "limit") ?? PAGE_DEFAULT, PAGE_MAX);
  const data = oldestFirst.slice(-limit).reverse();
  return jsonReply(200, { object: "list", data, has_more: oldestFirst.length > data.length });
}

async function controlRoute(incoming: IncomingRequest, parts: PaymentsParts): Promise<JsonReply> {
  const { searchParams, pathname } = incoming.url;
  const filter = {
    method: searchParams.get("method"),
    customer: searchParams.get("customer"),
    key: searchParams.get("key"),
  };
  switch (`${incoming.facts.method} ${pathname}`) {
    case "GET /requests":
      return jsonReply(200, { requests: parts.log.list(filter), counters: parts.log.counters() });
    case "GET /charges":
      return jsonReply(200, { charges: parts.book.list(filter.customer), counters: parts.book.counters() });
    case "GET /held":
      return await heldRoute(incoming, parts);
    case "GET /faults":
      return jsonReply(200, { faults: parts.faults.list(), counters: parts.faults.counters() });
    case "POST /faults":
      return armRoute(incoming.body, parts);
    case "DELETE /faults":
      parts.faults.clear();
      return jsonReply(200, { faults: [] });
    case "GET /stats":
      return jsonReply(200, {
        book: parts.book.counters(),
        log: parts.log.counters(),
        faults: parts.faults.counters(),
        held: parts.held.counters(),
      });
    default:
      return unknownRoute(incoming);
  }
}

async function heldRoute({ url, gone }: IncomingRequest, { held }: PaymentsParts): Promise<JsonReply> {
  const timeoutMs = Math.min(numberOf(url, "timeout_ms") ?? HELD_WAIT_MS_DEFAULT, HELD_WAIT_MS_MAX);
  const query = {
    after: numberOf(url, "after") ?? 0,
    customer: url.searchParams.get("customer"),
    timeoutMs,
    signal: gone,
  };
  const answer = await held.wait(query);
  return answer.state === "answered"
    ? jsonReply(200, { held: answer.held })
    : errorReply(503, "too_many_waiters", "too many long polls are open; close some");
}

function armRoute(body: string, { faults }: PaymentsParts): JsonReply {
  const parsed = parseFault(parseJson(body));
  if (parsed.state === "invalid") return errorReply(400, "fault_invalid", parsed.message);
  return faults.arm(parsed.fault)
    ? jsonReply(201, { fault: parsed.fault })
    : errorReply(503, "too_many_faults", "too many faults are armed; DELETE /faults first");
}

/** The last path segment after a prefix; null when the path is another one or is not decodable. */
function decodeAfter(prefix: string, pathname: string): string | null {
  if (!pathname.startsWith(prefix) || pathname.slice(prefix.length).includes("/")) return null;
  try {
    return decodeURIComponent(pathname.slice(prefix.length));
  } catch {
    return null;
  }
}

/** A non-negative integer from the query, or null when it is absent or is none. */
function numberOf(url: URL, name: string): number | null {
  const text = url.searchParams.get(name);
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

function unknownRoute({ facts, url }: IncomingRequest): JsonReply {
  return errorReply(404, "route_unknown", `there is no ${facts.method} ${url.pathname}`);
}

const LOOKUP_IN_FLIGHT = errorReply(409, "idempotency_key_in_use", "a request under this key is being processed");
