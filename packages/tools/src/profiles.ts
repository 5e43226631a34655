// What a provider promises about idempotency keys, dated and with its source; used by the policy `keyed`.
import type { EffectPolicy } from "./effect.ts";

export interface ProviderProfile {
  /** Where the key travels. Only `header` is set by the context's `fetch`; the tool itself places the others. */
  readonly carrier: "header" | "body" | "option";
  /** Name of the header, body field or SDK option. */
  readonly name: string;
  readonly format: "hex" | "uuid";
  /** Longest key the provider takes; ours has 32 digits, 36 as a UUID. Where none is published the key is sent as it is. */
  readonly maxLength: number | "unknown";
  /** How long a key is honoured. Unknown counts as over: nothing is sent again by itself. */
  readonly retentionMs: number | "unknown";
  /** What the same key with another body gives. With `replays_first` our own fingerprint is the only guard. */
  readonly mismatch: "error" | "replays_first" | "updates" | "unknown";
  /** Which answers the key gives again. */
  readonly replays: "all" | "success_only" | "latest_status" | "unknown";
  /** Status of "a request with this key is running"; such an answer is unknown, not failed. */
  readonly inFlightStatus?: number;
  /** Whether a 5xx is final: recorded, and proof that nothing happened. Where providers do not say so it is not. */
  readonly serverErrors: "final" | "indeterminate";
  /** Response header that names the request in the provider's own log. */
  readonly requestIdHeader?: string;
  readonly source: string;
  /** Day the source was read, ISO. Retentions change: read again before relying on an old one. */
  readonly readOn: string;
}

/**
 * Until when a call that was first sent at `firstClaimAtMs` may be sent again by itself, in epoch milliseconds; `never` for policies
 * that rule it out and for retentions that nobody knows. The ledger asks the same of its own clock.
 */
export function resendDeadlineOf(
  policy: EffectPolicy,
  profile: ProviderProfile | undefined,
  firstClaimAtMs: number,
): number | "never" {
  const retentionMs = profile?.retentionMs;
  return policy === "keyed" && typeof retentionMs === "number" ? firstClaimAtMs + retentionMs : "never";
}

const HOUR_MS = 3_600_000;

/**
 * Stripe's v1 API: keys live at least 24 hours, the first status and body are replayed, a 500 too. A replayed 500 is still
 * indeterminate by Stripe's own words, so it is no proof of failure.
 */
export const stripeProfile: ProviderProfile = {
  carrier: "header",
  name: "Idempotency-Key",
  format: "hex",
  maxLength: 255,
  retentionMs: 24 * HOUR_MS,
  mismatch: "error",
  replays: "all",
  inFlightStatus: 409,
  serverErrors: "indeterminate",
  requestIdHeader: "request-id",
  source: "https://docs.stripe.com/api/idempotent_requests",
  readOn: "2026-11-30",
};

/** The header of draft-ietf-httpapi-idempotency-key-header-07. The draft leaves the retention to each server: unknown here. */
export const ietfProfile: ProviderProfile = {
  carrier: "header",
  name: "Idempotency-Key",
  format: "hex",
  maxLength: 255,
  retentionMs: "unknown",
  mismatch: "error",
  replays: "unknown",
  inFlightStatus: 409,
  serverErrors: "indeterminate",
  source: "https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/",
  readOn: "2026-11-30",
};
