// POST /v1/charges: one request in, the charge made at most once per key, one log line, one reply out.
import { setTimeout as sleep } from "node:timers/promises";
import type { ChargeBook, StoredAnswer } from "./payments-book.ts";
import { type Charge, type ChargeRequest, fingerprintCharge, parseCharge, parseKey } from "./payments-charge.ts";
import type { FaultBehaviour, FaultDesk } from "./payments-faults.ts";
import type { HeldReplies } from "./payments-held.ts";
import type { ReplyPlan, RequestEntry, RequestLog, RequestOutcome } from "./payments-log.ts";
import { errorReply, type JsonReply, jsonReply, type Reply } from "./payments-reply.ts";

/** The parts every route works on, and the signal that the provider is closing. */
export type PaymentsParts = {
  readonly book: ChargeBook;
  readonly faults: FaultDesk;
  readonly held: HeldReplies;
  readonly log: RequestLog;
  readonly now: () => number;
  readonly closing: AbortSignal;
  readonly onCommitted: (charge: Charge) => void;
};

/** What is known of a request before it is understood: the first half of its log line. */
export type RequestFacts = Pick<
  RequestEntry,
  "id" | "at" | "method" | "path" | "idempotencyKey" | "bodySha256" | "traceparent"
>;

/** A request that passed the gate. */
type Accepted = {
  readonly facts: RequestFacts;
  readonly request: ChargeRequest;
  readonly key: string | null;
};

/** A stored answer and how this request came by it. */
type Answered = {
  readonly answer: StoredAnswer;
  readonly outcome: RequestOutcome;
};

/** The whole life of one charge request. The log line is written before the reply leaves. */
export async function createCharge(facts: RequestFacts, body: string, parts: PaymentsParts): Promise<Reply> {
  const accepted = accept(facts, body);
  if (accepted.state === "refused") return refuse(facts, accepted.reply, "rejected", parts);
  const { request, key } = accepted.accepted;
  const claim = parts.book.claim(key, fingerprintCharge(request));
  switch (claim.state) {
    case "mismatch":
      return refuse(facts, MISMATCH, "mismatch", parts);
    case "in_flight":
      return refuse(facts, IN_FLIGHT, "in_flight", parts);
    case "full":
      return refuse(facts, FULL, "errored", parts);
    case "fresh":
    case "replay": {
      const stored = claim.state === "replay" ? claim.answer : null;
      return await serve(accepted.accepted, stored, parts.faults.take(request.customer), parts);
    }
    default:
      return neverClaim(claim);
  }
}

/** Serves a claimed request under the fault that met it, if one did. */
async function serve(
  accepted: Accepted,
  stored: StoredAnswer | null,
  fault: FaultBehaviour | null,
  parts: PaymentsParts,
): Promise<Reply> {
  // With the key still in flight: a second request under it gets 409 meanwhile. The charge is made even if the client left.
  if (fault?.kind === "delay") await sleep(fault.delayMs, undefined, { signal: parts.closing }).catch(() => undefined);
  if (fault?.kind === "answer_500" && fault.when === "before_commit") {
    if (stored === null) parts.book.release(accepted.key);
    return refuse(accepted.facts, UPSTREAM, "errored", parts);
  }
  const answered =
    stored === null ? firstAnswer(accepted, fault, parts) : { answer: stored, outcome: "replayed" as const };
  return conclude(accepted, answered, fault, parts);
}

/** Declines or charges, and puts the answer on record: from here on the key replays it, whatever happens to the reply. */
function firstAnswer(accepted: Accepted, fault: FaultBehaviour | null, parts: PaymentsParts): Answered {
  if (fault?.kind === "reject_402") {
    const answer: StoredAnswer = { status: 402, body: DECLINED.body, chargeId: null };
    parts.book.settle(accepted.key, answer);
    return { answer, outcome: "rejected" };
  }
  const charge = parts.book.commit(accepted.request, accepted.facts.id, accepted.key);
  const answer: StoredAnswer = { status: 201, body: charge, chargeId: charge.id };
  parts.book.settle(accepted.key, answer);
  parts.onCommitted(charge);
  return { answer, outcome: "created" };
}

/** Chooses the reply the fault leaves, writes the log line, and only then announces a held reply. */
function conclude(
  accepted: Accepted,
  { answer, outcome }: Answered,
  fault: FaultBehaviour | null,
  parts: PaymentsParts,
): Reply {
  const { facts, request, key } = accepted;
  const replayed = outcome === "replayed" ? { "idempotent-replayed": "true" } : {};
  const honest = fault?.kind === "answer_500" ? UPSTREAM : jsonReply(answer.status, answer.body, replayed);
  const plan = planReply(fault);
  const { customer } = request;
  parts.log.write({ ...facts, customer, outcome, status: honest.status, reply: plan, chargeId: answer.chargeId });
  if (plan === "reset") return { kind: "reset" };
  if (fault?.kind !== "commit_then_stall") return honest;
  const seq = parts.held.hold({ requestId: facts.id, chargeId: answer.chargeId, customer, idempotencyKey: key });
  return { kind: "held", holdMs: fault.holdMs, reply: honest, onEnd: (how) => parts.held.end(seq, how) };
}

function planReply(fault: FaultBehaviour | null): ReplyPlan {
  switch (fault?.kind) {
    case "commit_then_stall":
      return "held";
    case "commit_then_reset":
      return "reset";
    case "answer_500":
    case "reject_402":
    case "delay":
    case undefined:
      return "sent";
    default:
      return neverFault(fault);
  }
}

/** The gate: a request refused here never touches a key, so that the corrected one may use the same key. */
function accept(
  facts: RequestFacts,
  body: string,
):
  | { readonly state: "accepted"; readonly accepted: Accepted }
  | { readonly state: "refused"; readonly reply: JsonReply } {
  const key = parseKey(facts.idempotencyKey ?? undefined);
  if (key.state === "invalid") {
    return { state: "refused", reply: errorReply(400, "idempotency_key_invalid", key.message) };
  }
  const parsed = parseCharge(parseJson(body));
  if (parsed.state === "invalid") {
    return { state: "refused", reply: errorReply(400, "parameter_invalid", parsed.message) };
  }
  const accepted: Accepted = { facts, request: parsed.request, key: key.state === "given" ? key.key : null };
  return { state: "accepted", accepted };
}

function refuse(facts: RequestFacts, reply: JsonReply, outcome: RequestOutcome, { log }: PaymentsParts): JsonReply {
  log.write({ ...facts, customer: null, outcome, status: reply.status, reply: "sent", chargeId: null });
  return reply;
}

/** Undefined for a body that is not JSON; no check accepts undefined. */
export function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

const MISMATCH = errorReply(
  400,
  "idempotency_key_reused",
  "this Idempotency-Key was used before with other parameters; use a new key for another charge",
);
const IN_FLIGHT = errorReply(
  409,
  "idempotency_key_in_use",
  "a request with this Idempotency-Key is being processed; repeat it later under the same key",
);
const FULL = errorReply(503, "provider_full", "this provider holds as many charges or keys as it may; start a new one");
const UPSTREAM = errorReply(500, "upstream_error", "the connection to the charge service failed");
const DECLINED = errorReply(402, "card_declined", "the card was declined");

function neverClaim(claim: never): never {
  throw new TypeError(`unknown key claim: ${JSON.stringify(claim)}`);
}

function neverFault(fault: never): never {
  throw new TypeError(`unknown fault: ${JSON.stringify(fault)}`);
}
