// Proves the reading of message bodies: whatever a queue can hold gets a verdict, and the same wish has the same hash.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { REFUSALS } from "../src/errors.ts";
import { MESSAGE_SCHEMA, type ParsedMessage, parseMessage } from "../src/message.ts";

const RUN = {
  schema: 1,
  run_id: "r1",
  thread_id: "t1",
  agent: "support",
  input: { messages: [{ role: "user", content: "hello" }] },
};
const ANSWER = {
  schema: 1,
  run_id: "r1",
  thread_id: "t1",
  agent: "support",
  answer: { interrupt_id: "i1", value: "yes" },
};

const parse = (body: string, snsEnvelope: "refuse" | "unwrap" = "refuse"): ParsedMessage =>
  parseMessage(body, { snsEnvelope });
const parseObject = (value: unknown): ParsedMessage => parse(JSON.stringify(value));
const run = (changes: object): ParsedMessage => parseObject({ ...RUN, ...changes });

/** The hash an answer of this value gets. */
function hashOf(value: unknown): string {
  const parsed = parseObject({ ...ANSWER, answer: { interrupt_id: "i1", value } });
  return parsed.kind === "answer" ? parsed.valueHash : parsed.kind;
}

describe("a run request", () => {
  test("is read with its defaults: it waits its turn and takes over from nobody", () => {
    expect(parseObject(RUN)).toEqual({
      kind: "run",
      runId: "r1",
      threadId: "t1",
      agent: "support",
      input: RUN.input,
      onBusy: "enqueue",
      supersede: false,
      inputHash: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  test("may ask to be rejected by a busy thread, and to supersede a waiting run", () => {
    expect(run({ on_busy: "reject", supersede: true })).toMatchObject({ onBusy: "reject", supersede: true });
  });

  test.each([["run_id"], ["thread_id"], ["agent"], ["input"], ["schema"]])(
    "without %s is refused, and the detail names it",
    (field) => {
      const parsed = run({ [field]: undefined });
      expect(parsed).toMatchObject({ kind: "bad", code: "MESSAGE_SHAPE", detail: expect.stringContaining(field) });
    },
  );

  test.each([
    ["schema", "1"],
    ["schema", 0],
    ["schema", 1.5],
    ["schema", -1],
    ["run_id", 7],
    ["thread_id", null],
    ["agent", ""],
    ["input", null],
    ["on_busy", "rollback"],
    ["supersede", "yes"],
  ])("with %s = %j is refused", (field, value) => {
    expect(run({ [field]: value })).toMatchObject({ kind: "bad", code: "MESSAGE_SHAPE" });
  });

  test.each([0, false, "", [], {}])("may have the input %j", (input) => {
    expect(run({ input })).toMatchObject({ kind: "run", input });
  });

  test("keeps fields it does not know out of the wish, so that a later producer's extras change nothing", () => {
    const parsed = run({ priority: 3 });
    expect(parsed).toEqual(parseObject(RUN));
  });

  test("does not let a pinned checkpoint into the wish: a redelivery must never become time travel (B03)", () => {
    expect(run({ checkpoint_id: "c7" })).toEqual(parseObject(RUN));
  });
});

describe("an answer", () => {
  test("is read with the question it names and the hash of its value", () => {
    expect(parseObject(ANSWER)).toEqual({
      kind: "answer",
      runId: "r1",
      threadId: "t1",
      agent: "support",
      interruptId: "i1",
      value: "yes",
      valueHash: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  test.each([false, 0, null, { approve: true }])("may have the value %j", (value) => {
    const parsed = parseObject({ ...ANSWER, answer: { interrupt_id: "i1", value } });
    expect(parsed).toMatchObject({ kind: "answer", value });
  });

  test.each([[{ value: "yes" }], [{ interrupt_id: "", value: "yes" }], ["yes"], [null]])(
    "that names no question is refused: it would answer whatever is asked next (%j)",
    (answer) => {
      expect(parseObject({ ...ANSWER, answer })).toMatchObject({ kind: "bad", code: "MESSAGE_SHAPE" });
    },
  );
});

describe("a run request whose input is elsewhere", () => {
  const { input: _input, ...bare } = RUN as typeof RUN & { readonly input: unknown };
  const withRef = (input_ref: unknown): ParsedMessage => parseObject({ ...bare, input_ref });
  const hashIn = (parsed: ParsedMessage): unknown => (parsed.kind === "run" ? parsed.inputHash : parsed);

  test("is read with its reference, which is part of the wish", () => {
    expect(withRef("s3://b/1")).toMatchObject({ kind: "run", inputRef: "s3://b/1", input: undefined });
    expect(hashIn(withRef("s3://b/1"))).toBe(hashIn(withRef("s3://b/1")));
    expect(hashIn(withRef("s3://b/1"))).not.toBe(hashIn(withRef("s3://b/2")));
    expect(hashIn(withRef("s3://b/1"))).not.toBe(hashIn(run({ input: "s3://b/1" })));
  });

  test.each([
    ["beside an input", { ...RUN, input_ref: "s3://b/1" }],
    ["empty", { ...bare, input_ref: "" }],
    ["with NUL", { ...bare, input_ref: "a\u0000" }],
    ["no text", { ...bare, input_ref: 7 }],
    ["too long", { ...bare, input_ref: "x".repeat(2_049) }],
    ["neither there nor an input", bare],
    ["absent, and the input null", { ...bare, input: null }],
  ])("is refused when the reference is %s", (_how, message) => {
    expect(parseObject(message)).toMatchObject({ kind: "bad", code: "MESSAGE_SHAPE" });
  });
});

describe("a reply queue", () => {
  test("is read, and is not part of the wish: a producer may ask again to be answered elsewhere", () => {
    const named = run({ reply_to: "https://sqs.eu-west-1.amazonaws.com/1/replies" });
    expect(named).toMatchObject({ kind: "run", replyTo: "https://sqs.eu-west-1.amazonaws.com/1/replies" });
    expect(named).toMatchObject({ inputHash: Reflect.get(parseObject(RUN), "inputHash") });
  });

  test.each(["", "replies", "file:///x", "javascript:1", 7, "https://x/".padEnd(2_049, "x")])(
    "that is no address is refused: %j",
    (reply_to) => expect(run({ reply_to })).toMatchObject({ kind: "bad", code: "MESSAGE_SHAPE" }),
  );
});

describe("bodies that are no request (C15)", () => {
  test.each([
    ["plain text", "hello", "MESSAGE_NOT_JSON"],
    ["half an object", "{", "MESSAGE_NOT_JSON"],
    ["nothing", "", "MESSAGE_NOT_JSON"],
    ["an array", "[]", "MESSAGE_SHAPE"],
    ["a number", "1", "MESSAGE_SHAPE"],
    ["null", "null", "MESSAGE_SHAPE"],
    ["an empty object", "{}", "MESSAGE_SHAPE"],
    ["a raw NUL", "\u0000", "MESSAGE_NOT_JSON"],
    ["a raw NUL inside a string", '{"schema":1,"run_id":"a\u0000"}', "MESSAGE_NOT_JSON"],
    ["only a byte order mark", "\uFEFF", "MESSAGE_NOT_JSON"],
    ["two byte order marks", `\uFEFF\uFEFF${JSON.stringify(RUN)}`, "MESSAGE_NOT_JSON"],
  ])("%s is refused with a reason", (_what, body, code) => {
    const parsed = parse(body);
    expect(parsed).toMatchObject({ kind: "bad", code });
    expect(parsed.kind === "bad" ? parsed.detail : "").not.toBe("");
  });

  test("a byte order mark in front of a request is ignored", () => {
    expect(parse(`\uFEFF${JSON.stringify(RUN)}`)).toEqual(parseObject(RUN));
  });

  test("the detail of a hostile body is bounded", () => {
    const parsed = parse(JSON.stringify({ schema: "x".repeat(100_000) }));
    expect(parsed.kind === "bad" ? parsed.detail.length : Number.NaN).toBeLessThanOrEqual(500);
    const text = parse("y".repeat(100_000));
    expect(text.kind === "bad" ? text.detail.length : Number.NaN).toBeLessThanOrEqual(500);
  });

  test("an input nested far deeper than any stack is refused, not thrown and received again for ever", () => {
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    const body = JSON.stringify({ ...RUN, input: "@" }).replace('"@"', deep);
    expect(parse(body)).toMatchObject({ kind: "bad", code: "MESSAGE_SHAPE" });
  });

  test("so is an answer's value", () => {
    const deep = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;
    const body = JSON.stringify({ ...ANSWER, answer: { interrupt_id: "i1", value: "@" } }).replace('"@"', deep);
    expect(parse(body)).toMatchObject({ kind: "bad", code: "MESSAGE_SHAPE" });
  });
});

describe("an SNS notification", () => {
  const sns = (message: string): string => JSON.stringify({ Type: "Notification", MessageId: "n1", Message: message });

  test("is unwrapped when that is configured (C15)", () => {
    expect(parse(sns(JSON.stringify(RUN)), "unwrap")).toEqual(parseObject(RUN));
  });

  test("is refused otherwise (C15)", () => {
    expect(parse(sns(JSON.stringify(RUN)))).toMatchObject({ kind: "bad", code: "MESSAGE_SHAPE" });
  });

  test("may carry a byte order mark inside", () => {
    expect(parse(sns(`\uFEFF${JSON.stringify(RUN)}`), "unwrap")).toEqual(parseObject(RUN));
  });

  test("inside another one is not unwrapped twice", () => {
    expect(parse(sns(sns(JSON.stringify(RUN))), "unwrap")).toMatchObject({ kind: "bad" });
  });

  test("with something else inside is refused for what is inside", () => {
    expect(parse(sns("hello"), "unwrap")).toMatchObject({ kind: "bad", code: "MESSAGE_NOT_JSON" });
  });

  test("that is a subscription, not a notification, is refused", () => {
    const body = JSON.stringify({ Type: "SubscriptionConfirmation", Message: JSON.stringify(RUN) });
    expect(parse(body, "unwrap")).toMatchObject({ kind: "bad", code: "MESSAGE_SHAPE" });
  });

  test("unwrapping leaves a bare request as it is", () => {
    expect(parse(JSON.stringify(RUN), "unwrap")).toEqual(parseObject(RUN));
  });
});

describe("a message for a newer worker (C16)", () => {
  test("is not for me yet, whatever its fields look like", () => {
    expect(parseObject({ schema: MESSAGE_SCHEMA + 1, wish: "unheard of" })).toEqual({ kind: "newer", schema: 2 });
    expect(parseObject({ ...RUN, schema: 7, run_id: 12 })).toEqual({ kind: "newer", schema: 7 });
  });

  test("inside an SNS notification is not for me yet either", () => {
    const body = JSON.stringify({ Type: "Notification", Message: JSON.stringify({ schema: 2 }) });
    expect(parse(body, "unwrap")).toEqual({ kind: "newer", schema: 2 });
  });
});

describe("identifiers that PostgreSQL could not store (E01)", () => {
  const broken: readonly (readonly [string, string])[] = [
    ["NUL", "a\u0000b"],
    ["a lone high surrogate", "a\uD800"],
    ["a lone low surrogate", "\uDC00b"],
    ["a line feed", "a\nb"],
    ["a delete character", "a\u007F"],
    ["nothing", ""],
  ];

  test.each(broken)("%s in thread_id has its own code", (_what, threadId) => {
    expect(run({ thread_id: threadId })).toMatchObject({ kind: "bad", code: "THREAD_ID_INVALID" });
  });

  test.each(broken)("%s in run_id has its own code", (_what, runId) => {
    expect(run({ run_id: runId })).toMatchObject({ kind: "bad", code: "RUN_ID_INVALID" });
  });

  test.each(broken)("%s in the thread_id of an answer has its own code", (_what, threadId) => {
    expect(parseObject({ ...ANSWER, thread_id: threadId })).toMatchObject({ kind: "bad", code: "THREAD_ID_INVALID" });
  });

  test("the longest ones are accepted, and one character more is not", () => {
    expect(run({ thread_id: "t".repeat(512), run_id: "r".repeat(200) }).kind).toBe("run");
    expect(run({ thread_id: "t".repeat(513) })).toMatchObject({ code: "THREAD_ID_INVALID" });
    expect(run({ run_id: "r".repeat(201) })).toMatchObject({ code: "RUN_ID_INVALID" });
  });

  test("emoji, colons, slashes and spaces are fine", () => {
    expect(run({ thread_id: "tenant/42: Zoë 🦊" })).toMatchObject({ kind: "run", threadId: "tenant/42: Zoë 🦊" });
  });

  test("the limits are what the refusals say", () => {
    expect(REFUSALS.THREAD_ID_INVALID).toContain("1 to 512");
    expect(REFUSALS.RUN_ID_INVALID).toContain("1 to 200");
  });

  test("NUL and lone surrogates inside the input are no reason to refuse it", () => {
    const input = { messages: [{ role: "user", content: "a\u0000b\uD800" }] };
    expect(run({ input })).toMatchObject({ kind: "run", input });
  });
});

describe("the hash of a wish", () => {
  const hash = (parsed: ParsedMessage): string => (parsed.kind === "run" ? parsed.inputHash : parsed.kind);

  test("does not depend on the order of keys, at any depth, nor on spaces", () => {
    const a = parse('{"schema":1,"run_id":"r1","thread_id":"t1","agent":"a","input":{"x":1,"y":{"b":[1,2],"a":2}}}');
    const b = parse(
      '{ "input": {"y":{"a":2,"b":[1,2]},"x":1}, "agent":"a","thread_id":"t1","run_id":"r1","schema":1 }',
    );
    expect(hash(a)).toBe(hash(b));
  });

  test.each([
    ["the thread", { thread_id: "t2" }],
    ["the agent", { agent: "other" }],
    ["the input", { input: { messages: [] } }],
    ["the order of a list in the input", { input: [2, 1] }],
  ])("depends on %s", (_what, changes) => {
    expect(hash(run(changes))).not.toBe(hash(run({ input: [1, 2] })));
  });

  test("does not depend on how the wish waits: a producer may mend that under the same run id", () => {
    expect(hash(run({ on_busy: "reject", supersede: true }))).toBe(hash(parseObject(RUN)));
  });

  test("tells values apart that print alike", () => {
    const values = ["1", 1, true, "true", null, "null", [], {}, "", "[]", [1], ["1"], { a: 1 }, { a: "1" }];
    expect(new Set(values.map((value) => hashOf(value))).size).toBe(values.length);
  });

  test("of a JSON value is the same after a round trip and after its keys are shuffled", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const again: unknown = JSON.parse(JSON.stringify(value));
        expect(hashOf(again)).toBe(hashOf(value));
        expect(hashOf(reversed(again))).toBe(hashOf(value));
      }),
    );
  });
});

describe("whatever a queue holds", () => {
  test("any text gets a verdict", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 200 }), fc.boolean(), (body, unwrap) => {
        expect(["run", "answer", "newer", "bad"]).toContain(parse(body, unwrap ? "unwrap" : "refuse").kind);
      }),
      { numRuns: 1_000 },
    );
  });

  test("any JSON gets a verdict", () => {
    fc.assert(
      fc.property(fc.json(), fc.boolean(), (body, unwrap) => {
        expect(["run", "answer", "newer", "bad"]).toContain(parse(body, unwrap ? "unwrap" : "refuse").kind);
      }),
      { numRuns: 1_000 },
    );
  });

  test("a request with any values in its fields gets a verdict, and what is read is what was sent", () => {
    const field = fc.oneof(fc.string({ unit: "binary" }), fc.jsonValue(), fc.constantFrom(1, 2, "r1", "t1", "a"));
    const message = fc.record(
      {
        schema: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, field),
        run_id: field,
        thread_id: field,
        agent: field,
        input: field,
        answer: field,
        on_busy: fc.constantFrom("enqueue", "reject", "else"),
        supersede: fc.boolean(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(message, (value) => {
        const parsed = parseObject(value);
        if (parsed.kind === "run") expect(parsed).toMatchObject({ runId: value.run_id, threadId: value.thread_id });
        if (parsed.kind === "bad") expect(Object.keys(REFUSALS)).toContain(parsed.code);
      }),
      { numRuns: 2_000 },
    );
  });
});

/** The same JSON value with the keys of every object the other way round. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => reversed(item));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, item]) => [key, reversed(item)]),
  );
}
