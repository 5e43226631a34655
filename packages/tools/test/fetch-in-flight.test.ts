// An answer "another request with this key is running": waited out under the same key, bounded, every request counted.

import { describe, expect, it } from "vitest";
import type { Clock } from "../src/dispatch-body.ts";
import { createWire, type WireOptions } from "../src/fetch.ts";
import { pauseBefore } from "../src/fetch-in-flight.ts";
import { deriveKey } from "../src/key.ts";
import { classifyFailure } from "../src/outcome.ts";
import { stripeProfile } from "../src/profiles.ts";

const key = deriveKey("t", "c");
const url = "https://api.example.test/v1/charges";

interface Scene {
  /** Statuses in order; the last one is given for ever. */
  readonly statuses: readonly number[];
  readonly untilMs?: number;
  readonly onSleep?: (nowMs: number) => number;
  readonly options?: Partial<WireOptions>;
}

function scene({ statuses, untilMs = 60_000, onSleep = (nowMs) => nowMs, options = {} }: Scene) {
  const bodies: string[] = [];
  const keys: (string | null)[] = [];
  const slept: number[] = [];
  let nowMs = 0;
  const clock: Clock = {
    now: () => nowMs,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      slept.push(ms);
      nowMs = onSleep(nowMs + ms);
      signal?.throwIfAborted();
    },
  };
  const fetch: typeof globalThis.fetch = async (input) => {
    const request = new Request(input);
    keys.push(request.headers.get("Idempotency-Key"));
    bodies.push(await request.text());
    return new Response("{}", { status: statuses[Math.min(bodies.length, statuses.length) - 1] ?? 200 });
  };
  const wire = createWire({
    key: () => key,
    stop: new AbortController(),
    profile: stripeProfile,
    fetch,
    inFlightWait: { clock, untilMs, random: () => 1 },
    ...options,
  });
  const judged = (): string => {
    const { outcome, reason } = classifyFailure({
      error: new Error("boom"),
      policy: "keyed",
      wire: wire.evidence(),
      profile: stripeProfile,
    });
    return `${outcome} ${reason}`;
  };
  return { wire, bodies, keys, slept, judged };
}
const post: RequestInit = { method: "POST", body: "amount=12" };

describe("an answer that a request with this key is running", () => {
  it("is waited out: the same request again under the same key, every one counted", async () => {
    const { wire, bodies, keys, slept } = scene({ statuses: [409, 409, 201] });
    expect((await wire.fetch(url, post)).status).toBe(201);
    expect(bodies).toEqual(["amount=12", "amount=12", "amount=12"]);
    expect(keys).toEqual([key, key, key]);
    expect(slept).toEqual([100, 200]);
    expect(wire.evidence().requests.map((request) => request.end === "answered" && request.status)).toEqual([
      409, 409, 201,
    ]);
  });

  it("is unknown when it is the answer at the end too, and the body gets it before its time is over", async () => {
    const { wire, bodies, slept, judged } = scene({ statuses: [409], untilMs: 1_000 });
    expect((await wire.fetch(url, post)).status).toBe(409);
    expect(slept).toEqual([100, 200, 400]);
    expect(bodies).toHaveLength(4);
    expect(judged()).toBe("unknown in_flight");
  });

  it("counts no more once the key is answered: a decline after it is proven", async () => {
    const { wire, judged } = scene({ statuses: [409, 402] });
    await wire.fetch(url, post);
    expect(judged()).toBe("failed refused");
  });

  it.each([401, 403, 429])(
    "still counts after a %i, which says nothing of the request that was running",
    async (status) => {
      const { wire, judged } = scene({ statuses: [409, status] });
      await wire.fetch(url, post);
      expect(judged()).toBe("unknown in_flight");
    },
  );

  it("still counts when the next request never left", async () => {
    let sends = 0;
    const refused = Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
    const { wire, judged } = scene({
      statuses: [],
      options: {
        fetch: async () => {
          sends += 1;
          if (sends > 1) throw refused;
          return new Response("{}", { status: 409 });
        },
      },
    });
    await expect(wire.fetch(url, post)).rejects.toBe(refused);
    expect(judged()).toBe("unknown in_flight");
  });

  it("is not waited for past the signal", async () => {
    const stop = new AbortController();
    const onSleep = (nowMs: number): number => {
      stop.abort();
      return nowMs;
    };
    const { wire, bodies } = scene({ statuses: [409], onSleep, options: { stop } });
    await expect(wire.fetch(url, post)).rejects.toThrow();
    expect(bodies).toHaveLength(1);
  });

  it("sends nothing when the process was frozen past the tool's time", async () => {
    const { wire, bodies, judged } = scene({ statuses: [409, 201], onSleep: () => 60_001 });
    await expect(wire.fetch(url, post)).rejects.toThrow("Still in flight");
    expect(bodies).toHaveLength(1);
    expect(judged()).toBe("unknown in_flight");
  });

  it.each([
    ["a read", { method: "GET" }],
    ["a request without our key", { ...post, headers: { "Idempotency-Key": "of the tool's own" } }],
    ["a FormData body, which differs each time", { method: "POST", body: new FormData() }],
    ["a stream, which is used up", { method: "POST", body: new Blob(["x"]).stream(), duplex: "half" }],
  ] satisfies readonly (readonly [string, RequestInit])[])("is handed over as it is for %s", async (_name, init) => {
    const { wire, bodies } = scene({ statuses: [409, 201] });
    expect((await wire.fetch(url, init)).status).toBe(409);
    expect(bodies).toHaveLength(1);
  });

  it("is handed over as it is by a profile without such a status, and by a call that may not be sent again", async () => {
    const { inFlightStatus: _none, ...silent } = stripeProfile;
    for (const options of [{ profile: silent }, { inFlightWait: undefined }]) {
      const { wire, bodies } = scene({ statuses: [409, 201], options: options as Partial<WireOptions> });
      expect((await wire.fetch(url, post)).status).toBe(409);
      expect(bodies).toHaveLength(1);
    }
  });
});

describe("the pause before the next request", () => {
  const at = (resend: number, random: number): number | undefined =>
    pauseBefore(resend, {
      clock: { now: () => 0, sleep: async () => undefined },
      untilMs: 10_000,
      random: () => random,
    });

  it("doubles to its cap, and half of it is jitter", () => {
    expect([0, 1, 2, 10, 2_000].map((resend) => at(resend, 1))).toEqual([100, 200, 400, 5_000, 5_000]);
    expect([0, 1, 10].map((resend) => at(resend, 0))).toEqual([50, 100, 2_500]);
  });
});
