// The controls of a running payment provider, over HTTP: arm faults, wait for a held reply, read its log.
import { SupportError } from "./errors.ts";
import type { BookCounters } from "./payments-book.ts";
import type { Charge } from "./payments-charge.ts";
import type { FaultCounters, FaultRequest } from "./payments-faults.ts";
import type { HeldCounters, HeldReply } from "./payments-held.ts";
import type { RequestEntry, RequestLogCounters } from "./payments-log.ts";

export type RequestQuery = { readonly method?: string; readonly customer?: string; readonly key?: string };

export type HeldWait = {
  /** Only replies held later than this sequence number. Default 0: any. */
  readonly after?: number;
  readonly customer?: string;
  /** Default 30,000. */
  readonly timeoutMs?: number;
};

export type PaymentsStats = {
  readonly book: BookCounters;
  readonly log: RequestLogCounters;
  readonly faults: FaultCounters;
  readonly held: HeldCounters;
};

export type PaymentsControl = {
  /** Arms a fault for the next `times` requests (default 1), or for every request of a customer. */
  readonly arm: (fault: FaultRequest) => Promise<void>;
  readonly disarm: () => Promise<void>;
  /** Waits until a charge is committed and its reply held; throws PAYMENTS_HELD_TIMEOUT. */
  readonly nextHeld: (wait?: HeldWait) => Promise<HeldReply>;
  /** The provider's request log, in the order of its decisions. */
  readonly requests: (query?: RequestQuery) => Promise<readonly RequestEntry[]>;
  readonly charges: (customer?: string) => Promise<readonly Charge[]>;
  readonly stats: () => Promise<PaymentsStats>;
};

const POLL_MS_MAX = 30_000;

/** Controls the provider at `url`, in whichever process it runs. Control calls leave no line in the request log. */
export function connectPayments(url: string): PaymentsControl {
  return {
    arm: async (fault) => {
      await call(url, "POST", "/faults", fault);
    },
    disarm: async () => {
      await call(url, "DELETE", "/faults");
    },
    nextHeld: async (wait = {}) => await nextHeld(url, wait),
    requests: async (query = {}) => {
      // The shapes below are those payments-routes.ts writes; both ends stand in this folder.
      const answer = (await call(url, "GET", `/requests${search(query)}`)) as { readonly requests: RequestEntry[] };
      return answer.requests;
    },
    charges: async (customer) => {
      const query = customer === undefined ? {} : { customer };
      const answer = (await call(url, "GET", `/charges${search(query)}`)) as { readonly charges: Charge[] };
      return answer.charges;
    },
    stats: async () => (await call(url, "GET", "/stats")) as PaymentsStats,
  };
}

async function nextHeld(url: string, wait: HeldWait): Promise<HeldReply> {
  const timeoutMs = wait.timeoutMs ?? 30_000;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const leftMs = Math.max(0, Math.ceil(deadline - performance.now()));
    const customer = wait.customer === undefined ? {} : { customer: wait.customer };
    const query = { after: String(wait.after ?? 0), timeout_ms: String(Math.min(leftMs, POLL_MS_MAX)), ...customer };
    const answer = (await call(url, "GET", `/held${search(query)}`)) as { readonly held: HeldReply[] };
    const [held] = answer.held;
    if (held !== undefined) return held;
    if (leftMs === 0) {
      const message = `no reply was held within ${timeoutMs} ms; arm commit_then_stall before the run, and look at GET /requests`;
      throw new SupportError("PAYMENTS_HELD_TIMEOUT", message);
    }
  }
}

async function call(url: string, method: string, path: string, body?: unknown): Promise<unknown> {
  const init: RequestInit = body === undefined ? { method } : { method, body: JSON.stringify(body) };
  const response = await fetch(`${url}${path}`, init).catch((cause: unknown) => {
    const message = `the payment provider at ${url} did not answer ${method} ${path}; is it still running?`;
    throw new SupportError("PAYMENTS_CONTROL_FAILED", message, { cause });
  });
  const text = await response.text();
  if (!response.ok) {
    throw new SupportError(
      "PAYMENTS_CONTROL_FAILED",
      `${method} ${path} was refused with ${response.status}: ${text.trim()}`,
    );
  }
  return JSON.parse(text);
}

function search(query: { readonly [name: string]: string | undefined }): string {
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
}
