// One call in, one reply out: what the dispatcher does with every decision, over a graph with the stock memory saver.

import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Command, interrupt } from "@langchain/langgraph";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool, type EffectTool, toolsOf } from "../src/define-tool.ts";
import type { LookupResult, ToolContext } from "../src/dispatch-call.ts";
import type { EffectClaim, EffectPolicy, Ledger } from "../src/effect.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { EffectFailed } from "../src/errors.ts";
import { deriveKey, fingerprintArgs, keyUuid, subKey } from "../src/key.ts";
import { stripeProfile } from "../src/profiles.ts";
import { buildAgent, configOf, input, replies, scopeOf, type Turn } from "./agent.ts";

interface ChargeOptions {
  readonly effect?: EffectPolicy;
  readonly timeoutMs?: number;
  readonly lookup?: () => Promise<LookupResult>;
}

function charge(
  run: (args: { amount: number }, context: ToolContext) => Promise<unknown>,
  options: ChargeOptions = {},
): EffectTool {
  return defineTool({
    name: "charge",
    description: "Charges a card.",
    schema: z.object({ amount: z.number() }),
    effect: options.effect ?? "keyed",
    profile: stripeProfile,
    effectRef: (value) => (value as { id?: string }).id,
    ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }),
    ...(options.lookup === undefined ? {} : { lookup: options.lookup }),
    run,
  });
}

const oneCharge: readonly Turn[] = [[{ name: "charge", id: "toolu_abc1", args: { amount: 12 } }]];
const key = deriveKey("t1", "toolu_abc1");

/** A claim of an earlier execution that was lost. */
const lostClaim = (changes: Partial<EffectClaim> = {}): EffectClaim => ({
  key,
  owner: { threadId: "t1", tool: "charge", toolCallId: "toolu_abc1" },
  argsFingerprint: fingerprintArgs({ amount: 12 }),
  policy: "keyed",
  retentionMs: 86_400_000,
  leaseMs: 0,
  nonce: "lost",
  holder: "host:0",
  execution: { runId: "run-1", deliveryId: "delivery-0", nodeAttempt: 1 },
  ...changes,
});

async function play(tool: EffectTool, ledger: Ledger, turns = oneCharge) {
  const agent = buildAgent({ tools: toolsOf(tool), turns });
  return replies(await agent.invoke(input, configOf(scopeOf(ledger))));
}

describe("a call that is executed", () => {
  it("runs once, is recorded and told in the tool's own words", async () => {
    const ledger = new MemoryLedger();
    let context: ToolContext | undefined;
    const tool = charge(async (args, given) => {
      context = given;
      expect([given.key, given.keyUuid, given.subKey("fee")]).toEqual([key, keyUuid(key), subKey(key, "fee")]);
      return { id: "ch_1", amount: args.amount };
    });
    expect(await play(tool, ledger)).toEqual([{ id: "ch_1", amount: 12 }]);
    expect(context).toMatchObject({ threadId: "t1", toolCallId: "toolu_abc1", nodeAttempt: 1 });
    expect(await ledger.find(key)).toMatchObject({
      state: "done",
      effectRef: "ch_1",
      policy: "keyed",
      retentionMs: stripeProfile.retentionMs,
      argsFingerprint: fingerprintArgs({ amount: 12 }),
      executions: 1,
    });
  });

  it("runs two calls of one message that share an id, under two keys (A04)", async () => {
    const amounts: number[] = [];
    const tool = charge(async ({ amount }) => amounts.push(amount));
    const turns = [
      [
        { name: "charge", id: "x1abcdef", args: { amount: 1 } },
        { name: "charge", id: "x1abcdef", args: { amount: 2 } },
      ],
    ];
    await play(tool, new MemoryLedger(), turns);
    expect(amounts).toEqual([1, 2]);
  });

  it("runs two equal wishes of two turns twice (A16)", async () => {
    let runs = 0;
    const tool = charge(async () => {
      runs += 1;
      return runs;
    });
    const turns = ["toolu_day1", "toolu_day2"].map((id) => [{ name: "charge", id, args: { amount: 5 } }]);
    expect(await play(tool, new MemoryLedger(), turns)).toEqual([1, 2]);
  });

  it("takes the fingerprint from the model's arguments, not from what the body builds (G03)", async () => {
    const ledger = new MemoryLedger();
    await play(
      charge(async ({ amount }) => ({ amount, requestedAt: 1 })),
      ledger,
    );
    const again = await ledger.claim(lostClaim({ nonce: "n2" }));
    expect(again.kind).toBe("replay");
  });

  it("still carries a result that is too large for the ledger", async () => {
    const ledger = new MemoryLedger();
    const [reply] = await play(
      charge(async () => "x".repeat(70_000)),
      ledger,
    );
    expect(reply).toHaveLength(70_000);
    expect((await ledger.find(key))?.result).toMatchObject({ kind: "too_large", bytes: 70_002 });
  });
});

describe("a call that was executed before", () => {
  it("is replayed, its body not run (B05, B14)", async () => {
    const ledger = new MemoryLedger();
    await play(
      charge(async () => ({ id: "ch_1" })),
      ledger,
    );
    const [reply] = await play(
      charge(() => Promise.reject(new Error("must not run"))),
      ledger,
    );
    expect(reply).toEqual({ id: "ch_1" });
    expect((await ledger.find(key))?.seen).toBe(2);
  });

  it("is replayed as the failure that it was (G02)", async () => {
    const ledger = new MemoryLedger();
    await play(
      charge(() => Promise.reject(new EffectFailed("card declined"))),
      ledger,
    );
    const [reply] = await play(
      charge(async () => ({ id: "ch_1" })),
      ledger,
    );
    expect(reply).toEqual({ status: "failed", detail: "card declined" });
  });

  it("is sent again under the same key when the provider honours it (B13)", async () => {
    const ledger = new MemoryLedger();
    await ledger.claim(lostClaim());
    expect(
      await play(
        charge(async (_, context) => ({ id: context.key })),
        ledger,
      ),
    ).toEqual([{ id: key }]);
    expect((await ledger.find(key))?.executions).toBe(2);
  });

  it("is unknown, its body not run, when it may be sent only once (B13)", async () => {
    const ledger = new MemoryLedger();
    await ledger.claim(lostClaim({ policy: "once" }));
    const [reply] = await play(
      charge(() => Promise.reject(new Error("must not run")), { effect: "once" }),
      ledger,
    );
    expect(reply).toMatchObject({ status: "unknown", call: "toolu_abc1" });
  });

  it("is refused with other arguments, its body not run (G01)", async () => {
    const ledger = new MemoryLedger();
    await ledger.claim(lostClaim({ argsFingerprint: fingerprintArgs({ amount: 1300 }) }));
    const [reply] = await play(
      charge(() => Promise.reject(new Error("must not run"))),
      ledger,
    );
    expect(reply).toMatchObject({ status: "failed" });
    expect(JSON.stringify(reply)).toContain("other arguments");
  });
});

describe("a lookup", () => {
  const lost = lostClaim({ policy: "lookup" });
  const never = (): Promise<never> => Promise.reject(new Error("must not run"));
  const withLookup = (result: LookupResult): EffectTool =>
    charge(never, { effect: "lookup", lookup: async () => result });

  it("that finds the effect settles it", async () => {
    const ledger = new MemoryLedger();
    await ledger.claim(lost);
    const found = { status: "found", value: { id: "ch_9" }, effectRef: "ch_9" } as const;
    expect(await play(withLookup(found), ledger)).toEqual([{ id: "ch_9" }]);
    expect(await ledger.find(key)).toMatchObject({
      state: "done",
      evidence: "found by the tool's lookup",
      effectRef: "ch_9",
    });
  });

  it("that does not find it never licenses sending again: unknown, naming the status tool", async () => {
    const ledger = new MemoryLedger();
    await ledger.claim(lost);
    const [reply] = await play(withLookup({ status: "absent" }), ledger);
    expect(reply).toMatchObject({ status: "unknown", call: "toolu_abc1" });
    expect(JSON.stringify(reply)).toContain("get_charge_status");
    expect((await ledger.find(key))?.state).toBe("unknown");
  });

  it("that fails itself leaves the call unknown", async () => {
    const ledger = new MemoryLedger();
    await ledger.claim(lost);
    const tool = charge(never, { effect: "lookup", lookup: () => Promise.reject(new Error("503")) });
    expect(await play(tool, ledger)).toMatchObject([{ status: "unknown" }]);
  });

  it("comes as a tool of its own that derives the earlier call's key and settles what it finds", async () => {
    const ledger = new MemoryLedger();
    let found: LookupResult = { status: "absent" };
    const keys: string[] = [];
    const tool = defineTool({
      name: "charge",
      description: "Charges a card.",
      schema: z.object({ amount: z.number() }),
      effect: "lookup",
      lookup: async (context) => {
        keys.push(context.key);
        return found;
      },
      run: () => Promise.reject(new Error("connection lost")),
    });
    const ask = (id: string, call = "toolu_abc1"): Turn => [{ name: "get_charge_status", id, args: { call } }];
    const [first, absent] = await play(tool, ledger, [...oneCharge, ask("toolu_ask1")]);
    expect(first).toMatchObject({ status: "unknown" });
    expect(absent).toMatchObject({ status: "unknown", call: "toolu_abc1" });
    found = { status: "found", value: { id: "ch_9" } };
    const [, , done, stranger] = await play(tool, ledger, [
      ...oneCharge,
      ask("toolu_ask1"),
      ask("toolu_ask2"),
      ask("toolu_ask3", "other"),
    ]);
    expect(done).toMatchObject({ status: "done", result: { id: "ch_9" } });
    expect(stranger).toMatchObject({ status: "not_sent", call: "other" });
    expect(new Set(keys)).toEqual(new Set([key]));
    expect((await ledger.find(key))?.state).toBe("done");
  });
});

describe("a body that fails", () => {
  it("is unknown when nothing proves that nothing happened (B11)", async () => {
    const ledger = new MemoryLedger();
    const [reply] = await play(
      charge(() => Promise.reject(new Error("socket hang up, please try again"))),
      ledger,
    );
    expect(reply).toMatchObject({ status: "unknown", call: "toolu_abc1" });
    expect(JSON.stringify(reply)).not.toMatch(/try again|retry/i);
    expect((await ledger.find(key))?.state).toBe("unknown");
  });

  it("is unknown at its timeout, when it heeds its signal", async () => {
    const tool = charge(
      (_, { signal }) =>
        new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
      { timeoutMs: 5 },
    );
    expect(await play(tool, new MemoryLedger())).toMatchObject([{ status: "unknown" }]);
  });

  it("is done when it ends well after its signal, within the grace (C20)", async () => {
    const ledger = new MemoryLedger();
    const tool = charge(
      (_, { signal }) => new Promise((resolve) => signal.addEventListener("abort", () => resolve({ id: "ch_1" }))),
      { timeoutMs: 5 },
    );
    expect(await play(tool, ledger)).toEqual([{ id: "ch_1" }]);
    expect((await ledger.find(key))?.state).toBe("done");
  });

  it("throws synchronously and is judged like any other", async () => {
    const tool = charge(() => {
      throw new EffectFailed("bad account");
    });
    expect(await play(tool, new MemoryLedger())).toEqual([{ status: "failed", detail: "bad account" }]);
  });

  it("does not fail the call for a faulty effectRef: the effect stands", async () => {
    const ledger = new MemoryLedger();
    const [reply] = await play(
      charge(async () => null),
      ledger,
    );
    expect(reply).toBeNull();
    expect((await ledger.find(key))?.state).toBe("done");
  });
});

describe("arguments", () => {
  it("that do not fit the schema are told with their path, and nothing is claimed", async () => {
    const ledger = new MemoryLedger();
    const turns = [[{ name: "charge", id: "toolu_abc1", args: { amount: "twelve" } }]];
    const [reply] = await play(
      charge(async () => 1),
      ledger,
      turns,
    );
    expect(reply).toMatchObject({ status: "failed" });
    expect(JSON.stringify(reply)).toContain("amount");
    expect(await ledger.find(key)).toBeUndefined();
  });

  it.each([true, false])(
    "that the end of the model's output cut are never executed (whole state: %s), and nothing is claimed (G07)",
    async (wholeState) => {
      const ledger = new MemoryLedger();
      let runs = 0;
      const tool = charge(async () => {
        runs += 1;
      });
      const agent = buildAgent({ tools: [tool], turns: [], wholeState });
      const config = configOf(scopeOf(ledger));
      const { stampCalls } = await import("../src/langgraph/boundary.ts");
      const cut = new AIMessage({
        id: "m0",
        content: "",
        response_metadata: { finish_reason: "length" },
        tool_calls: [{ name: "charge", id: "toolu_abc1", args: { amount: 12 }, type: "tool_call" }],
      });
      await agent.updateState(config, { messages: [new HumanMessage("go"), stampCalls(cut, [])] }, "model");
      const [reply] = replies(await agent.invoke(null, config));
      expect(reply).toMatchObject({ status: "failed" });
      expect(runs).toBe(0);
      expect(await ledger.find(key)).toBeUndefined();
    },
  );
});

describe("a run that has to stop", () => {
  it("does not start an effect after its signal, and tells the model nothing", async () => {
    const ledger = new MemoryLedger();
    const stop = new AbortController();
    stop.abort();
    const agent = buildAgent({ tools: [charge(async () => 1)], turns: oneCharge });
    const config = configOf(scopeOf(ledger, { signal: stop.signal }));
    await expect(agent.invoke(input, config)).rejects.toMatchObject({ code: "RUN_ABORTED" });
    expect(await ledger.find(key)).toBeUndefined();
  });

  it("leaves the row reserved when it stops mid-effect, for the next delivery to take by its policy", async () => {
    const ledger = new MemoryLedger();
    const stop = new AbortController();
    const tool = charge(
      (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
          stop.abort();
        }),
    );
    const agent = buildAgent({ tools: [tool], turns: oneCharge });
    await expect(agent.invoke(input, configOf(scopeOf(ledger, { signal: stop.signal })))).rejects.toMatchObject({
      code: "RUN_ABORTED",
    });
    expect((await ledger.find(key))?.state).toBe("reserved");
  });

  it("records an effect that ended while it stopped, and stops all the same", async () => {
    const ledger = new MemoryLedger();
    const stop = new AbortController();
    const tool = charge(async () => {
      stop.abort();
      return { id: "ch_1" };
    });
    const agent = buildAgent({ tools: [tool], turns: oneCharge });
    await expect(agent.invoke(input, configOf(scopeOf(ledger, { signal: stop.signal })))).rejects.toMatchObject({
      code: "RUN_ABORTED",
    });
    expect((await ledger.find(key))?.state).toBe("done");
  });

  it("does not start an effect once its lease is gone", async () => {
    const ledger = new MemoryLedger();
    const agent = buildAgent({ tools: [charge(async () => 1)], turns: oneCharge });
    const config = configOf(scopeOf(ledger, { isLeaseLive: () => false }));
    await expect(agent.invoke(input, config)).rejects.toMatchObject({ code: "FENCE_LOST" });
    expect(await ledger.find(key)).toBeUndefined();
  });

  it("stops when the ledger fences its claim", async () => {
    const ledger = new MemoryLedger({ currentFence: () => "8" });
    const agent = buildAgent({ tools: [charge(async () => 1)], turns: oneCharge });
    await expect(agent.invoke(input, configOf(scopeOf(ledger, { threadFence: "7" })))).rejects.toMatchObject({
      code: "FENCE_LOST",
    });
  });

  it("stops when another holder took the row over during its effect", async () => {
    const ledger = new MemoryLedger();
    const tool = charge(async () => {
      const taken = await ledger.claim(
        lostClaim({ nonce: "new", execution: { runId: "run-1", deliveryId: "d2", nodeAttempt: 1, threadFence: 9n } }),
      );
      expect(taken.kind).toBe("resend");
      return 1;
    });
    const agent = buildAgent({ tools: [tool], turns: oneCharge });
    await expect(agent.invoke(input, configOf(scopeOf(ledger, { threadFence: "8" })))).rejects.toMatchObject({
      code: "FENCE_LOST",
    });
  });
});

describe("a pause for a human inside a body", () => {
  it("withdraws the claim, so that the resumed body runs (once)", async () => {
    const ledger = new MemoryLedger();
    const tool = charge(async ({ amount }) => (interrupt("sure?") === "yes" ? { id: `ch_${amount}` } : "declined"), {
      effect: "once",
    });
    const agent = buildAgent({ tools: [tool], turns: oneCharge });
    const config = configOf(scopeOf(ledger));
    const paused = await agent.invoke(input, config);
    expect(paused).toHaveProperty("__interrupt__");
    expect(await ledger.find(key)).toBeUndefined();
    expect(replies(await agent.invoke(new Command({ resume: "yes" }), config))).toEqual([{ id: "ch_12" }]);
    expect(await ledger.find(key)).toMatchObject({ state: "done", executions: 1 });
  });
});

describe("a ledger that cannot be reached", () => {
  it("stops the run before the effect", async () => {
    const ledger: Ledger = Object.assign(new MemoryLedger(), {
      claim: () => Promise.reject(new Error("pool exhausted")),
    });
    let runs = 0;
    const tool = charge(async () => {
      runs += 1;
    });
    await expect(play(tool, ledger)).rejects.toThrow("pool exhausted");
    expect(runs).toBe(0);
  });

  it("still tells the truth after the effect, and leaves the row reserved (B13)", async () => {
    const ledger = new MemoryLedger();
    const broken: Ledger = Object.assign(Object.create(ledger) as Ledger, {
      claim: (claim: EffectClaim) => ledger.claim(claim),
      settle: () => Promise.reject(new Error("pool exhausted")),
    });
    expect(
      await play(
        charge(async () => ({ id: "ch_1" })),
        broken,
      ),
    ).toEqual([{ id: "ch_1" }]);
    expect((await ledger.find(key))?.state).toBe("reserved");
  });
});

describe("a tool without effects", () => {
  const read = (run: () => Promise<unknown>) =>
    defineTool({ name: "read", description: "Reads.", schema: z.object({}), effect: "none", run });

  it("needs no ledger, no saver and no call", async () => {
    expect(await read(async () => ({ balance: 3 })).invoke({})).toEqual({ balance: 3 });
    const agent = buildAgent({
      tools: [read(async () => "fine")],
      turns: [[{ name: "read", id: "toolu_r", args: {} }]],
      saver: null,
    });
    expect(replies(await agent.invoke(input))).toEqual(["fine"]);
  });

  it("tells its failure without an invitation, and throws only to a direct caller", async () => {
    const tool = read(() => Promise.reject(new Error("503")));
    const reply: unknown = await tool.invoke({ type: "tool_call", name: "read", id: "c", args: {} });
    expect(ToolMessage.isInstance(reply) && reply.content).toBe('{"status":"failed","detail":"503"}');
    await expect(tool.invoke({})).rejects.toThrow("503");
  });

  it("lets a Command pass untouched", async () => {
    const command = new Command({ goto: "elsewhere" });
    expect(await read(async () => command).invoke({ type: "tool_call", name: "read", id: "c", args: {} })).toBe(
      command,
    );
  });
});

describe("an effectful tool called directly", () => {
  it("is refused with NO_CALL_ID", async () => {
    await expect(charge(async () => 1).invoke({ amount: 1 })).rejects.toMatchObject({ code: "NO_CALL_ID" });
    const empty = { type: "tool_call" as const, name: "charge", id: "", args: { amount: 1 } };
    await expect(charge(async () => 1).invoke(empty)).rejects.toMatchObject({ code: "NO_CALL_ID" });
  });

  it("is refused without a ledger", async () => {
    const agent = buildAgent({ tools: [charge(async () => 1)], turns: oneCharge });
    await expect(agent.invoke(input, { configurable: { thread_id: "t1" }, durability: "sync" })).rejects.toMatchObject({
      code: "NO_EFFECT_SCOPE",
    });
  });
});

describe("defineTool", () => {
  const base = { name: "x", description: "x", schema: z.object({}), run: async () => 1 };
  it.each([
    ["a lookup policy without a lookup", { ...base, effect: "lookup" }],
    ["a name that providers refuse", { ...base, name: "a b", effect: "none" }],
    ["a timeout of 0", { ...base, effect: "none", timeoutMs: 0 }],
    ["a profile too short for our keys", { ...base, effect: "keyed", profile: { ...stripeProfile, maxLength: 20 } }],
  ] as const)("refuses %s", (_name, definition) => {
    expect(() => defineTool(definition)).toThrow(expect.objectContaining({ code: "INVALID_TOOL" }));
  });
});

describe("a call whose policy rules out sending again", () => {
  it.each(["once", "lookup"] as const)(
    "sends one request when the answer is the profile's in-flight status (%s, G09)",
    async (effect) => {
      const { fetch } = globalThis;
      let sends = 0;
      globalThis.fetch = async () => {
        sends += 1;
        return new Response("{}", { status: sends === 1 ? 409 : 200 });
      };
      const body = async (_: unknown, context: ToolContext): Promise<unknown> => {
        const response = await context.fetch("https://api.example.test/", { method: "POST", body: "amount=12" });
        if (!response.ok) throw new Error(`answered ${response.status}`);
        return { id: "ch_1" };
      };
      const lookup = async (): Promise<LookupResult> => ({ status: "absent" });
      const [reply] = await play(charge(body, { effect, lookup }), new MemoryLedger());
      globalThis.fetch = fetch;
      expect(sends).toBe(1);
      expect(reply).toMatchObject({ status: "failed" });
    },
  );
});
