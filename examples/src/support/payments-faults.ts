// Misbehaviour on demand: which fault is armed for which request.
import { isRecord } from "./payments-charge.ts";

/** What the provider does to a request instead of behaving. */
export type FaultBehaviour =
  /** The charge is made and its answer on record; the reply is held for `holdMs`, or with null until the client is gone. */
  | { readonly kind: "commit_then_stall"; readonly holdMs: number | null }
  /** The charge is made and its answer on record; the connection is reset. */
  | { readonly kind: "commit_then_reset" }
  /** 500 from in front of the provider: the key keeps no 500. After a commit the same key replays the 201. */
  | { readonly kind: "answer_500"; readonly when: "before_commit" | "after_commit" }
  /** The card is declined; the 402 is the key's stored answer, as at Stripe. */
  | { readonly kind: "reject_402" }
  /** Nothing happens for `delayMs`, with the key in flight; then the request is served. */
  | { readonly kind: "delay"; readonly delayMs: number };

/** A behaviour and whom it meets: the next `times` matching charge requests (null: every one), of one customer or of all. */
export type Fault = FaultBehaviour & { readonly times: number | null; readonly customer: string | null };

/** How a fault is written by a client: `times` defaults to 1, or to every request when a customer is named. */
export type FaultRequest = FaultBehaviour & { readonly times?: number | null; readonly customer?: string };

export type ParsedFault =
  | { readonly state: "valid"; readonly fault: Fault }
  | { readonly state: "invalid"; readonly message: string };

export type FaultCounters = { readonly armed: number; readonly taken: number; readonly refusedFull: number };

const FAULTS_MAX = 100;
const WAIT_MS_MAX = 3_600_000;
const KINDS = "commit_then_stall, commit_then_reset, answer_500, reject_402, delay";

/** Reads the body of POST /faults. */
export function parseFault(body: unknown): ParsedFault {
  if (!isRecord(body)) return { state: "invalid", message: "the body must be a JSON object" };
  const behaviour = parseBehaviour(body);
  if (typeof behaviour === "string") return { state: "invalid", message: behaviour };
  const { customer, times } = body;
  if (customer !== undefined && typeof customer !== "string") {
    return { state: "invalid", message: "customer must be a string" };
  }
  if (times !== undefined && times !== null && !isCount(times)) {
    return { state: "invalid", message: "times must be a positive integer, or null for every request" };
  }
  const timesOrDefault = times === undefined ? (customer === undefined ? 1 : null) : times;
  return { state: "valid", fault: { ...behaviour, times: timesOrDefault, customer: customer ?? null } };
}

/** The armed faults, first armed first taken. */
export class FaultDesk {
  readonly #armed: Fault[] = [];
  #taken = 0;
  #refusedFull = 0;

  /** False when too many are armed already. */
  arm(fault: Fault): boolean {
    if (this.#armed.length >= FAULTS_MAX) {
      this.#refusedFull += 1;
      return false;
    }
    this.#armed.push(fault);
    return true;
  }

  /** The first fault that meets this customer, used up by one; null when the request is to be served properly. */
  take(customer: string): FaultBehaviour | null {
    const index = this.#armed.findIndex((fault) => fault.customer === null || fault.customer === customer);
    const fault = this.#armed[index];
    if (fault === undefined) return null;
    this.#taken += 1;
    if (fault.times !== null) {
      if (fault.times <= 1) this.#armed.splice(index, 1);
      else this.#armed[index] = { ...fault, times: fault.times - 1 };
    }
    return fault;
  }

  clear(): void {
    this.#armed.length = 0;
  }

  list(): readonly Fault[] {
    return [...this.#armed];
  }

  counters(): FaultCounters {
    return { armed: this.#armed.length, taken: this.#taken, refusedFull: this.#refusedFull };
  }
}

/** The behaviour, or the sentence that says what is wrong with it. */
function parseBehaviour(body: { readonly [field: string]: unknown }): FaultBehaviour | string {
  const { kind, holdMs, when, delayMs } = body;
  switch (kind) {
    case "commit_then_stall":
      if (holdMs === undefined || holdMs === null) return { kind, holdMs: null };
      return isWait(holdMs) ? { kind, holdMs } : `holdMs must be 0 to ${WAIT_MS_MAX}, or null until the client is gone`;
    case "commit_then_reset":
    case "reject_402":
      return { kind };
    case "answer_500":
      return when === "before_commit" || when === "after_commit"
        ? { kind, when }
        : "when must be before_commit or after_commit";
    case "delay":
      return isWait(delayMs) ? { kind, delayMs } : `delayMs must be 0 to ${WAIT_MS_MAX}`;
    default:
      return `kind must be one of ${KINDS}`;
  }
}

function isWait(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= WAIT_MS_MAX;
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 1;
}
