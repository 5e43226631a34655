// What a tool may say about itself: identity, words, an existing tool as its body; and what it is warned about, once.

import { tool } from "@langchain/core/tools";
import { Command, interrupt } from "@langchain/langgraph";
import { diag } from "@opentelemetry/api";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool, type EffectTool, type ToolDefinition, toolsOf } from "../src/define-tool.ts";
import { wrappedContext, wrapTool } from "../src/define-tool-wrap.ts";
import type { Ledger } from "../src/effect.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { deriveKey } from "../src/key.ts";
import { ietfProfile, type ProviderProfile, resendDeadlineOf, stripeProfile } from "../src/profiles.ts";
import { buildAgent, configOf, input, replies, scopeOf, type Turn } from "./agent.ts";

const warnings: string[] = [];
beforeEach(() => {
  warnings.length = 0;
  const silent = (): void => undefined;
  const warn = (text: string): void => void warnings.push(text);
  diag.setLogger(
    { error: silent, warn, info: silent, debug: silent, verbose: silent },
    { suppressOverrideMessage: true },
  );
});
afterEach(() => diag.disable());

const call = (args: Record<string, unknown>, id = "toolu_abc1"): Turn => [{ name: "charge", id, args }];

async function play(effectTool: EffectTool, turns: readonly Turn[], ledger: Ledger = new MemoryLedger()) {
  const agent = buildAgent({ tools: toolsOf(effectTool), turns });
  return replies(await agent.invoke(input, configOf(scopeOf(ledger))));
}

const about = {
  name: "charge",
  description: "Charges a card.",
  schema: z.object({ amount: z.number(), memo: z.string().optional() }),
} as const;

describe("identity", () => {
  const echoes = async (identity: ToolDefinition<typeof about.schema>["identity"]) => {
    const ledger = new MemoryLedger();
    const asked: unknown[] = [];
    const listening: Ledger = {
      claim: (claim) => ledger.claim(claim),
      settle: (settlement) => ledger.settle(settlement),
      release: (claim) => ledger.release(claim),
      find: (key) => ledger.find(key),
      openExecutions: (deliveryId) => ledger.openExecutions(deliveryId),
      findEcho: async (query) => {
        const echo = await ledger.findEcho(query);
        asked.push(echo);
        return echo;
      },
    };
    const pay = defineTool({
      ...about,
      effect: "once",
      ...(identity === undefined ? {} : { identity }),
      run: async () => {
        throw new Error("socket hang up");
      },
    });
    const turns = [
      call({ amount: 5, memo: "rent" }, "toolu_1"),
      call({ amount: 5, memo: "the rent, again" }, "toolu_2"),
    ];
    await play(pay, turns, listening);
    return { asked, ledger };
  };

  it("finds a reworded call after an unknown one by the arguments that count, and runs it all the same (B11)", async () => {
    const { asked, ledger } = await echoes(["amount"]);
    expect(asked).toEqual([undefined, { toolCallId: "toolu_1", after: "unknown" }]);
    expect(await ledger.find(deriveKey("t1", "toolu_2"))).toMatchObject({ state: "unknown", executions: 1 });
  });

  it("may be a function of the arguments", async () => {
    const { asked } = await echoes((args) => Math.round(args.amount));
    expect(asked).toEqual([undefined, { toolCallId: "toolu_1", after: "unknown" }]);
  });

  it("is all the arguments when a tool declares none: a reworded call is another wish (A16)", async () => {
    expect((await echoes(undefined)).asked).toEqual([undefined, undefined]);
  });

  it("that throws costs the mark, not the call, and is said once", async () => {
    const { asked, ledger } = await echoes(() => {
      throw new Error("no such field");
    });
    expect(asked).toEqual([undefined, undefined]);
    expect(await ledger.find(deriveKey("t1", "toolu_2"))).toMatchObject({ executions: 1 });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("no such field");
  });
});

describe("message", () => {
  const withWords = (message: (value: { id: string }) => string) =>
    defineTool({ ...about, effect: "keyed", profile: stripeProfile, run: async () => ({ id: "ch_1" }), message });

  it("is what the model reads, the first time and at a replay", async () => {
    const ledger = new MemoryLedger();
    const charge = withWords(({ id }) => `Charged as ${id}.`);
    expect(await play(charge, [call({ amount: 5 })], ledger)).toEqual(["Charged as ch_1."]);
    expect(await play(charge, [call({ amount: 5 })], ledger)).toEqual(["Charged as ch_1."]);
    expect(await ledger.find(deriveKey("t1", "toolu_abc1"))).toMatchObject({
      seen: 2,
      result: { json: '{"id":"ch_1"}' },
    });
  });

  it("that throws is replaced by the value: the effect stands", async () => {
    const charge = withWords(() => {
      throw new Error("no words");
    });
    expect(await play(charge, [call({ amount: 5 })])).toEqual([{ id: "ch_1" }]);
    expect(warnings).toHaveLength(1);
  });

  it("is used for reads as well", async () => {
    const read = defineTool({
      ...about,
      effect: "none",
      run: async () => ({ id: "ch_1" }),
      message: ({ id }) => `It is ${id}.`,
    });
    expect(await play(read, [call({ amount: 5 })])).toEqual(["It is ch_1."]);
  });
});

describe("wrapTool", () => {
  const seen: unknown[] = [];
  beforeEach(() => {
    seen.length = 0;
  });
  const existing = tool(
    async (args: { amount: string }, config) => {
      const { key, signal } = wrappedContext(config) ?? {};
      seen.push({ args, key, signal: signal instanceof AbortSignal, thread: config.configurable?.["thread_id"] });
      return { id: "ch_1" };
    },
    {
      name: "charge",
      description: "Charges a card.",
      // Parsed twice, a schema that transforms would refuse its own output.
      schema: z.object({ amount: z.number().transform(String) }),
    },
  );

  it("keeps name, description and schema, runs the body once, and replays what it returned", async () => {
    const wrapped = wrapTool(existing, { effect: "once" });
    expect(wrapped).toMatchObject({
      name: "charge",
      description: "Charges a card.",
      schema: existing.schema,
      effect: "once",
    });
    const ledger = new MemoryLedger();
    expect(await play(wrapped, [call({ amount: 5 })], ledger)).toEqual([{ id: "ch_1" }]);
    expect(await play(wrapped, [call({ amount: 5 })], ledger)).toEqual([{ id: "ch_1" }]);
    const key = deriveKey("t1", "toolu_abc1");
    expect(seen).toEqual([{ args: { amount: "5" }, key, signal: true, thread: "t1" }]);
  });

  it("judges what the body throws as every other body's: unknown, without the tool's own words for an error", async () => {
    const failing = tool(
      async () => {
        throw new Error("timeout, please try again");
      },
      { name: "charge", description: "-", schema: about.schema },
    );
    const [reply] = await play(wrapTool(failing, { effect: "once" }), [call({ amount: 5 })]);
    expect(reply).toMatchObject({ status: "unknown", call: "toolu_abc1" });
    expect(JSON.stringify(reply)).not.toMatch(/try again/i);
  });

  it("takes the artifact's content, marks echoes by the named arguments, and gives a lookup its status tool", async () => {
    const both = tool(async () => ["paid", { big: true }], {
      name: "charge",
      description: "-",
      schema: about.schema,
      responseFormat: "content_and_artifact",
    });
    const wrapped = wrapTool(both, {
      effect: "lookup",
      identity: ["amount"],
      lookup: async () => ({ status: "absent" }),
    });
    expect(toolsOf(wrapped).map(({ name }) => name)).toEqual(["charge", "get_charge_status"]);
    expect(await play(wrapped, [call({ amount: 5 })])).toEqual(["paid"]);
  });

  it("refuses a tool that has a policy already", () => {
    const wrapped = wrapTool(existing, { effect: "once" });
    expect(() => wrapTool(wrapped, { effect: "keyed" })).toThrowError(
      expect.objectContaining({ code: "INVALID_TOOL" }),
    );
  });
});

describe("a Command from a tool with effects", () => {
  it("is refused: the effect is recorded, the graph is not moved, and the developer is told once (item 6)", async () => {
    const goto = defineTool({ ...about, effect: "once", run: async () => new Command({ goto: "elsewhere" }) });
    const turns = [call({ amount: 5 }, "toolu_1"), call({ amount: 6 }, "toolu_2")];
    expect(await play(goto, turns)).toEqual([
      { note: expect.stringContaining("refused") },
      { note: expect.stringContaining("refused") },
    ]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("Command");
  });
});

describe("a pause for a person inside a body", () => {
  const asks = (profile: ProviderProfile, sends: boolean) =>
    defineTool({
      ...about,
      effect: "keyed",
      profile,
      run: async (_args, { fetch }) => {
        if (sends) await fetch("http://127.0.0.1:9/", { method: "POST" }).catch(() => undefined);
        return interrupt("sure?");
      },
    });
  const posts = async (profile: ProviderProfile, sends: boolean): Promise<void> => {
    const original = globalThis.fetch;
    globalThis.fetch = async () => new Response("{}", { status: 202 });
    try {
      await play(asks(profile, sends), [call({ amount: 5 })], new MemoryLedger({ now: () => 0 }));
    } finally {
      globalThis.fetch = original;
    }
  };

  it("is warned about as it begins, with the time after which the answer comes too late, when a request was sent before", async () => {
    await posts(stripeProfile, true);
    expect(warnings).toEqual([expect.stringContaining("an answer after 1970-01-02T00:00:00.000Z")]);
  });

  it("is warned about where nobody knows how long the key holds", async () => {
    await posts(ietfProfile, true);
    expect(warnings).toEqual([expect.stringContaining("whatever the answer")]);
  });

  it("is not warned about when nothing was sent: the key is unused, so no retention runs", async () => {
    await posts(stripeProfile, false);
    expect(warnings).toEqual([]);
  });
});

describe("resendDeadlineOf", () => {
  it("is the first claim plus the retention for keyed calls, and never for all others", () => {
    expect(resendDeadlineOf("keyed", stripeProfile, 1_000)).toBe(86_401_000);
    expect(resendDeadlineOf("keyed", ietfProfile, 1_000)).toBe("never");
    expect(resendDeadlineOf("keyed", undefined, 1_000)).toBe("never");
    expect(resendDeadlineOf("lookup", stripeProfile, 1_000)).toBe("never");
    expect(resendDeadlineOf("once", stripeProfile, 1_000)).toBe("never");
  });
});
