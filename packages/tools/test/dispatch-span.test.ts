// What a tool's span says, and what it never says.

import { SpanStatusCode } from "@opentelemetry/api";
import type { ReadableSpan } from "@opentelemetry/sdk-trace-base";
import { ATTR, createGate } from "@reprise/tracing";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { spansInMemory } from "../../tracing/test/memory-telemetry.ts";
import { defineTool } from "../src/define-tool.ts";
import type { ToolContext } from "../src/dispatch-call.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { deriveKey, keyUuid } from "../src/key.ts";
import type { EffectScope } from "../src/langgraph/scope.ts";
import { stripeProfile } from "../src/profiles.ts";
import { buildAgent, configOf, input, scopeOf, type Turn } from "./agent.ts";

const exporter = spansInMemory();

const turn = (id: string, args: Record<string, unknown> = { amount: 12, password: "hunter2" }): Turn => [
  { name: "charge", id, args },
];

async function spansOf(
  run: (context: ToolContext) => Promise<unknown>,
  turns: readonly Turn[],
  ledger = new MemoryLedger(),
  changes: Partial<EffectScope> & { readonly effect?: "keyed" | "none" } = {},
): Promise<readonly ReadableSpan[]> {
  const { effect = "keyed", ...scope } = changes;
  const tool = defineTool({
    name: "charge",
    description: "Charges.",
    schema: z.object({ amount: z.number(), password: z.string() }),
    effect,
    profile: stripeProfile,
    effectRef: (value) => (value as { id: string }).id,
    run: (_, given) => run(given),
  });
  await buildAgent({ tools: [tool], turns })
    .invoke(input, configOf(scopeOf(ledger, scope)))
    .catch(() => undefined);
  return exporter.getFinishedSpans().filter((span) => span.name === "tool:charge");
}

describe("the span of a tool call", () => {
  it("names call, policy, decision, outcome, effect and wire, with arguments through the gate and never the key", async () => {
    const fetch = globalThis.fetch;
    globalThis.fetch = async () => new Response("{}", { status: 201 });
    const [span] = await spansOf(
      async (given) => {
        await given.fetch("https://api.example.test/", { method: "POST" });
        return { id: "ch_1" };
      },
      [turn("toolu_abc1")],
    );
    globalThis.fetch = fetch;
    expect(span?.attributes).toMatchObject({
      [ATTR.toolName]: "charge",
      [ATTR.toolCallId]: "toolu_abc1",
      [ATTR.toolPolicy]: "keyed",
      [ATTR.toolDecision]: "execute",
      [ATTR.toolOutcome]: "done",
      [ATTR.toolReplayed]: false,
      [ATTR.toolEffectRef]: "ch_1",
      [ATTR.toolEffectSeen]: 1,
      [ATTR.toolHttpRequests]: 1,
      [ATTR.toolKeySent]: true,
      [ATTR.toolCallRefSource]: "provider",
      [ATTR.nodeAttempt]: 1,
    });
    const said = JSON.stringify(span?.attributes);
    expect(said).not.toContain("hunter2");
    const key = deriveKey("t1", "toolu_abc1");
    expect(said).not.toContain(key);
    expect(said).not.toContain(keyUuid(key));
  });

  it("says that a call was replayed, and how often it was seen (B05)", async () => {
    const ledger = new MemoryLedger();
    await spansOf(async () => ({ id: "ch_1" }), [turn("toolu_abc1")], ledger);
    const spans = await spansOf(async () => ({ id: "ch_2" }), [turn("toolu_abc1")], ledger);
    expect(spans.at(-1)?.attributes).toMatchObject({
      [ATTR.toolReplayed]: true,
      [ATTR.toolDecision]: "replay",
      [ATTR.toolEffectSeen]: 2,
      [ATTR.toolEffectRef]: "ch_1",
    });
  });

  it("ends with an error, marked as a failed attempt, when the body threw", async () => {
    const [span] = await spansOf(
      () => Promise.reject(new Error("token=sk_live_0123456789abcdef")),
      [turn("toolu_abc1")],
    );
    expect(span?.status.code).toBe(SpanStatusCode.ERROR);
    expect(span?.attributes).toMatchObject({
      [ATTR.toolAttemptFailed]: true,
      [ATTR.toolOutcome]: "unknown",
      [ATTR.toolErrorCode]: "no_evidence",
    });
  });

  it("says false when a key was due and not on the wire", async () => {
    const fetch = globalThis.fetch;
    globalThis.fetch = async () => new Response("{}", { status: 201 });
    const [span] = await spansOf(
      async (given) => {
        await given.fetch("https://api.example.test/", { method: "POST", headers: { "Idempotency-Key": "of my own" } });
        return { id: "ch_1" };
      },
      [turn("toolu_abc1")],
    );
    globalThis.fetch = fetch;
    expect(span?.attributes[ATTR.toolKeySent]).toBe(false);
  });

  it("exists for arguments that do not fit and for refused calls", async () => {
    const [bad] = await spansOf(async () => ({ id: "x" }), [turn("toolu_abc1", { amount: "x" })]);
    expect(bad?.attributes).toMatchObject({ [ATTR.toolOutcome]: "failed", [ATTR.toolErrorCode]: "invalid_arguments" });
  });

  it("tells why a repeated id was replaced (A01)", async () => {
    const spans = await spansOf(async () => ({ id: "x" }), [turn("call_0"), turn("call_0")]);
    expect(spans.map((span) => span.attributes[ATTR.toolCallId])).toEqual(["m0#0", "m1#0"]);
    expect(spans.map((span) => span.attributes[ATTR.toolCallRefSource])).toEqual(["weak", "repeated"]);
  });

  it.each(["keyed", "none"] as const)(
    "carries no content under a gate that lets none through (effect %s)",
    async (effect) => {
      const gate = createGate({ content: "none" });
      const said = async (run: () => Promise<unknown>, args?: Record<string, unknown>): Promise<string> => {
        exporter.reset();
        const [span] = await spansOf(run, [turn("toolu_abc1", args)], new MemoryLedger(), { gate, effect });
        return JSON.stringify([span?.attributes, span?.events, span?.status]);
      };
      const done = await said(async () => ({ id: "ch_1", memo: "rent of Ada" }), { amount: 12, password: "visible" });
      expect(done).toContain(ATTR.toolResultBytes);
      expect(done).not.toMatch(/rent of Ada|visible/);
      expect(await said(() => Promise.reject(new Error("no card of Ada")))).not.toContain("of Ada");
      expect(await said(async () => 1, { amount: "twelve of Ada" })).not.toContain("of Ada");
    },
  );

  it("names the unknown call that a fresh one repeats, and runs it all the same (B11)", async () => {
    let runs = 0;
    const lost = async () => {
      runs += 1;
      throw new Error("timed out");
    };
    const spans = await spansOf(lost, [
      turn("toolu_abc1"),
      turn("toolu_abc2"),
      turn("toolu_abc3", { amount: 1, password: "" }),
    ]);
    expect(spans.map((span) => span.attributes[ATTR.toolEchoOf])).toEqual([undefined, "toolu_abc1", undefined]);
    expect(runs).toBe(3);
  });

  it("says the weaker word for a repeat after a success, and nothing of a replay or of calls asked for together (A16)", async () => {
    const ledger = new MemoryLedger();
    const twice: Turn = [...turn("toolu_abc2"), ...turn("toolu_abc3")];
    const done = async () => ({ id: "ch_1" });
    await spansOf(done, [turn("toolu_abc1")], ledger);
    const spans = await spansOf(done, [turn("toolu_abc1"), turn("toolu_abc4")], ledger);
    expect(spans.map((span) => span.attributes["tool.repeat_after_success"])).toEqual([
      undefined,
      undefined,
      "toolu_abc1",
    ]);
    expect(spans.map((span) => span.attributes[ATTR.toolEchoOf])).toEqual([undefined, undefined, undefined]);
    exporter.reset();
    const together = await spansOf(done, [twice]);
    expect(together.map((span) => span.attributes["tool.repeat_after_success"])).toEqual([undefined, undefined]);
  });

  it("does without the mark when the look-up fails", async () => {
    const ledger = new MemoryLedger();
    ledger.findEcho = () => Promise.reject(new Error("gone"));
    const [span] = await spansOf(async () => ({ id: "ch_1" }), [turn("toolu_abc1")], ledger);
    expect(span?.attributes[ATTR.toolOutcome]).toBe("done");
  });
});
