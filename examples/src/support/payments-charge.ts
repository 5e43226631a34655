// The wire shapes of a charge and of an idempotency key, and what makes one acceptable.
import { createHash } from "node:crypto";

/** What a client asks for. `amount` is in the smallest unit of `currency`. */
export type ChargeRequest = {
  readonly customer: string;
  readonly amount: number;
  readonly currency: string;
  readonly memo: string | null;
};

/** What the provider made. The embedded `request` says which call made it, as the seed's `--expand data.request` does. */
export type Charge = ChargeRequest & {
  /** `ch_` and 16 hex digits. */
  readonly id: string;
  readonly object: "charge";
  readonly status: "succeeded";
  /** Seconds since 1970, the provider's clock. */
  readonly created: number;
  readonly request: { readonly id: string; readonly idempotency_key: string | null };
};

/** An idempotency key as the header gave it. Absent is legal: such a request is never replayed. */
export type ParsedKey =
  | { readonly state: "absent" }
  | { readonly state: "given"; readonly key: string }
  | { readonly state: "invalid"; readonly message: string };

export type ParsedCharge =
  | { readonly state: "valid"; readonly request: ChargeRequest }
  | { readonly state: "invalid"; readonly message: string };

/** The length most payment providers accept (Stripe: 255). */
export const KEY_CHARACTERS_MAX = 255;
const CUSTOMER_CHARACTERS_MAX = 255;
const MEMO_CHARACTERS_MAX = 500;
const AMOUNT_MAX = 99_999_999;
const FIELDS: readonly string[] = ["customer", "amount", "currency", "memo"];

/**
 * Accepts 1 to 255 visible ASCII characters: 32 hex digits and UUIDs among them. A space is refused on purpose: Node joins a
 * header that was sent twice with a comma and a space, and two keys on one request must not pass as a third one.
 */
export function parseKey(header: string | undefined): ParsedKey {
  if (header === undefined) return { state: "absent" };
  if (header.length > KEY_CHARACTERS_MAX) {
    return {
      state: "invalid",
      message: `Idempotency-Key has ${header.length} characters, at most ${KEY_CHARACTERS_MAX} are allowed`,
    };
  }
  if (!/^[\x21-\x7e]+$/.test(header)) {
    return {
      state: "invalid",
      message: "Idempotency-Key must be one value of visible ASCII characters without spaces",
    };
  }
  return { state: "given", key: header };
}

/** Checks a decoded JSON body. Unknown fields are refused, so that a misspelt `memo` is not silently dropped. */
export function parseCharge(body: unknown): ParsedCharge {
  if (!isRecord(body)) return invalid("the body must be a JSON object");
  const stray = Object.keys(body).find((field) => !FIELDS.includes(field));
  if (stray !== undefined) return invalid(`unknown parameter: ${stray}`);
  const { customer, amount, currency, memo } = body;
  if (typeof customer !== "string" || customer === "" || customer.length > CUSTOMER_CHARACTERS_MAX) {
    return invalid(`customer must be a string of 1 to ${CUSTOMER_CHARACTERS_MAX} characters`);
  }
  if (typeof amount !== "number" || !Number.isInteger(amount) || amount < 1 || amount > AMOUNT_MAX) {
    return invalid(`amount must be an integer from 1 to ${AMOUNT_MAX}, in the smallest currency unit`);
  }
  if (typeof currency !== "string" || !/^[a-z]{3}$/.test(currency)) {
    return invalid("currency must be three lower-case letters");
  }
  if (memo !== undefined && memo !== null && (typeof memo !== "string" || memo.length > MEMO_CHARACTERS_MAX)) {
    return invalid(`memo must be a string of at most ${MEMO_CHARACTERS_MAX} characters`);
  }
  return { state: "valid", request: { customer, amount, currency, memo: memo ?? null } };
}

/** Equal for equal parameters whatever the order of the JSON fields: what "same key, same body" compares. */
export function fingerprintCharge({ customer, amount, currency, memo }: ChargeRequest): string {
  return sha256Hex(JSON.stringify([customer, amount, currency, memo]));
}

/** Lower-case hex of SHA-256; also of the raw body, which is what the request log keeps as evidence. */
export function sha256Hex(bytes: string | Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** True for a JSON object: not null, not an array. */
export function isRecord(value: unknown): value is { readonly [field: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function invalid(message: string): ParsedCharge {
  return { state: "invalid", message };
}
