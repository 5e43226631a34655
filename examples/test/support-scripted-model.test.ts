// The scripted model: chosen by history, streamed like a provider's, the same in a fresh process.
import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import {
  AIMessage,
  type AIMessageChunk,
  type BaseMessage,
  HumanMessage,
  mapChatMessagesToStoredMessages,
  mapStoredMessagesToChatMessages,
  SystemMessage,
  ToolMessage,
} from "@langchain/core/messages";
import { concat } from "@langchain/core/utils/stream";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SupportError } from "../src/support/errors.ts";
import { ScriptedModel } from "../src/support/scripted-model.ts";
import { answerTurn, type IdStyle, type ScriptedStep, turnNumber } from "../src/support/scripted-model-turn.ts";

const CALL = { name: "charge_subscription", args: { customer: "cus_8123", amount: 4_900 } };
const TURNS: readonly ScriptedStep[] = [{ text: "I will charge the card now.", calls: [CALL] }, { text: "Done." }];
const ASK = new HumanMessage("Renew cus_8123");

async function history(model: ScriptedModel): Promise<BaseMessage[]> {
  const first = await model.invoke([ASK]);
  const [call] = first.tool_calls ?? [];
  return [ASK, first, new ToolMessage({ content: "charged", tool_call_id: call?.id ?? "" })];
}

function idsOf(style: IdStyle, messages: readonly BaseMessage[] = []): readonly (string | undefined)[] {
  const twice = [{ calls: [CALL, CALL] }];
  return answerTurn(messages, { turns: twice, idStyle: style }).toolCalls.map((call) => call.id);
}

/** Calls as text: the arguments compared byte for byte, the order of the call's own fields left open. */
function namedArgs(message: AIMessageChunk): readonly string[] {
  return (message.tool_calls ?? []).map(({ id, name, args }) => `${id} ${name} ${JSON.stringify(args)}`);
}

/** The type is never under exactOptionalPropertyTypes; at run time it is there. */
function usageOf(message: AIMessageChunk): object {
  const usage: unknown = message.usage_metadata;
  return typeof usage === "object" && usage !== null ? usage : {};
}

describe("choosing the turn", () => {
  it("follows the history, so that another process gives the turn the dead one would have given", async () => {
    const messages = await history(new ScriptedModel({ turns: TURNS }));
    const stored = mapStoredMessagesToChatMessages(mapChatMessagesToStoredMessages(messages));
    const resumed = new ScriptedModel({ turns: TURNS });
    expect((await resumed.invoke(stored)).text).toBe("Done.");
    expect((await resumed.invoke(stored)).text).toBe("Done.");
    expect(resumed.calls).toBe(2);
  });

  it("starts again at the next human message and ignores what is no model message", () => {
    const answered = [
      new SystemMessage("s"),
      ASK,
      new AIMessage("one"),
      new ToolMessage({ content: "", tool_call_id: "t" }),
    ];
    expect(turnNumber(answered)).toBe(1);
    expect(turnNumber([...answered, new AIMessage("two")])).toBe(2);
    expect(turnNumber([...answered, new HumanMessage("again")])).toBe(0);
    expect(turnNumber([])).toBe(0);
  });

  it("lets a function of the history give the turn", async () => {
    const model = new ScriptedModel({ turns: [(messages) => ({ text: `read ${messages.length}` })] });
    expect((await model.invoke([new SystemMessage("s"), ASK])).text).toBe("read 2");
  });

  it("names the missing turn, and counts the call all the same", async () => {
    const model = new ScriptedModel({ turns: TURNS });
    const past = [...(await history(model)), new AIMessage("Done.")];
    const error = await model.invoke(past).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(SupportError);
    expect(error).toMatchObject({ code: "SCRIPT_TURN_MISSING", message: expect.stringContaining("asks for turn 2") });
    expect(model.calls).toBe(2);
  });

  it("refuses a turn that says nothing, and allows an empty text", () => {
    expect(() => answerTurn([], { turns: [{}], idStyle: "unique" })).toThrow(
      expect.objectContaining({ code: "SCRIPT_TURN_EMPTY" }),
    );
    expect(answerTurn([], { turns: [{ text: "" }], idStyle: "unique" }).text).toBe("");
  });
});

describe("tool call ids", () => {
  it("are unique unless the script says otherwise, also when one turn is asked twice", () => {
    const ids = [...idsOf("unique"), ...idsOf("unique")];
    expect(new Set(ids).size).toBe(4);
    expect(ids.every((id) => /^toolu_[0-9a-f]{24}$/.test(id ?? ""))).toBe(true);
  });

  it.each<[IdStyle, readonly (string | undefined)[]]>([
    ["call_0", ["call_0", "call_1"]],
    ["same", ["call_0", "call_0"]],
    ["counter", ["call_1", "call_2"]],
    ["tool_name", ["charge_subscription", "charge_subscription"]],
    ["empty", ["", ""]],
    ["missing", [undefined, undefined]],
  ])("of the style %s look as reports show them", (style, expected) => {
    expect(idsOf(style)).toEqual(expected);
  });

  it("of the style counter go on through the thread, of call_0 start again", () => {
    const before = [
      ASK,
      new AIMessage({ content: "", tool_calls: [{ ...CALL, id: "call_1" }] }),
      new HumanMessage("more"),
    ];
    expect(idsOf("counter", before)).toEqual(["call_2", "call_3"]);
    expect(idsOf("call_0", before)).toEqual(["call_0", "call_1"]);
  });

  it("given by the script are used as they are", () => {
    const turns = [{ calls: [{ ...CALL, id: "toolu_01WkP9Qm" }] }];
    expect(answerTurn([], { turns, idStyle: "same" }).toolCalls[0]?.id).toBe("toolu_01WkP9Qm");
  });
});

describe("an answer", () => {
  it("carries a message id, usage that depends on the texts alone, and the reason to stop", async () => {
    const answers = await Promise.all([0, 1].map(async () => await new ScriptedModel({ turns: TURNS }).invoke([ASK])));
    const [one, two] = answers;
    expect(one?.id).toMatch(/^msg_[0-9a-f]{24}$/);
    expect(one?.id).not.toBe(two?.id);
    expect(one?.usage_metadata).toEqual(two?.usage_metadata);
    expect(one?.usage_metadata).toEqual({ input_tokens: 4, output_tokens: 21, total_tokens: 25 });
    expect(one?.response_metadata).toMatchObject({ model_name: "scripted", finish_reason: "tool_calls" });
  });

  it("survives bindTools, which keeps the tools for inspection and returns the same object", async () => {
    const model = new ScriptedModel({ turns: TURNS });
    const tools = [{ name: "charge_subscription", description: "", schema: {} }];
    expect(model.bindTools(tools)).toBe(model);
    expect(model.boundTools).toEqual(tools);
  });

  it("waits the latency once, and the chunk time between chunks, with the caller's signal", async () => {
    const waits: number[] = [];
    const sleep = async (waitMs: number): Promise<void> => {
      waits.push(waitMs);
    };
    const model = new ScriptedModel({ turns: [{ text: "a b", chunkMs: 7 }], latencyMs: 50, sleep });
    for await (const _chunk of await model.stream([ASK]));
    expect(waits).toEqual([50, 7, 7]);
    const aborted = model.invoke([ASK], { signal: AbortSignal.abort(new Error("drain")) });
    await expect(aborted).rejects.toThrow();
  });
});

describe("streaming", () => {
  it("gives words first, then each call's name and id, then its arguments in pieces, then usage once", async () => {
    const chunks: AIMessageChunk[] = [];
    for await (const chunk of await new ScriptedModel({ turns: TURNS }).stream([ASK])) chunks.push(chunk);
    const kinds = chunks.map((chunk) => {
      const [call] = chunk.tool_call_chunks ?? [];
      if (call !== undefined) return call.name === undefined ? "args" : "call";
      return chunk.text === "" ? "end" : "text";
    });
    expect(kinds.join(" ")).toMatch(/^(text ){6}call (args ){2,}end( end)?$/);
    expect(chunks.filter((chunk) => chunk.usage_metadata !== undefined)).toHaveLength(1);
    const head = chunks.find((chunk) => chunk.tool_call_chunks?.[0]?.name !== undefined);
    expect(head?.tool_call_chunks?.[0]).toMatchObject({ name: CALL.name, args: "", index: 0 });
    expect(head?.tool_call_chunks?.[0]?.id).toMatch(/^toolu_/);
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
  });

  it("adds up to the very answer that a plain call gives, for any text and arguments", async () => {
    const unit = fc.constantFrom("a", " ", "\n", '"', "\\", "\u0000", "é", "💶");
    const turn = fc.record({ text: fc.string({ unit }), args: fc.dictionary(fc.string({ unit }), fc.jsonValue()) });
    await fc.assert(
      fc.asyncProperty(turn, async ({ text, args }) => {
        const calls = [
          { name: "t", args, id: "a" },
          { name: "u", args: {}, id: "b" },
        ];
        const model = new ScriptedModel({ turns: [{ text, calls }] });
        const plain = await model.invoke([ASK]);
        const chunks: AIMessageChunk[] = [];
        for await (const chunk of await model.stream([ASK])) chunks.push(chunk);
        const [first, ...rest] = chunks;
        if (first === undefined) throw new Error("nothing was streamed");
        const whole = rest.reduce((sum, chunk) => concat(sum, chunk), first);
        expect(whole.text).toBe(plain.text);
        expect(namedArgs(whole)).toEqual(namedArgs(plain));
        expect(whole).toHaveProperty("usage_metadata", expect.objectContaining({ ...usageOf(plain) }));
        expect(Object.keys(usageOf(plain))).toHaveLength(3);
      }),
      { numRuns: 60 },
    );
  });

  it("streams a call without an id without one", async () => {
    const model = new ScriptedModel({ turns: [{ calls: [CALL] }], idStyle: "missing" });
    const chunks: AIMessageChunk[] = [];
    for await (const chunk of await model.stream([ASK])) chunks.push(chunk);
    expect(
      chunks.flatMap((chunk) => chunk.tool_call_chunks ?? []).some((call) => "id" in call && call.id !== undefined),
    ).toBe(false);
  });

  it("tells a listener that prefers streaming of each chunk under a plain invoke", async () => {
    class Listener extends BaseCallbackHandler {
      readonly name = "listener";
      override readonly awaitHandlers = true;
      readonly lc_prefer_streaming = true;
      readonly seen: string[] = [];
      override handleLLMNewToken(token: string): void {
        this.seen.push(token);
      }
    }
    const listener = new Listener();
    const message = await new ScriptedModel({ turns: TURNS }).invoke([ASK], { callbacks: [listener] });
    expect(listener.seen.join("")).toBe("I will charge the card now.");
    expect(listener.seen.filter((token) => token === "").length).toBeGreaterThan(2);
    expect(message.tool_calls?.[0]).toMatchObject(CALL);
  });
});
