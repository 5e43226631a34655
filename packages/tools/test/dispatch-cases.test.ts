// Real reports, each with its own input and the right answer: what happens to a call that was edited, timed out, or asked again.

import { ToolMessage } from "@langchain/core/messages";
import { Command, interrupt } from "@langchain/langgraph";
import { ATTR } from "@reprise/tracing";
import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { spansInMemory } from "../../tracing/test/memory-telemetry.ts";
import { defineTool, type EffectTool, toolsOf } from "../src/define-tool.ts";
import type { LookupResult, ToolContext } from "../src/dispatch-call.ts";
import type { EffectPolicy, Ledger } from "../src/effect.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { deriveKey, fingerprintArgs } from "../src/key.ts";
import { stripeProfile } from "../src/profiles.ts";
import { buildAgent, configOf, input, replies, scopeOf, type Turn } from "./agent.ts";

const exporter = spansInMemory();
const fetchBefore = globalThis.fetch;
afterEach(() => {
  globalThis.fetch = fetchBefore;
});

interface ChargeOptions {
  readonly effect?: EffectPolicy;
  readonly timeoutMs?: number;
  readonly lookup?: () => Promise<LookupResult>;
}

const charge = (
  run: (args: { amount: number }, context: ToolContext) => Promise<unknown>,
  { effect = "keyed", ...rest }: ChargeOptions = {},
): EffectTool =>
  defineTool({
    name: "charge",
    description: "Charges a card.",
    schema: z.object({ amount: z.number() }),
    effect,
    profile: stripeProfile,
    ...rest,
    run,
  });

const call = (amount: number, id = "toolu_abc1"): Turn[number] => ({ name: "charge", id, args: { amount } });
const key = deriveKey("t1", "toolu_abc1");

async function play(tool: EffectTool, ledger: Ledger, turns: readonly Turn[] = [[call(12)]]) {
  return replies(await buildAgent({ tools: toolsOf(tool), turns }).invoke(input, configOf(scopeOf(ledger))));
}

const spansOf = (tool: string) => exporter.getFinishedSpans().filter(({ name }) => name === `tool:${tool}`);
const post = async ({ fetch }: ToolContext, body = "{}"): Promise<unknown> => {
  const response = await fetch("http://provider.test/v1/charges", { method: "POST", body });
  if (!response.ok) throw new Error(`the provider answered ${response.status}`);
  return response.json();
};

describe("one call that asks a person twice beside one that charges", () => {
  it("charges once; the second and third entry answer from the ledger, without a request (B05)", async () => {
    const ledger = new MemoryLedger();
    let charges = 0;
    globalThis.fetch = async () => {
      charges += 1;
      return Response.json({ id: "ch_1" });
    };
    const ask = defineTool({
      name: "ask_human",
      description: "Asks.",
      schema: z.object({}),
      effect: "none",
      run: async () => `${interrupt("which card?")} and ${interrupt("sure?")}`,
    });
    // The whole message in one task, as a ToolNode has it: each answer runs the finished sibling's code again.
    const agent = buildAgent({
      tools: [charge((_, given) => post(given)), ask],
      turns: [[call(10), { name: "ask_human", id: "toolu_ask1", args: {} }]],
      wholeState: true,
    });
    const config = configOf(scopeOf(ledger));
    await agent.invoke(input, config);
    await agent.invoke(new Command({ resume: "visa" }), config);
    const ended = await agent.invoke(new Command({ resume: "yes" }), config);
    expect(replies(ended)).toEqual([{ id: "ch_1" }, "visa and yes"]);
    expect(charges).toBe(1);
    expect(
      spansOf("charge").map(({ attributes }) => [attributes[ATTR.toolReplayed], attributes[ATTR.toolHttpRequests]]),
    ).toEqual([
      [false, 1],
      [true, undefined],
      [true, undefined],
    ]);
  });
});

describe("a charge that timed out and is asked for again by the model", () => {
  it("is another call, marked as an echo of the unknown one: different ids and messages, not a step that was retried (B10)", async () => {
    const ledger = new MemoryLedger();
    const keys: string[] = [];
    const tool = charge(async (_, given) => {
      keys.push(given.key);
      throw new Error("timeout");
    });
    await play(tool, ledger, [[call(12, "toolu_1")], [call(12, "toolu_2")]]);
    expect(new Set(keys).size).toBe(2);
    const [first, second] = spansOf("charge");
    expect(first?.attributes[ATTR.toolEchoOf]).toBeUndefined();
    expect(second?.attributes).toMatchObject({
      [ATTR.toolEchoOf]: "toolu_1",
      [ATTR.toolDecision]: "execute",
      [ATTR.nodeAttempt]: 1,
    });
    expect((await ledger.find(deriveKey("t1", "toolu_1")))?.owner.assistantMessageId).not.toBe(
      (await ledger.find(deriveKey("t1", "toolu_2")))?.owner.assistantMessageId,
    );
  });
});

describe("a charge that times out on its read", () => {
  it("is sent once, is unknown, names get_charge_status, and invites no new call (B11)", async () => {
    const ledger = new MemoryLedger();
    let sent = 0;
    globalThis.fetch = async (request) => {
      sent += 1;
      const { signal } = request instanceof Request ? request : new Request(request);
      return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    };
    const lookup = async (): Promise<LookupResult> => ({ status: "absent" });
    const [reply] = await play(
      charge((_, given) => post(given), { timeoutMs: 30, lookup }),
      ledger,
    );
    expect(sent).toBe(1);
    expect(await ledger.find(key)).toMatchObject({ state: "unknown", executions: 1 });
    expect(reply).toMatchObject({ status: "unknown", call: "toolu_abc1" });
    expect(JSON.stringify(reply)).toContain("get_charge_status");
    expect(JSON.stringify(reply)).not.toMatch(/again|retry/i);
  });
});

describe("an effect whose record could not be written", () => {
  it.each([
    ["once", "unknown", 1],
    ["lookup", "done", 1],
    ["keyed", "done", 2],
  ] as const)("%s: the redelivery ends %s after %i request(s) (B13)", async (effect, state, requests) => {
    let nowMs = Date.parse("2026-11-30T10:00:00Z");
    const ledger = new MemoryLedger({ now: () => nowMs });
    const provider = new Map<string, number>();
    const tool = charge(
      async (_, given) => {
        provider.set(given.key, (provider.get(given.key) ?? 0) + 1);
        return { id: "ch_1" };
      },
      {
        effect,
        ...(effect === "lookup" ? { lookup: async () => ({ status: "found", value: { id: "ch_1" } }) as const } : {}),
      },
    );
    const exhausted: Ledger = {
      claim: (claim) => ledger.claim(claim),
      settle: () => Promise.reject(new Error("pool exhausted")),
      release: (claim) => ledger.release(claim),
      find: (found) => ledger.find(found),
      findEcho: (query) => ledger.findEcho(query),
      openExecutions: (deliveryId) => ledger.openExecutions(deliveryId),
    };
    await play(tool, exhausted);
    expect((await ledger.find(key))?.state).toBe("reserved");
    // Past the lease of a tool with 30 seconds.
    nowMs += 36_000;
    await play(tool, ledger);
    expect(await ledger.find(key)).toMatchObject({ state });
    expect(provider.get(key)).toBe(requests);
  });
});

describe("four parallel calls of which the fourth never ended", () => {
  it("are answered from the ledger, and only the fourth is unknown (B14)", async () => {
    let nowMs = 0;
    const ledger = new MemoryLedger({ now: () => nowMs });
    const turn: Turn = [1, 2, 3, 4].map((n) => call(n, `toolu_${n}`));
    const runs: number[] = [];
    const tool = charge(
      async ({ amount }) => {
        runs.push(amount);
        return { id: `ch_${amount}` };
      },
      { effect: "once" },
    );
    await play(tool, ledger, [turn.slice(0, 3)]);
    const died = await ledger.claim({
      key: deriveKey("t1", "toolu_4"),
      owner: { threadId: "t1", tool: "charge", toolCallId: "toolu_4" },
      argsFingerprint: fingerprintArgs({ amount: 4 }),
      policy: "once",
      leaseMs: 1_000,
      nonce: "killed",
      holder: "host:0",
      execution: { runId: "run-1", deliveryId: "delivery-0", nodeAttempt: 1 },
    });
    expect(died.kind).toBe("execute");
    // Past every lease, those of the three that are done included.
    nowMs = 60_000;
    const answered = await play(tool, ledger, [turn]);
    expect(answered).toMatchObject([
      { id: "ch_1" },
      { id: "ch_2" },
      { id: "ch_3" },
      { status: "unknown", call: "toolu_4" },
    ]);
    expect(runs).toEqual([1, 2, 3]);
  });
});

describe("a pending call that a person edits", () => {
  const edited = async (begun: boolean) => {
    const ledger = new MemoryLedger();
    const amounts: number[] = [];
    const tool = charge(async ({ amount }) => {
      amounts.push(amount);
      throw new Error("reset");
    });
    if (begun) await play(tool, ledger, [[call(1212)]]);
    const [reply] = await play(tool, ledger, [[call(1300)]]);
    return { reply, amounts, row: await ledger.find(key) };
  };

  it("runs as edited when no execution of it has begun, under the same key (G01)", async () => {
    const { amounts, row } = await edited(false);
    expect(amounts).toEqual([1300]);
    expect(row).toMatchObject({ state: "unknown", executions: 1 });
  });

  it("is refused as a conflict once an execution has begun: changed arguments need a call of their own (G01)", async () => {
    const { reply, amounts, row } = await edited(true);
    expect(amounts).toEqual([1212]);
    expect(reply).toMatchObject({ status: "failed", detail: expect.stringContaining("a call of their own") });
    expect(row?.state).toBe("unknown");
  });
});

describe("a provider that times out, then declines, then accepts", () => {
  it("gets one key a call, whatever the outcome: a decline is recorded, a new decision needs a new call (G02)", async () => {
    const ledger = new MemoryLedger();
    const keys: (string | null)[] = [];
    const answers: (Response | Error)[] = [
      Object.assign(new TypeError("fetch failed"), { cause: { code: "UND_ERR_HEADERS_TIMEOUT" } }),
      Response.json({ error: "declined" }, { status: 402 }),
      Response.json({ id: "ch_1" }),
    ];
    globalThis.fetch = async (request) => {
      keys.push(request instanceof Request ? request.headers.get("idempotency-key") : null);
      const answer = answers.shift() ?? new Error("no more answers");
      if (answer instanceof Error) throw answer;
      return answer;
    };
    const tool = charge((_, given) => post(given));
    const turns = ["toolu_1", "toolu_2", "toolu_3"].map((id) => [call(12, id)]);
    expect(await play(tool, ledger, turns)).toMatchObject([
      { status: "unknown" },
      { status: "failed" },
      { id: "ch_1" },
    ]);
    // The first two again: neither is sent a second time.
    expect(await play(tool, ledger, turns)).toMatchObject([
      { status: "unknown" },
      { status: "failed" },
      { id: "ch_1" },
    ]);
    expect(keys).toEqual(["toolu_1", "toolu_2", "toolu_3"].map((id) => deriveKey("t1", id)));
  });
});

describe("a body that adds the time and a nonce to its request", () => {
  it("keeps its key, and the same call is recognised: the fingerprint is of the model's arguments (G03)", async () => {
    const ledger = new MemoryLedger();
    const bodies: string[] = [];
    globalThis.fetch = async (request) => {
      if (request instanceof Request) bodies.push(`${request.headers.get("idempotency-key")} ${await request.text()}`);
      return Response.json({ id: "ch_1" });
    };
    let nonce = 0;
    const tool = charge((args, given) => {
      nonce += 1;
      return post(given, JSON.stringify({ ...args, requestedAt: Date.now(), nonce }));
    });
    const first = await play(tool, ledger);
    expect(await play(tool, ledger)).toEqual(first);
    expect(bodies).toHaveLength(1);
    expect(bodies[0]?.startsWith(key)).toBe(true);
  });
});

describe("a 500 and then the same call again", () => {
  it.each([
    ["indeterminate", "unknown"],
    ["final", "failed"],
  ] as const)(
    "is decided by the profile: 5xx %s is %s, and is not sent again by itself (G09)",
    async (serverErrors, state) => {
      const ledger = new MemoryLedger();
      let sent = 0;
      globalThis.fetch = async () => {
        sent += 1;
        return new Response("", { status: 500 });
      };
      const tool = defineTool({
        name: "charge",
        description: "-",
        schema: z.object({ amount: z.number() }),
        effect: "keyed",
        profile: { ...stripeProfile, serverErrors },
        run: (_, given) => post(given),
      });
      await play(tool, ledger);
      const [reply] = await play(tool, ledger);
      expect(reply).toMatchObject({ status: state });
      expect(sent).toBe(1);
      expect((await ledger.find(key))?.state).toBe(state);
    },
  );
});

describe("a call that timed out after its effect", () => {
  const timedOut = async (found: LookupResult) => {
    const ledger = new MemoryLedger();
    let runs = 0;
    const tool = charge(
      async () => {
        runs += 1;
        throw new Error("timeout");
      },
      { effect: "lookup", lookup: async () => found },
    );
    const first = await play(tool, ledger);
    const second = await play(tool, ledger);
    return { first, second, runs, row: await ledger.find(key) };
  };

  it("is on record as unknown; the second delivery looks it up and does not run it again (Q19)", async () => {
    const { first, second, runs, row } = await timedOut({ status: "found", value: { id: "ch_9" }, effectRef: "ch_9" });
    expect(first).toMatchObject([{ status: "unknown" }]);
    expect(second).toEqual([{ id: "ch_9" }]);
    expect(runs).toBe(1);
    expect(row).toMatchObject({
      state: "done",
      effectRef: "ch_9",
      executions: 1,
      evidence: "found by the tool's lookup",
    });
  });

  it("stays unknown, and is not run again, when the lookup does not find it (Q19)", async () => {
    const { second, runs, row } = await timedOut({ status: "absent" });
    expect(second).toMatchObject([{ status: "unknown", call: "toolu_abc1" }]);
    expect(runs).toBe(1);
    expect(row).toMatchObject({ state: "unknown", executions: 1 });
  });
});

describe("equal wishes of two days", () => {
  it("are two payments: arguments are no part of the key (A16)", async () => {
    const ledger = new MemoryLedger();
    let paid = 0;
    const tool = charge(async () => {
      paid += 5;
      return { id: `ch_${paid}` };
    });
    const agent = buildAgent({ tools: [tool], turns: [[call(5, "toolu_1")], [], [call(5, "toolu_2")], []] });
    const config = configOf(scopeOf(ledger));
    await agent.invoke(input, config);
    const next = await agent.invoke({ messages: [{ role: "user", content: "and again" }] }, config);
    expect(next.messages.filter((message) => ToolMessage.isInstance(message))).toHaveLength(2);
    expect(paid).toBe(10);
  });
});
