// The provider's own request log: the one ledger that counts requests that arrived, not requests somebody meant to send.
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";

/** What a request came to. `read` is a look-up; `errored` a 500 or 503 that made nothing. */
export type RequestOutcome = "created" | "replayed" | "in_flight" | "mismatch" | "rejected" | "errored" | "read";

/** What became of the reply when the entry was written, which is before any byte of it is sent. */
export type ReplyPlan = "sent" | "held" | "reset";

export type RequestEntry = {
  /** `req_` and 16 hex digits; the reply carries it in the header `request-id`. */
  readonly id: string;
  /** When the request arrived, ISO 8601 with milliseconds. */
  readonly at: string;
  readonly method: string;
  readonly path: string;
  readonly idempotencyKey: string | null;
  /** SHA-256 of the raw body; null for a request without one. */
  readonly bodySha256: string | null;
  readonly customer: string | null;
  readonly outcome: RequestOutcome;
  readonly status: number;
  readonly reply: ReplyPlan;
  readonly chargeId: string | null;
  /** The W3C header as it came, so that a trace and this log can be joined. */
  readonly traceparent: string | null;
};

export type RequestFilter = {
  readonly method: string | null;
  readonly customer: string | null;
  readonly key: string | null;
};

export type RequestLogOptions = {
  /** Entries kept in memory; the oldest are dropped and counted. The file keeps all. */
  readonly entriesMax: number;
  /** JSON lines, appended. */
  readonly file: string | null;
};

export type RequestLogCounters = { readonly written: number; readonly dropped: number };

export class RequestLog {
  readonly #entries: RequestEntry[] = [];
  readonly #entriesMax: number;
  #file: number | null;
  #written = 0;
  #dropped = 0;

  constructor(options: RequestLogOptions) {
    this.#entriesMax = options.entriesMax;
    this.#file = options.file === null ? null : openSync(options.file, "a");
  }

  /**
   * Writes one entry, to disk first when there is a file. Synchronous on purpose: the lines then stand in the order of the
   * decisions, and a reply that a client saw always has its line, even if this process is killed next.
   */
  write(entry: RequestEntry): void {
    if (this.#file !== null) {
      writeSync(this.#file, `${JSON.stringify(entry)}\n`);
      fsyncSync(this.#file);
    }
    this.#written += 1;
    this.#entries.push(entry);
    if (this.#entries.length > this.#entriesMax) {
      this.#entries.shift();
      this.#dropped += 1;
    }
  }

  /** Entries in the order they were decided. */
  list(filter: RequestFilter): readonly RequestEntry[] {
    return this.#entries.filter(
      (entry) =>
        (filter.method === null || entry.method === filter.method) &&
        (filter.customer === null || entry.customer === filter.customer) &&
        (filter.key === null || entry.idempotencyKey === filter.key),
    );
  }

  counters(): RequestLogCounters {
    return { written: this.#written, dropped: this.#dropped };
  }

  /** A request that a delay kept past the closing must not write to a descriptor that may be another file's by then. */
  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }
}
