// Unanswered calls of a stopped run, answered from the ledger.

import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { describe, expect, it } from "vitest";
import type { EffectClaim, Settlement } from "../src/effect.ts";
import { MemoryLedger } from "../src/effect-memory.ts";
import { storeResult } from "../src/effect-result.ts";
import { deriveKey } from "../src/key.ts";
import { closeCalls } from "../src/langgraph/close-calls.ts";

const calls = ["answered", "done", "failed", "unknown", "running", "never", "stranger"];
const messages: BaseMessage[] = [
  new HumanMessage("go"),
  new AIMessage({
    id: "m1",
    content: "",
    tool_calls: calls.map((id) => ({ id, name: "pay", args: {}, type: "tool_call" as const })),
  }),
  new ToolMessage({ content: "paid", tool_call_id: "answered" }),
];

async function ledgerAfter(): Promise<MemoryLedger> {
  const ledger = new MemoryLedger();
  const claim = (id: string, messageId = "m1"): EffectClaim => ({
    key: deriveKey("t", id),
    owner: { threadId: "t", assistantMessageId: messageId, tool: "pay", toolCallId: id },
    argsFingerprint: "f",
    policy: "once",
    leaseMs: 1_000,
    nonce: id,
    holder: "h",
    execution: { runId: "r", deliveryId: "d", nodeAttempt: 1 },
  });
  const settle = async (id: string, end: Partial<Settlement>, messageId?: string): Promise<void> => {
    const decision = await ledger.claim(claim(id, messageId));
    if (!("fence" in decision)) throw new Error("not won");
    await ledger.settle({ key: deriveKey("t", id), fence: decision.fence, ...end } as Settlement);
  };
  await settle("done", { outcome: "done", result: storeResult({ id: "ch_1" }) });
  await settle("failed", { outcome: "failed", detail: "declined" });
  await settle("unknown", { outcome: "unknown", detail: "timed out" });
  await settle("stranger", { outcome: "done", result: storeResult("another call's") }, "m0");
  await ledger.claim(claim("running"));
  return ledger;
}

describe("closeCalls", () => {
  it("tells the truth about each call: done, failed, unknown, and what was never begun", async () => {
    const closed = await closeCalls({ threadId: "t", messages, ledger: await ledgerAfter() });
    expect(closed.map((message) => message.tool_call_id)).toEqual([
      "done",
      "failed",
      "unknown",
      "running",
      "never",
      "stranger",
    ]);
    const said = closed.map((message) => JSON.parse(String(message.content)) as { status?: string; id?: string });
    expect(said.map(({ status, id }) => status ?? id)).toEqual([
      "ch_1",
      "failed",
      "unknown",
      "unknown",
      "failed",
      "failed",
    ]);
    expect(JSON.stringify(said[5])).not.toContain("another call's");
  });

  it("names the status tool of a tool that has a lookup, and invites no new call", async () => {
    const closed = await closeCalls({
      threadId: "t",
      messages,
      ledger: await ledgerAfter(),
      lookupTools: new Set(["pay"]),
    });
    expect(String(closed[2]?.content)).toContain("get_pay_status");
    for (const message of closed) expect(String(message.content)).not.toMatch(/try again|retry/i);
  });

  it("gives the same ids each time, so that adding them twice is adding them once", async () => {
    const ledger = await ledgerAfter();
    const ids = async () => (await closeCalls({ threadId: "t", messages, ledger })).map((message) => message.id);
    expect(await ids()).toEqual(await ids());
    expect(new Set(await ids()).size).toBe(6);
  });

  it("has nothing to say where every call is answered", async () => {
    const closed = await closeCalls({
      threadId: "t",
      messages: [...messages, ...(await closeCalls({ threadId: "t", messages, ledger: await ledgerAfter() }))],
      ledger: new MemoryLedger(),
    });
    expect(closed).toEqual([]);
  });
});
