// The model boundary: unique state ids for every call, the model's own ids back to the model.

import { AIMessage, AIMessageChunk, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { deriveKey } from "../src/key.ts";
import { restoreProviderIds, stampCalls } from "../src/langgraph/boundary.ts";
import { callRecords } from "../src/langgraph/boundary-ids.ts";

const call = (id: string | undefined, args: Record<string, unknown> = {}, name = "pay") => ({
  name,
  args,
  type: "tool_call" as const,
  ...(id === undefined ? {} : { id }),
});
const idsOf = (message: BaseMessage): readonly (string | undefined)[] =>
  AIMessage.isInstance(message) ? (message.tool_calls ?? []).map(({ id }) => id) : [];
const keysOf = (messages: readonly BaseMessage[]): readonly string[] =>
  messages.flatMap((message) => idsOf(message).map((id) => deriveKey("t", id ?? "")));
const sourceOf = (message: AIMessage, at: number): string | undefined =>
  callRecords(message)[idsOf(message)[at] ?? ""]?.source;

/** Plays turns as a graph would: stamp the model's message, then answer each call under its state id. */
function play(turns: readonly AIMessage[]): BaseMessage[] {
  const history: BaseMessage[] = [new HumanMessage({ id: "h", content: "go" })];
  for (const turn of turns) {
    const stamped = stampCalls(turn, history);
    history.push(stamped);
    for (const id of idsOf(stamped))
      history.push(new ToolMessage({ content: `result of ${id}`, tool_call_id: id ?? "" }));
  }
  return history;
}

describe("stampCalls", () => {
  it("leaves a healthy message as it is", () => {
    const message = new AIMessage({
      id: "m1",
      content: "",
      tool_calls: [call("toolu_01WkP9Qm"), call("call_8Kx2abc")],
    });
    const stamped = stampCalls(message, []);
    expect(idsOf(stamped)).toEqual(["toolu_01WkP9Qm", "call_8Kx2abc"]);
    expect(stamped.additional_kwargs).toEqual({});
    expect(stamped.id).toBe("m1");
  });

  it("gives two turns that both say call_0 two keys (A01)", () => {
    const history = play([
      new AIMessage({ id: "m1", content: "", tool_calls: [call("call_0", { to: "A" })] }),
      new AIMessage({ id: "m2", content: "", tool_calls: [call("call_0", { to: "B" })] }),
    ]);
    expect(history.flatMap(idsOf)).toEqual(["m1#0", "m2#0"]);
    const second = history[3] as AIMessage;
    expect(sourceOf(second, 0)).toBe("repeated");
    expect(new Set(keysOf(history)).size).toBe(2);
  });

  it("gives six turns of get_rate:0 six keys (A02)", () => {
    const turns = Array.from(
      { length: 6 },
      (_, turn) => new AIMessage({ id: `m${turn}`, content: "", tool_calls: [call("get_rate:0", { turn })] }),
    );
    expect(new Set(keysOf(play(turns))).size).toBe(6);
  });

  it("tells two calls apart that both go by the tool's name (A03)", () => {
    const message = new AIMessage({
      id: "m1",
      content: "",
      tool_calls: [call("refund", { order: 1 }, "refund"), call("refund", { order: 2 }, "refund")],
    });
    expect(idsOf(stampCalls(message, []))).toEqual(["m1#0", "m1#1"]);
  });

  it("tells two calls of one message apart that share an id, the first keeping it (A04)", () => {
    const message = new AIMessage({ id: "m1", content: "", tool_calls: [call("x1abcdefg"), call("x1abcdefg")] });
    expect(idsOf(stampCalls(message, []))).toEqual(["x1abcdefg", "m1#1"]);
  });

  it("never makes a key from a missing or empty id, and drops no call (A06)", () => {
    const message = new AIMessage({ id: "m1", content: "", tool_calls: [call(undefined), call("")] });
    const stamped = stampCalls(message, []);
    expect(idsOf(stamped)).toEqual(["m1#0", "m1#1"]);
    expect(sourceOf(stamped, 0)).toBe("missing");
  });

  it("recovers a whole call that was called invalid only for want of an id (A06)", () => {
    const chunk = new AIMessageChunk({
      id: "m1",
      content: "",
      tool_call_chunks: [{ name: "send_email", args: '{"to":"a@example.org"}', index: 0, type: "tool_call_chunk" }],
    });
    expect(chunk.invalid_tool_calls).toHaveLength(1);
    const stamped = stampCalls(chunk, []);
    expect(stamped.tool_calls).toMatchObject([{ id: "m1#0", name: "send_email", args: { to: "a@example.org" } }]);
    expect(stamped.invalid_tool_calls).toEqual([]);
  });

  it("does not recover an id-less call whose arguments are cut (A06, G07)", () => {
    const chunk = new AIMessageChunk({
      id: "m1",
      content: "",
      tool_call_chunks: [{ name: "send_email", args: '{"to":"a@exa', index: 0, type: "tool_call_chunk" }],
    });
    expect(stampCalls(chunk, []).tool_calls).toEqual([]);
  });

  it("gives two runs that both count from call_0_0 distinct keys (A08)", () => {
    const history = play(
      ["run1", "run2"].map((id) => new AIMessage({ id, content: "", tool_calls: [call("call_0_0")] })),
    );
    expect(new Set(keysOf(history)).size).toBe(2);
  });

  it("keeps a long or overloaded provider id byte for byte (A10)", () => {
    const ids = [
      "i".repeat(210),
      `${"x".repeat(64)}${"a".repeat(16)}`,
      `${"x".repeat(64)}${"b".repeat(16)}`,
      "abc__thought__a+b/c==",
    ];
    const history = play([new AIMessage({ id: "m1", content: "", tool_calls: ids.map((id) => call(id)) })]);
    expect(idsOf(history[1] as AIMessage)).toEqual(ids);
    expect(new Set(keysOf(history)).size).toBe(4);
  });

  it("gives a message an id when it has none, an empty one or one that the history has (A13)", () => {
    const history = [new AIMessage({ id: "m1", content: "" })];
    for (const id of [undefined, "", "m1"]) {
      const stamped = stampCalls(
        new AIMessage({ content: "", ...(id === undefined ? {} : { id }), tool_calls: [call("call_0")] }),
        history,
      );
      expect(stamped.id).toMatch(/^msg_[0-9a-f-]{36}$/);
      expect(idsOf(stamped)).toEqual([`${stamped.id}#0`]);
    }
  });

  it("treats an id of our own form that a provider sent as weak, so it cannot collide with ours", () => {
    const stamped = stampCalls(new AIMessage({ id: "m2", content: "", tool_calls: [call("m1#0")] }), []);
    expect(idsOf(stamped)).toEqual(["m2#0"]);
  });

  it("keeps the ids of standard content blocks in step, so that no call is doubled", () => {
    const message = new AIMessage({
      id: "m1",
      content: [{ type: "tool_call", id: "call_0", name: "pay", args: {} }],
      response_metadata: { output_version: "v1" },
      tool_calls: [call("call_0")],
    });
    const stamped = stampCalls(message, []);
    expect(stamped.tool_calls).toHaveLength(1);
    expect(stamped.content).toMatchObject([{ type: "tool_call", id: "m1#0" }]);
    expect(stamped.content).toHaveLength(1);
    const [restored] = restoreProviderIds([stamped]);
    expect(restored?.content).toMatchObject([{ id: "call_0" }]);
  });

  it.each(["length", "max_tokens", "MAX_TOKENS"])("marks the last call of an answer cut by %s (G07)", (reason) => {
    const message = new AIMessage({
      id: "m1",
      content: "",
      response_metadata: { finish_reason: reason },
      tool_calls: [call("toolu_first1"), call("toolu_second")],
    });
    const records = callRecords(stampCalls(message, []));
    expect(records["toolu_first1"]).toBeUndefined();
    expect(records["toolu_second"]).toEqual({ id: "toolu_second", source: "provider", cut: true });
  });

  it("marks a streamed call whose argument text does not parse, though LangChain completed it (G07)", () => {
    const chunk = new AIMessageChunk({
      id: "m1",
      content: "",
      tool_call_chunks: [
        { id: "toolu_0123", name: "pay", args: '{"to":"acct_1","amount":12', index: 0, type: "tool_call_chunk" },
      ],
    });
    expect(chunk.tool_calls).toMatchObject([{ args: { to: "acct_1", amount: 12 } }]);
    expect(callRecords(stampCalls(chunk, []))["toolu_0123"]?.cut).toBe(true);
  });
});

describe("restoreProviderIds", () => {
  it("gives the model its own format back, calls and results (A11)", () => {
    const own = ["functions.get_rate:0", "functions.pay:1", "functions.pay:2"];
    const history = play(own.map((id, turn) => new AIMessage({ id: `m${turn}`, content: "", tool_calls: [call(id)] })));
    const restored = restoreProviderIds(history);
    expect(restored.flatMap(idsOf)).toEqual(own);
    expect(
      restored.filter((message) => ToolMessage.isInstance(message)).map((message) => message.tool_call_id),
    ).toEqual(own);
  });

  it("leaves our ids where the model gave none, so that calls and results still pair", () => {
    const restored = restoreProviderIds(
      play([new AIMessage({ id: "m1", content: "", tool_calls: [call(undefined)] })]),
    );
    expect(restored.flatMap(idsOf)).toEqual(["m1#0"]);
  });

  it("does not change the stored messages", () => {
    const history = play([new AIMessage({ id: "m1", content: "", tool_calls: [call("call_0")] })]);
    const before = JSON.stringify(history);
    restoreProviderIds(history);
    expect(JSON.stringify(history)).toBe(before);
  });
});

describe("the bijection, for any ids over any turns", () => {
  const id = fc.oneof(
    fc.constantFrom(undefined, "", "call_0", "call_1", "pay", "pay:0", "0", "m0#0", "toolu_same", "functions.pay:1"),
    fc.uuid(),
    fc.string({ minLength: 1, maxLength: 210 }),
  );
  const turns = fc.array(fc.array(id, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 5 });
  const messageIds = fc.constantFrom("given", "missing", "same");

  it("makes every state id unique and gives the model exactly its own ids back (A01-A11)", () => {
    fc.assert(
      fc.property(turns, messageIds, (ids, kind) => {
        const messages = ids.map((own, turn) => {
          const messageId = kind === "missing" ? {} : { id: kind === "same" ? "m" : `m${turn}` };
          return new AIMessage({ ...messageId, content: "", tool_calls: own.map((one) => call(one)) });
        });
        const history = play(messages);
        const stateIds = history.flatMap(idsOf);
        expect(new Set(stateIds).size).toBe(stateIds.length);
        expect(new Set(keysOf(history)).size).toBe(stateIds.length);
        const flat = ids.flat();
        const expected = flat.map((own, at) => (own === undefined || own === "" ? stateIds[at] : own));
        const restored = restoreProviderIds(history);
        expect(restored.flatMap(idsOf)).toEqual(expected);
        expect(
          restored.filter((message) => ToolMessage.isInstance(message)).map((message) => message.tool_call_id),
        ).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  it("is stable: the stored message read again, in another process, gives the same keys", () => {
    fc.assert(
      fc.property(turns, (ids) => {
        const history = play(
          ids.map(
            (own, turn) => new AIMessage({ id: `m${turn}`, content: "", tool_calls: own.map((one) => call(one)) }),
          ),
        );
        const stored = history.map((message) =>
          AIMessage.isInstance(message)
            ? new AIMessage(
                JSON.parse(JSON.stringify({ ...message, lc_kwargs: undefined })) as ConstructorParameters<
                  typeof AIMessage
                >[0],
              )
            : message,
        );
        expect(keysOf(stored)).toEqual(keysOf(history));
      }),
    );
  });
});
