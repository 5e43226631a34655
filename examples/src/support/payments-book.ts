// The provider's book: charges, and the idempotency keys that guard them. In memory, bounded, never forgetful.
import { randomBytes } from "node:crypto";
import type { Charge, ChargeRequest } from "./payments-charge.ts";

/** The first answer given under a key: what a replay repeats. */
export type StoredAnswer = {
  readonly status: number;
  readonly body: unknown;
  readonly chargeId: string | null;
};

/** What the provider may do with a request, by its key. */
export type KeyClaim =
  | { readonly state: "fresh" }
  | { readonly state: "replay"; readonly answer: StoredAnswer }
  | { readonly state: "in_flight" }
  | { readonly state: "mismatch" }
  | { readonly state: "full" };

export type BookOptions = {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** How long a key is remembered after its first use; later the same key is a new request. */
  readonly keyRetentionMs: number;
  /** Bound on charges and, separately, on keys. At the bound requests are refused: forgetting one would fake a double charge. */
  readonly entriesMax: number;
};

export type BookCounters = { readonly charges: number; readonly keys: number; readonly refusedFull: number };

type KeyEntry = {
  readonly fingerprint: string;
  readonly firstUsedAt: number;
  readonly answer: StoredAnswer | null;
};

export class ChargeBook {
  readonly #options: BookOptions;
  readonly #charges = new Map<string, Charge>();
  readonly #keys = new Map<string, KeyEntry>();
  #refusedFull = 0;

  constructor(options: BookOptions) {
    this.#options = options;
  }

  /** Decides by the key alone. `fresh` marks the key in flight: the caller must then `settle` or `release` it. */
  claim(key: string | null, fingerprint: string): KeyClaim {
    const now = this.#options.now();
    const known = key === null ? undefined : this.#remembered(key, now);
    if (known !== undefined) {
      if (known.fingerprint !== fingerprint) return { state: "mismatch" };
      return known.answer === null ? { state: "in_flight" } : { state: "replay", answer: known.answer };
    }
    if (this.#charges.size >= this.#options.entriesMax || this.#keys.size >= this.#options.entriesMax) {
      this.#refusedFull += 1;
      return { state: "full" };
    }
    if (key !== null) this.#keys.set(key, { fingerprint, firstUsedAt: now, answer: null });
    return { state: "fresh" };
  }

  /** Puts the first answer on record under the key, before any byte of it is sent. */
  settle(key: string | null, answer: StoredAnswer): void {
    if (key === null) return;
    const entry = this.#keys.get(key);
    if (entry !== undefined) this.#keys.set(key, { ...entry, answer });
  }

  /** Forgets a key whose request died before it did anything, so that the same key may be tried again. */
  release(key: string | null): void {
    if (key !== null && this.#keys.get(key)?.answer === null) this.#keys.delete(key);
  }

  /** Moves the money. */
  commit(request: ChargeRequest, requestId: string, key: string | null): Charge {
    const charge: Charge = {
      id: `ch_${randomBytes(8).toString("hex")}`,
      object: "charge",
      status: "succeeded",
      created: Math.floor(this.#options.now() / 1000),
      ...request,
      request: { id: requestId, idempotency_key: key },
    };
    this.#charges.set(charge.id, charge);
    return charge;
  }

  /** The charge of that id, if there is one. */
  byId(id: string): Charge | undefined {
    return this.#charges.get(id);
  }

  /** What a look-up by key can say: `absent` is absent so far, not a promise about a request still on its way. */
  byKey(
    key: string,
  ):
    | { readonly state: "found"; readonly charge: Charge }
    | { readonly state: "in_flight" }
    | { readonly state: "absent" } {
    const entry = this.#remembered(key, this.#options.now());
    if (entry === undefined) return { state: "absent" };
    if (entry.answer === null) return { state: "in_flight" };
    const charge = entry.answer.chargeId === null ? undefined : this.#charges.get(entry.answer.chargeId);
    return charge === undefined ? { state: "absent" } : { state: "found", charge };
  }

  /** Charges in the order they were made, of one customer or of all. */
  list(customer: string | null): readonly Charge[] {
    const all = [...this.#charges.values()];
    return customer === null ? all : all.filter((charge) => charge.customer === customer);
  }

  counters(): BookCounters {
    return { charges: this.#charges.size, keys: this.#keys.size, refusedFull: this.#refusedFull };
  }

  #remembered(key: string, now: number): KeyEntry | undefined {
    const entry = this.#keys.get(key);
    if (entry === undefined) return undefined;
    // A key in flight never expires: its request is still being worked on.
    if (entry.answer === null || now - entry.firstUsedAt < this.#options.keyRetentionMs) return entry;
    this.#keys.delete(key);
    return undefined;
  }
}
