// Clients that tools really use: one that takes the key, one that retries on its own, one that mints its own token; and a proxy
// that strips the header. What the tool's span shows of each, and what it cannot.

import { diag } from "@opentelemetry/api";
import { ATTR } from "@reprise/tracing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { spansInMemory } from "../../tracing/test/memory-telemetry.ts";
import { defineTool } from "../src/define-tool.ts";
import type { ToolContext } from "../src/dispatch-call.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { deriveKey } from "../src/key.ts";
import { stripeProfile } from "../src/profiles.ts";
import { buildAgent, configOf, input, replies, scopeOf } from "./agent.ts";

type Fetch = typeof globalThis.fetch;

const exporter = spansInMemory();
const warnings: string[] = [];
const fetchBefore = globalThis.fetch;
beforeEach(() => {
  warnings.length = 0;
  const silent = (): void => undefined;
  const warn = (text: string): void => void warnings.push(text);
  diag.setLogger(
    { error: silent, warn, info: silent, debug: silent, verbose: silent },
    { suppressOverrideMessage: true },
  );
});
afterEach(() => {
  diag.disable();
  globalThis.fetch = fetchBefore;
});

/** Counts effects by key as a provider that honours keys does; a request without one is an effect of its own. */
function provider(answers: readonly number[] = []) {
  const keys: (string | null)[] = [];
  const effects = new Set<string>();
  const fetch: Fetch = async (request) => {
    const key = request instanceof Request ? request.headers.get("idempotency-key") : null;
    keys.push(key);
    effects.add(key ?? `keyless ${keys.length}`);
    const status = answers[keys.length - 1] ?? 200;
    return Response.json({ id: `ch_${effects.size}` }, { status });
  };
  return { keys, effects, fetch };
}

/** The shape of Stripe's client: the key is an option of the call, the transport an option of the client. */
function stripeLike(options: { readonly fetch: Fetch; readonly retries?: number; readonly mint?: () => string }) {
  return {
    async createCharge(body: object, { idempotencyKey }: { readonly idempotencyKey?: string } = {}): Promise<unknown> {
      for (let attempt = 0; ; attempt += 1) {
        const token = options.mint?.() ?? idempotencyKey;
        const headers: Record<string, string> = token === undefined ? {} : { "idempotency-key": token };
        const request = { method: "POST", body: JSON.stringify(body), headers };
        const response = await options.fetch("http://provider.test/v1/charges", request);
        if (response.ok) return response.json();
        if (response.status < 500 || attempt >= (options.retries ?? 0)) throw new Error(`answered ${response.status}`);
      }
    },
  };
}

async function play(run: (context: ToolContext) => Promise<unknown>, ids: readonly string[] = ["toolu_1"]) {
  const tool = defineTool({
    name: "charge",
    description: "Charges.",
    schema: z.object({ amount: z.number() }),
    effect: "keyed",
    profile: stripeProfile,
    run: (_, given) => run(given),
  });
  const turns = ids.map((id, amount) => [{ name: "charge", id, args: { amount } }]);
  const state = await buildAgent({ tools: [tool], turns }).invoke(input, configOf(scopeOf(new MemoryLedger())));
  const spans = exporter.getFinishedSpans().filter(({ name }) => name === "tool:charge");
  return { told: replies(state), spans: spans.map(({ attributes }) => attributes) };
}

const key = deriveKey("t1", "toolu_1");

describe("an SDK that takes the key as an option", () => {
  it("sends it, through our fetch, once", async () => {
    const { keys, fetch } = provider();
    globalThis.fetch = fetch;
    const { told, spans } = await play((given) => stripeLike(given).createCharge({}, { idempotencyKey: given.key }));
    expect(told).toEqual([{ id: "ch_1" }]);
    expect(keys).toEqual([key]);
    expect(spans).toMatchObject([{ [ATTR.toolKeySent]: true, [ATTR.toolHttpRequests]: 1 }]);
    expect(warnings).toEqual([]);
  });
});

describe("an SDK that retries on its own", () => {
  it("shows as more than one request; under the one key the provider acts once", async () => {
    const { keys, effects, fetch } = provider([500, 500]);
    globalThis.fetch = fetch;
    const sdk = (given: ToolContext) => stripeLike({ fetch: given.fetch, retries: 2 });
    const { told, spans } = await play((given) => sdk(given).createCharge({}, { idempotencyKey: given.key }));
    expect(told).toEqual([{ id: "ch_1" }]);
    expect(keys).toEqual([key, key, key]);
    expect(effects.size).toBe(1);
    expect(spans).toMatchObject([{ [ATTR.toolKeySent]: true, [ATTR.toolHttpRequests]: 3 }]);
  });
});

describe("an SDK that mints its own token", () => {
  it("is seen as key_sent=false at each call and warned about once a tool: each retry is another effect", async () => {
    const { keys, effects, fetch } = provider([500]);
    globalThis.fetch = fetch;
    let minted = 0;
    const mint = (): string => {
      minted += 1;
      return `sdk-token-${minted}`;
    };
    const sdk = (given: ToolContext) => stripeLike({ fetch: given.fetch, retries: 1, mint });
    const { spans } = await play(
      (given) => sdk(given).createCharge({}, { idempotencyKey: given.key }),
      ["toolu_1", "toolu_2"],
    );
    expect(keys).toEqual(["sdk-token-1", "sdk-token-2", "sdk-token-3"]);
    expect(effects.size).toBe(3);
    expect(spans).toMatchObject([
      { [ATTR.toolKeySent]: false, [ATTR.toolHttpRequests]: 2 },
      { [ATTR.toolKeySent]: false, [ATTR.toolHttpRequests]: 1 },
    ]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("tool charge");
    expect(warnings[0]).not.toContain(key);
  });
});

describe("a proxy that strips the header", () => {
  it("leaves key_sent true, for the key did leave this process: only the provider's log shows that none arrived", async () => {
    const { keys, fetch } = provider();
    globalThis.fetch = async (request) => {
      const stripped = new Request(request);
      stripped.headers.delete("idempotency-key");
      return fetch(stripped);
    };
    const { spans } = await play((given) => stripeLike(given).createCharge({}, { idempotencyKey: given.key }));
    expect(keys).toEqual([null]);
    expect(spans).toMatchObject([{ [ATTR.toolKeySent]: true, [ATTR.toolHttpRequests]: 1 }]);
    expect(warnings).toEqual([]);
  });
});
