// The tool's fetch: the key where the profile says, and evidence of each request.

import { describe, expect, it } from "vitest";
import { codeOf, createWire, type WireOptions } from "../src/fetch.ts";
import { deriveKey, keyUuid, subKey } from "../src/key.ts";
import { ietfProfile, stripeProfile } from "../src/profiles.ts";

const key = deriveKey("t", "c");
const url = "https://api.example.test/v1/charges";

function wireWith(answer: (request: Request) => Response | Error, options: Partial<WireOptions> = {}) {
  const seen: Request[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init);
    seen.push(request);
    const result = answer(request);
    if (result instanceof Error) throw result;
    return result;
  };
  return { seen, wire: createWire({ key: () => key, stop: new AbortController(), fetch, ...options }) };
}
const failure = (code: string): Error =>
  new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });

describe("createWire", () => {
  it("sets the key on a write, and the provider's request id is kept", async () => {
    const { wire, seen } = wireWith(() => new Response("{}", { status: 201, headers: { "request-id": "req_1" } }), {
      profile: stripeProfile,
    });
    await wire.fetch(url, { method: "POST", body: "amount=1" });
    expect(seen[0]?.headers.get("Idempotency-Key")).toBe(key);
    expect(wire.evidence().requests).toEqual([
      { end: "answered", status: 201, requestId: "req_1", read: false, keySent: true },
    ]);
  });

  it("leaves reads without a key, and a key the tool set itself alone", async () => {
    const { wire, seen } = wireWith(() => new Response("{}"), { profile: ietfProfile });
    await wire.fetch(url);
    await wire.fetch(url, { method: "POST", headers: { "idempotency-key": "mine" } });
    expect(seen[0]?.headers.get("Idempotency-Key")).toBeNull();
    expect(seen[1]?.headers.get("Idempotency-Key")).toBe("mine");
    expect(wire.evidence().requests.map((request) => request.keySent)).toEqual([false, false]);
  });

  it("sends a UUID where the profile wants one", async () => {
    const { wire, seen } = wireWith(() => new Response("{}"), { profile: { ...ietfProfile, format: "uuid" } });
    await wire.fetch(url, { method: "POST" });
    expect(seen[0]?.headers.get("Idempotency-Key")).toBe(keyUuid(key));
  });

  it("sees a key that the tool put into the body, and that it did not", async () => {
    const { wire } = wireWith(() => new Response("{}"), {
      profile: { ...ietfProfile, carrier: "body", name: "idempotency_key" },
    });
    await wire.fetch(url, { method: "POST", body: JSON.stringify({ idempotency_key: key }) });
    await wire.fetch(url, { method: "POST", body: "{}" });
    expect(wire.evidence().requests.map((request) => request.keySent)).toEqual([true, false]);
  });

  it("counts the key of a labelled write as sent (G01)", async () => {
    const labelled = subKey(key, "fee");
    const { wire, seen } = wireWith(() => new Response("{}"), { profile: stripeProfile, subKeys: new Set([labelled]) });
    await wire.fetch(url, { method: "POST", headers: { "Idempotency-Key": labelled } });
    expect(seen[0]?.headers.get("Idempotency-Key")).toBe(labelled);
    expect(wire.evidence().requests[0]?.keySent).toBe(true);
  });

  it.each([
    ["ECONNREFUSED", "not_sent"],
    ["ENOTFOUND", "not_sent"],
    ["CERT_HAS_EXPIRED", "not_sent"],
    ["ECONNRESET", "no_answer"],
    ["UND_ERR_SOCKET", "no_answer"],
    ["UND_ERR_HEADERS_TIMEOUT", "no_answer"],
  ])("keeps %s as %s and throws the error itself", async (code, end) => {
    const error = failure(code);
    const { wire } = wireWith(() => error);
    await expect(wire.fetch(url, { method: "POST" })).rejects.toBe(error);
    expect(wire.evidence().requests).toMatchObject([{ end, code }]);
  });

  it("refuses to send after the signal fired, and counts nothing", async () => {
    const stop = new AbortController();
    const { wire, seen } = wireWith(() => new Response("{}"), { stop });
    stop.abort();
    await expect(wire.fetch(url, { method: "POST" })).rejects.toThrow();
    expect(seen).toEqual([]);
    expect(wire.evidence()).toEqual({ requests: [], inFlight: 0, dropped: 0 });
  });

  it("hands its signal to the request", async () => {
    const stop = new AbortController();
    const { wire, seen } = wireWith(() => new Response("{}"), { stop });
    await wire.fetch(url);
    stop.abort();
    expect(seen[0]?.signal.aborted).toBe(true);
  });

  it("keeps a bounded number of requests and counts the rest", async () => {
    const { wire } = wireWith(() => new Response("{}"), { requestsMax: 2 });
    for (let i = 0; i < 5; i += 1) await wire.fetch(url);
    expect(wire.evidence().requests).toHaveLength(2);
    expect(wire.evidence().dropped).toBe(3);
  });
});

describe("codeOf", () => {
  it("finds the code along the causes, and falls back to the name", () => {
    expect(codeOf(failure("ENOTFOUND"))).toBe("ENOTFOUND");
    expect(codeOf(new DOMException("x", "AbortError"))).toBe("AbortError");
    expect(codeOf("text")).toBe("unknown");
  });
});
