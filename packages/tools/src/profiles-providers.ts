// Profiles of providers beyond profiles.ts. Every figure is from reading, on the day given, copies of the documentation that may be
// older, and none from trying it: read the source again before relying on one. What it did not say is unknown, which licenses nothing.
import type { ProviderProfile } from "./profiles.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** What is taken where a source says nothing. */
const UNSAID = {
  carrier: "header",
  format: "hex",
  retentionMs: "unknown",
  mismatch: "unknown",
  replays: "unknown",
  serverErrors: "indeterminate",
  readOn: "2026-11-30",
} as const;

/** Keys hold per company account and per region: a request that is routed to another region is a new one there. */
export const adyenProfile: ProviderProfile = {
  ...UNSAID,
  name: "idempotency-key",
  maxLength: 64,
  retentionMs: 31 * DAY_MS,
  source: "https://docs.adyen.com/development-resources/api-idempotency",
};

/** How long PayPal keeps a key depends on what is created under it. */
export type PayPalEndpoint = "vault" | "orders" | "plans" | "products" | "payments";

const PAYPAL_RETENTION_MS: Readonly<Record<PayPalEndpoint, number>> = {
  vault: 3 * HOUR_MS,
  orders: 6 * HOUR_MS,
  plans: 72 * HOUR_MS,
  products: 72 * HOUR_MS,
  payments: 45 * DAY_MS,
};

/**
 * PayPal answers a known key with the latest status of what it made, not with its first answer, and fails one of two simultaneous
 * requests in a way it does not specify. Some endpoints take no key at all; they are not listed.
 */
export function paypalProfile(endpoint: PayPalEndpoint): ProviderProfile {
  return {
    ...UNSAID,
    name: "PayPal-Request-Id",
    maxLength: 108,
    retentionMs: PAYPAL_RETENTION_MS[endpoint],
    replays: "latest_status",
    source: "https://developer.paypal.com/reference/guidelines/idempotency",
  };
}

/** Only a 2xx is kept: after a 4xx or a 5xx the same key is worked on afresh. */
export const checkoutComProfile: ProviderProfile = {
  ...UNSAID,
  name: "Cko-Idempotency-Key",
  maxLength: "unknown",
  retentionMs: DAY_MS,
  replays: "success_only",
  source: "https://www.checkout.com/docs",
};

/** The tool places the key itself, as a field of the body. How long it is kept is published nowhere; a mismatch varies by API. */
export const squareProfile: ProviderProfile = {
  ...UNSAID,
  carrier: "body",
  name: "idempotency_key",
  maxLength: "unknown",
  source: "https://developer.squareup.com/docs/working-with-apis/idempotency",
};

/** TrueLayer's own pages disagree on the retention: 30 days on one, 6 hours on another. Hence unknown. */
export const trueLayerProfile: ProviderProfile = {
  ...UNSAID,
  name: "Idempotency-Key",
  maxLength: "unknown",
  mismatch: "error",
  source: "https://docs.truelayer.com",
};

/** The same key with another body gives the first answer: only our own fingerprint notices. */
export const qontoProfile: ProviderProfile = {
  ...UNSAID,
  name: "X-Qonto-Idempotency-Key",
  maxLength: "unknown",
  retentionMs: HOUR_MS / 2,
  mismatch: "replays_first",
  replays: "success_only",
  source: "https://docs.qonto.com",
};

export const resendProfile: ProviderProfile = {
  ...UNSAID,
  name: "Idempotency-Key",
  maxLength: 256,
  retentionMs: DAY_MS,
  mismatch: "error",
  source: "https://resend.com/docs",
};

/** The body must be equal byte for byte, else 422. */
export const telnyxProfile: ProviderProfile = {
  ...UNSAID,
  name: "Idempotency-Key",
  maxLength: "unknown",
  retentionMs: DAY_MS,
  mismatch: "error",
  replays: "success_only",
  source: "https://developers.telnyx.com",
};

/** The tool writes the directive into its mutation itself. A retention window exists; its length was not to be read. */
export const shopifyProfile: ProviderProfile = {
  ...UNSAID,
  carrier: "body",
  name: "@idempotent(key:)",
  maxLength: "unknown",
  mismatch: "error",
  source: "https://shopify.dev/docs/api/usage/idempotent-requests",
};

/**
 * Google's AIP-155: the tool sets `request_id` to `keyUuid`. Services decide on the retention themselves; where yours promises one,
 * typically an hour, give it: `{ ...googleProfile, retentionMs: 3_600_000 }`.
 */
export const googleProfile: ProviderProfile = {
  ...UNSAID,
  carrier: "body",
  name: "request_id",
  format: "uuid",
  maxLength: 36,
  source: "https://docs.cloud.google.com",
};
