// The key through the four layers that may run a call again, for any ids a provider may give: the same for one call, its own for each.

import { isAIMessage, ToolMessage } from "@langchain/core/messages";
import { MemorySaver } from "@langchain/langgraph";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool } from "../src/define-tool.ts";
import type { Ledger } from "../src/effect.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { deriveKey, keyUuid, subKey } from "../src/key.ts";
import { BarrierSaver } from "../src/langgraph/barrier-saver.ts";
import { restoreProviderIds } from "../src/langgraph/boundary.ts";
import { buildAgent, configOf, input, scopeOf, type Turn } from "./agent.ts";

interface Seen {
  readonly order: number;
  readonly key: string;
  readonly mail: string;
  readonly uuid: string;
  readonly nodeAttempt: number;
}

/** What stands between the claim and the world: loses the process at the first claim, then at the first attempt of the second. */
function twiceLost(inner: Ledger, claimed: string[]): Ledger {
  return {
    claim: async (claim) => {
      claimed.push(claim.key);
      if (claimed.length <= 2) throw new Error("connection lost");
      return inner.claim(claim);
    },
    settle: (settlement) => inner.settle(settlement),
    release: (claim) => inner.release(claim),
    find: (key) => inner.find(key),
    findEcho: (query) => inner.findEcho(query),
    openExecutions: (deliveryId) => inner.openExecutions(deliveryId),
  };
}

const id = fc.oneof(
  fc.constantFrom(undefined, "", "call_0", "charge", "charge:0", "7", "m0#0", "toolu_same", "functions.charge:1"),
  fc.uuid(),
  fc.string({ minLength: 1, maxLength: 210 }),
);
const turnsOfIds = fc.array(fc.array(id, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 3 });

/** One call a number, so that what a call saw can be told apart whatever its id is. */
function turnsOf(ids: readonly (readonly (string | undefined)[])[]): {
  readonly turns: Turn[];
  readonly calls: number;
} {
  let order = 0;
  const turns = ids.map((turn) =>
    turn.map((one) => ({ name: "charge", args: { order: order++ }, ...(one === undefined ? {} : { id: one }) })),
  );
  return { turns, calls: order };
}

async function play(ids: readonly (readonly (string | undefined)[])[]) {
  const { turns, calls } = turnsOf(ids);
  const seen: Seen[] = [];
  const claimed: string[] = [];
  const wire: { readonly order: number; readonly key: string | null }[] = [];
  const charge = defineTool({
    name: "charge",
    description: "Charges.",
    schema: z.object({ order: z.number() }),
    effect: "keyed",
    run: async ({ order }, { key, keyUuid: uuid, subKey: sub, nodeAttempt, fetch }) => {
      seen.push({ order, key, uuid, mail: sub("mail"), nodeAttempt });
      // An SDK's own retry: the request is built anew around the same context. A gateway's repeats the bytes.
      for (const _try of [1, 2]) await fetch(`http://provider.test/${order}`, { method: "POST" });
      return order;
    },
  });
  const real = globalThis.fetch;
  globalThis.fetch = async (request) => {
    const { url, headers } = request as Request;
    wire.push({ order: Number(url.split("/").at(-1)), key: headers.get("idempotency-key") });
    return new Response("{}");
  };
  try {
    const store = new MemorySaver();
    const ledger = twiceLost(new MemoryLedger(), claimed);
    const build = (nodeAttempts: number) =>
      buildAgent({ tools: [charge], turns, saver: new BarrierSaver(store), nodeAttempts });
    // First delivery: lost at its first claim. Second: one step retry, then to the end.
    await build(1)
      .invoke(input, configOf(scopeOf(ledger)))
      .catch(() => undefined);
    const state = await build(2).invoke(null, configOf(scopeOf(ledger)));
    return { state, seen, claimed, wire, calls, provider: ids.flat() };
  } finally {
    globalThis.fetch = real;
  }
}

describe("the key over the four layers, for any ids", () => {
  it("is one a call through SDK retry, gateway retry, step retry and redelivery, and another for every other call", async () => {
    await fc.assert(
      fc.asyncProperty(turnsOfIds, async (ids) => {
        const { seen, claimed, wire, calls, state, provider } = await play(ids);
        const keyOf = new Map(seen.map(({ order, key }) => [order, key]));
        expect(keyOf.size).toBe(calls);
        expect(new Set(keyOf.values()).size).toBe(calls);
        // What claimed before the losses claimed under keys that ran afterwards: no claim under any other key.
        expect(new Set(claimed)).toEqual(new Set(keyOf.values()));
        expect(claimed.length).toBeGreaterThan(calls);
        // Both requests of an execution carried the call's key.
        expect(wire).toHaveLength(2 * calls);
        for (const { order, key } of wire) expect(key).toBe(keyOf.get(order));
        for (const { key, mail, uuid } of seen) {
          expect(mail).toBe(subKey(key, "mail"));
          expect(uuid).toBe(keyUuid(key));
        }
        expect(new Set(seen.flatMap(({ key, mail }) => [key, mail])).size).toBe(2 * calls);
        // The provider is given its own ids back; where it gave none, ours.
        const restored = restoreProviderIds(state.messages);
        const own = restored.flatMap((message) => (isAIMessage(message) ? (message.tool_calls ?? []) : []));
        expect(own.map((call) => call.id)).toEqual(
          provider.map((one, at) => (one === undefined || one === "" ? own[at]?.id : one)),
        );
        const results = restored.filter((message) => ToolMessage.isInstance(message));
        expect(results.map((message) => message.tool_call_id).sort()).toEqual(own.map((call) => call.id).sort());
      }),
      { numRuns: 25 },
    );
  }, 60_000);
});

describe("a fork", () => {
  const charge = (ran: string[]) =>
    defineTool({
      name: "charge",
      description: "Charges.",
      schema: z.object({}),
      effect: "once",
      run: async (_, { key }) => {
        ran.push(key);
        return "charged";
      },
    });

  it("by going back in time keeps the key and replays; only an explicit fork id makes a second effect", async () => {
    const ran: string[] = [];
    const ledger = new MemoryLedger();
    const turns = [[{ name: "charge", id: "toolu_1", args: {} }]];
    const agent = buildAgent({ tools: [charge(ran)], turns });
    await agent.invoke(input, configOf(scopeOf(ledger)));
    const history = [];
    for await (const state of agent.getStateHistory({ configurable: { thread_id: "t1" } })) history.push(state);
    const before = history.find((state) => state.next.includes("tools"))?.config.configurable?.["checkpoint_id"];
    const back = (forkId?: string) => {
      const config = configOf(scopeOf(ledger, forkId === undefined ? {} : { forkId }));
      return agent.invoke(null, { ...config, configurable: { ...config.configurable, checkpoint_id: before } });
    };
    await back();
    expect(ran).toEqual([deriveKey("t1", "toolu_1")]);
    await back("second-invoice");
    await back("second-invoice");
    expect(ran).toEqual([deriveKey("t1", "toolu_1"), deriveKey("t1", "toolu_1", "second-invoice")]);
  });

  it("never meets the key of another thread, call, sub-key or fork, and no empty id is taken for none", () => {
    const part = fc.string({ minLength: 1, maxLength: 12, unit: fc.constantFrom("a", ":", "%", "@", "/", "#", "3A") });
    fc.assert(
      fc.property(part, part, part, part, (thread, ref, fork, other) => {
        const key = deriveKey(thread, ref);
        const forked = deriveKey(thread, ref, fork);
        expect(new Set([key, forked, subKey(key, fork), deriveKey(forked, other), subKey(forked, fork)]).size).toBe(5);
        if (fork !== other) expect(deriveKey(thread, ref, other)).not.toBe(forked);
      }),
    );
    expect(() => deriveKey("t", "c", "")).toThrow(expect.objectContaining({ code: "INVALID_KEY_PART" }));
  });
});
