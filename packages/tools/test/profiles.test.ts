// The shipped profiles: what each says, and that our tools can be defined with it (G09).

import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool } from "../src/define-tool.ts";
import { createWire } from "../src/fetch.ts";
import { deriveKey, keyUuid } from "../src/key.ts";
import { ietfProfile, type ProviderProfile, stripeProfile } from "../src/profiles.ts";
import {
  adyenProfile,
  checkoutComProfile,
  googleProfile,
  paypalProfile,
  qontoProfile,
  resendProfile,
  shopifyProfile,
  squareProfile,
  telnyxProfile,
  trueLayerProfile,
} from "../src/profiles-providers.ts";

const HOUR_MS = 3_600_000;

const shipped = [
  ["Stripe", stripeProfile, "header Idempotency-Key", 24, "error", "all"],
  ["the IETF's draft", ietfProfile, "header Idempotency-Key", "unknown", "error", "unknown"],
  ["Adyen", adyenProfile, "header idempotency-key", 744, "unknown", "unknown"],
  ["PayPal's vault", paypalProfile("vault"), "header PayPal-Request-Id", 3, "unknown", "latest_status"],
  ["PayPal's orders", paypalProfile("orders"), "header PayPal-Request-Id", 6, "unknown", "latest_status"],
  ["PayPal's plans", paypalProfile("plans"), "header PayPal-Request-Id", 72, "unknown", "latest_status"],
  ["PayPal's products", paypalProfile("products"), "header PayPal-Request-Id", 72, "unknown", "latest_status"],
  ["PayPal's payments", paypalProfile("payments"), "header PayPal-Request-Id", 1_080, "unknown", "latest_status"],
  ["Checkout.com", checkoutComProfile, "header Cko-Idempotency-Key", 24, "unknown", "success_only"],
  ["Square", squareProfile, "body idempotency_key", "unknown", "unknown", "unknown"],
  ["TrueLayer", trueLayerProfile, "header Idempotency-Key", "unknown", "error", "unknown"],
  ["Qonto", qontoProfile, "header X-Qonto-Idempotency-Key", 0.5, "replays_first", "success_only"],
  ["Resend", resendProfile, "header Idempotency-Key", 24, "error", "unknown"],
  ["Telnyx", telnyxProfile, "header Idempotency-Key", 24, "error", "success_only"],
  ["Shopify", shopifyProfile, "body @idempotent(key:)", "unknown", "error", "unknown"],
  ["Google", googleProfile, "body request_id", "unknown", "unknown", "unknown"],
] as const satisfies readonly (readonly [string, ProviderProfile, string, number | "unknown", string, string])[];

describe.each(shipped)("the profile of %s", (_name, profile: ProviderProfile, place, hours, mismatch, replays) => {
  it("says where the key goes, how long it holds and what it gives again", () => {
    expect(`${profile.carrier} ${profile.name}`).toBe(place);
    expect(profile.retentionMs).toBe(hours === "unknown" ? "unknown" : hours * HOUR_MS);
    expect([profile.mismatch, profile.replays]).toEqual([mismatch, replays]);
  });

  it("has a source and the day it was read, and calls no 5xx final", () => {
    expect(new URL(profile.source).protocol).toBe("https:");
    expect(profile.readOn).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    expect(profile.serverErrors).toBe("indeterminate");
  });

  it("takes our keys, and only a header is set by the context's fetch", async () => {
    const run = async () => 1;
    const tool = { name: "pay", description: "-", schema: z.object({}), effect: "keyed", run } as const;
    expect(() => defineTool({ ...tool, profile })).not.toThrow();
    const key = deriveKey("t", "c");
    let sent: string | null = null;
    const wire = createWire({
      key: () => key,
      stop: new AbortController(),
      profile,
      fetch: async (input) => {
        sent = profile.carrier === "header" ? new Request(input).headers.get(profile.name) : null;
        return new Response("{}");
      },
    });
    await wire.fetch("https://api.example.test/", { method: "POST" });
    const form = profile.format === "uuid" ? keyUuid(key) : key;
    expect(sent).toBe(profile.carrier === "header" ? form : null);
    expect(wire.evidence().requests[0]?.keySent).toBe(profile.carrier === "header");
  });
});
