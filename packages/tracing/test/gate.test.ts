// The gate: secrets never leave, the cut is byte-exact and keeps JSON JSON, hostile input stays cheap.

import { DiagLogLevel, diag } from "@opentelemetry/api";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createGate, TracingError } from "../src/index.ts";
import { HARMLESS_KEYS, SECRET_KEYS, VALUE_SECRETS } from "./secrets.ts";

const gate = createGate();
const bytesOf = (text: string): number => Buffer.byteLength(text);
const isWellFormed = (text: string): boolean => !/\p{Surrogate}/u.test(text);

describe("the gate redacts", () => {
  it("at least thirty kinds that are known by their value", () => {
    expect(new Set(VALUE_SECRETS.map(({ kind }) => kind)).size).toBeGreaterThanOrEqual(30);
  });

  it.each(VALUE_SECRETS)("a $kind by its value, in prose, in a field, as a key, in JSON in JSON", ({ text, core }) => {
    const places: unknown[] = [
      text,
      `before ${text} after`,
      { note: `use ${text}` },
      { [`k ${text}`]: 1 },
      [["x", { deep: [text] }]],
      JSON.stringify({ a: JSON.stringify({ b: text }) }),
      `not quite json {"a": "${text}"`,
      new Map([["note", new Set([text])]]),
      new Error(`failed for ${text}`, { cause: new Error(text) }),
    ];
    for (const place of places) {
      const gated = gate.value(place);
      expect(gated.text).not.toContain(core);
      expect(gated.redacted).toBeGreaterThan(0);
    }
  });

  it.each(SECRET_KEYS)("F14: the value under %s: string, number, array, object, and in text", (key) => {
    const core = "hunter2value";
    for (const value of [core, [core], { a: { b: core } }, 918273645546]) {
      const plain = gate.value({ outer: [{ [key]: value }] }).text;
      expect(plain).not.toMatch(/hunter2value|918273645546/);
      expect(gate.value(JSON.stringify({ body: JSON.stringify({ [key]: value }) })).text).not.toMatch(
        /hunter2value|918273645546/,
      );
    }
    for (const text of [
      `${key}=${core}`,
      `${key}: ${core}`,
      `{"${key}":"${core}`,
      `{\\"${key}\\":\\"${core}\\"} x`,
      `?a=1&${key}=${core}&b=2`,
    ]) {
      expect(gate.text(`failed with ${text}`)).not.toContain(core);
    }
  });

  it.each(HARMLESS_KEYS)("nothing under %s", (key) => {
    expect(JSON.parse(gate.value({ [key]: 512 }).text)).toEqual({ [key]: 512 });
  });

  it("F14: finds keys in other spellings and inside strings, and leaves maxTokens", () => {
    const { text } = gate.value({
      body: '{"api_key":"sk-1"}',
      authToken: 1234,
      db: { password: ["a"] },
      maxTokens: 512,
    });
    expect(JSON.parse(text)).toEqual({
      body: '{"api_key":"[redacted]"}',
      authToken: "[redacted]",
      db: { password: "[redacted]" },
      maxTokens: 512,
    });
  });

  it("T20: a key in JSON inside JSON", () => {
    const { text } = gate.value('{"tool_calls":[{"function":{"arguments":"{\\"api_key\\":\\"k1\\"}"}}]}');
    expect(text).not.toContain("k1");
    expect(JSON.parse(text)).toBeTypeOf("object");
  });

  it("F13: records only name, cleaned message and cleaned stack of an error, causes included", () => {
    const error = Object.assign(
      new Error("value 'x' Authorization: Bearer abc.def for postgres://u:hunter2@h/db", {
        cause: new Error("GET https://api.example/v1?api_key=zzz99&a=1"),
      }),
      { config: { headers: { Authorization: "Bearer leak-1" } }, request: { _header: "leak-2" } },
    );
    const gated = gate.error(error);
    expect(Object.keys(gated)).toEqual(["name", "message", "stack"]);
    expect(JSON.stringify(gated)).not.toMatch(/abc\.def|hunter2|zzz99|leak-/);
    expect(gated.stack).toContain("Caused by: Error: GET https://api.example/v1?api_key=[redacted]&a=1");
    expect(gate.value({ error }).text).not.toMatch(/leak-/);
  });

  it("leaves timestamps, ids, amounts and prose alone", () => {
    const clean = {
      at: "1764547200000",
      epoch: 1764547200000,
      id: "3f2b8c9e-1d4a-4b6f-9a7e-5c8d2e1f0a3b",
      sha: "9e107d9d372bb6826bd81d3542a419d6",
      order: "1234 5678 9012 3456",
      note: "Basic understanding of bearer shares; author: Ann, key results",
      url: "https://example.com:8080/a@b?page=2",
    };
    expect(gate.value(clean)).toMatchObject({ text: JSON.stringify(clean), redacted: 0, truncated: false });
  });

  it("masks a card that comes as a number, also signed or with a fraction", () => {
    for (const n of [4111111111111111, -4111111111111111, 4111111111111111n, 411111111111111.5]) {
      const luhn = String(n).includes(".") ? n : "[redacted]";
      expect(JSON.parse(gate.value({ n }).text)).toEqual({ n: luhn });
    }
    expect(gate.attributes({ n: 4111111111111111, at: 1764547200000 })).toEqual({ n: "[redacted]", at: 1764547200000 });
  });

  it("takes the user's keys and patterns beside its own", () => {
    const own = createGate({ extraKeys: ["customer name"], extraPatterns: [/KD-\d{6}/] });
    const { text } = own.value({ customerName: "Ann", CUSTOMER_NAME: "Bob", note: "see KD-123456; customer_name=Cyd" });
    expect(text).not.toMatch(/Ann|Bob|Cyd|123456/);
  });

  it("passes a value twice without a change", () => {
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withMap: true, withDate: true }), (value) => {
        const once = gate.value(value).text;
        expect(gate.text(once)).toBe(once);
      }),
      { numRuns: 300 },
    );
  });
});

describe("the gate cuts", () => {
  it.each(["plain", 'a "quote"', "a \\ slash", "two\nlines", "\u007f \u0001", "é 😀", "lone \ud83d half"])(
    "counts the bytes of a string as JSON would write it, masked or not: %j",
    (text) => {
      const input = { note: `${text} password=hunter2` };
      const gated = createGate().value(input);
      expect(gated.redacted).toBe(1);
      expect(gated.bytes).toBe(bytesOf(JSON.stringify(input)));
    },
  );

  it("F07 T18: at 2,048 UTF-8 bytes, marker included, never inside a character", () => {
    const inputs = [
      `${"x".repeat(2047)}🦊tail`,
      "漢".repeat(3000),
      "e\u0301".repeat(2000),
      "é".repeat(2048),
      `${"y".repeat(2045)}🦊🦊🦊`,
      `lone \ud83e surrogate ${"z".repeat(3000)}`,
      `\udd8a`,
    ];
    for (const input of inputs) {
      for (const gated of [gate.text(input), gate.value({ input }).text]) {
        expect(bytesOf(gated)).toBeLessThanOrEqual(2_048);
        expect(isWellFormed(gated)).toBe(true);
      }
    }
    expect(gate.text(`a\ud83eb`)).toBe("a\ufffdb");
    expect(gate.text("x".repeat(2_048))).toBe("x".repeat(2_048));
    expect(gate.text("x".repeat(2_049))).toMatch(/^x{2038,}…\[cut\]$/);
  });

  it("F08: shortens long strings inside JSON and keeps the small fields", () => {
    const input = {
      blob: "b".repeat(10_000),
      amount: 1212,
      items: [{ id: "cus_1", note: "n".repeat(5_000) }],
      last: true,
    };
    const gated = gate.value(input);
    const parsed: unknown = JSON.parse(gated.text);
    expect(parsed).toMatchObject({ amount: 1212, last: true, items: [{ id: "cus_1" }] });
    expect(gated).toMatchObject({ truncated: true, bytes: bytesOf(JSON.stringify(input)) });
    expect(gated.sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(gate.value({ ...input, amount: 1213 }).sha256).not.toBe(gated.sha256);
  });

  it("F08: says how much of a wide value is missing, scalars last to go", () => {
    const wide = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`field_${n}`, { text: "t".repeat(100) }]));
    const gated = gate.value({ ...wide, amount: 7 });
    expect(JSON.parse(gated.text)).toMatchObject({ amount: 7, "…": expect.stringMatching(/^…\d+ more$/) });
  });

  it("F12 T19: redacts before it cuts: no part of a key that crosses the limit", () => {
    for (const { text, core } of VALUE_SECRETS) {
      for (let offset = 2_000; offset < 2_052; offset += 2) {
        const out = gate.text(`${"x ".repeat(offset / 2)} ${text} tail ${"y".repeat(4_000)}`);
        expect(out).not.toContain(core.slice(0, 8));
        expect(out, "half a mask").not.toMatch(/\[r?e?d?a?c?t?e?d?…\[cut\]$/);
        expect(bytesOf(out)).toBeLessThanOrEqual(2_048);
      }
    }
  });

  it("does not leak what stands at the edge of its window", () => {
    for (let offset = 4_000; offset < 8_300; offset += 41) {
      const out = createGate({ bytesMax: 16_384 }).text(
        `${"x".repeat(offset)} ghp_${"Ab1".repeat(14)} ${"y".repeat(9_000)}`,
      );
      expect(out).not.toContain("ghp_A");
    }
  });

  it("keeps the digits of long integers and a field named __proto__", () => {
    const json =
      '{"id":12345678901234567890,"__proto__":{"password":"p"},"f":0.12345678901234567,"s":"12345678901234567"}';
    const { text } = gate.value(json);
    expect(text).toBe(
      '{"id":12345678901234567890,"__proto__":{"password":"[redacted]"},"f":0.12345678901234566,"s":"12345678901234567"}',
    );
    expect(gate.value(' {"a" : 1} ').text).toBe(' {"a" : 1} ');
  });

  it("limits arrays of an attribute as one value", () => {
    const { list, numbers } = gate.attributes({
      list: Array.from({ length: 900 }, () => "word word"),
      numbers: [1, 2, 3],
    });
    expect(bytesOf(JSON.stringify(list))).toBeLessThan(2 * 2_048);
    expect(numbers).toEqual([1, 2, 3]);
  });
});

describe("the gate holds on anything", () => {
  const anything = fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withNullPrototype: true,
    withTypedArray: true,
    maxDepth: 6,
  });

  it("never exceeds its limit, is well-formed, and gives JSON for everything but plain strings", () => {
    fc.assert(
      fc.property(anything, fc.integer({ min: 128, max: 600 }), (value, bytesMax) => {
        const gated = createGate({ bytesMax }).value(value);
        expect(bytesOf(gated.text)).toBeLessThanOrEqual(bytesMax);
        expect(isWellFormed(gated.text)).toBe(true);
        if (typeof value !== "string") JSON.parse(gated.text);
      }),
      { numRuns: 1_000 },
    );
  });

  it("gives JSON for JSON text, whatever has to be cut or masked", () => {
    const json = fc.json({ maxDepth: 5, stringUnit: "binary" });
    const big = fc.array(
      fc.record({ password: fc.string(), text: fc.string({ minLength: 0, maxLength: 400 }), n: fc.double() }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(
        fc.oneof(
          json.filter((text) => /^[[{]/.test(text)),
          big.map((value) => JSON.stringify(value)),
        ),
        (text) => {
          JSON.parse(gate.value(text).text);
        },
      ),
      { numRuns: 500 },
    );
  });

  it("lets no planted secret through, wherever ten thousand random structures put it, in whole JSON within the limit", () => {
    const secret = fc.constantFrom(...VALUE_SECRETS);
    const pad = fc.oneof(fc.string({ maxLength: 30 }), fc.constant("x ".repeat(1_030)), fc.constant('{"a":[1,'));
    const structure = fc.letrec<{ value: unknown; leaf: string }>((tie) => ({
      leaf: fc.constant("@@secret@@"),
      value: fc.oneof(
        { maxDepth: 5, withCrossShrink: true },
        tie("leaf"),
        fc.tuple(pad, tie("leaf")).map(([before, leaf]) => `${before} ${leaf} ${before}`),
        fc.array(tie("value"), { minLength: 1, maxLength: 3 }),
        fc.dictionary(fc.string({ minLength: 1, maxLength: 8 }), tie("value"), { minKeys: 1, maxKeys: 3 }),
        tie("value").map((value) => JSON.stringify(value)),
        tie("value").map((value) => new Map([["m", value]])),
        tie("value").map((value) => new Error("wrapped", { cause: new Error(JSON.stringify(value)) })),
      ),
    })).value;
    const put = (value: unknown, text: string): unknown => {
      if (typeof value === "string")
        return value.replaceAll(
          "@@secret@@",
          JSON.stringify(text).slice(1, -1) === text ? text : text.replaceAll("\n", " "),
        );
      if (Array.isArray(value)) return value.map((item: unknown) => put(item, text));
      if (value instanceof Map)
        return new Map([...value].map(([key, item]: [unknown, unknown]) => [key, put(item, text)]));
      if (value instanceof Error)
        return new Error(value.message, { cause: put(value.cause instanceof Error ? value.cause.message : "", text) });
      if (typeof value === "object" && value !== null)
        return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, put(item, text)]));
      return value;
    };
    fc.assert(
      fc.property(structure, secret, (shape, { text, core }) => {
        const value = put(shape, text);
        const asText = JSON.stringify(value) ?? "";
        const outs = [gate.value(value).text, gate.text(asText)];
        const attributes = gate.attributes({ a: asText, b: JSON.stringify({ value }) });
        const leaving = [...outs, ...Object.values(attributes).map(String)];
        for (const out of leaving) {
          expect(bytesOf(out)).toBeLessThanOrEqual(2_048);
          expect(isWellFormed(out)).toBe(true);
        }
        if (typeof value !== "string") for (const out of outs) JSON.parse(out);
        expect(JSON.stringify(leaving)).not.toContain(core.replaceAll("\n", " "));
      }),
      { numRuns: 10_000 },
    );
    // Some five seconds of computing, on a machine that may have other work.
  }, 60_000);

  it("fails closed on what cannot be read", () => {
    const circular: Record<string, unknown> = { a: 1 };
    circular["self"] = circular;
    const hostile = {
      get boom(): string {
        throw new Error("no");
      },
      toJSON: undefined,
    };
    let deep: unknown = { password: "hunter2", n: "bottom" };
    for (let level = 0; level < 100; level++) deep = [deep];
    expect(JSON.parse(gate.value(circular).text)).toEqual({ a: 1, self: "[circular]" });
    expect(gate.value(hostile).text).toContain("[unreadable]");
    expect(gate.value(deep).text).not.toMatch(/hunter2|bottom/);
    expect(
      gate.value(
        new Proxy(
          {},
          {
            ownKeys: () => {
              throw new Error("no");
            },
          },
        ),
      ).text,
    ).toContain("[unreadable]");
    // What a caller without types may do.
    expect(gate.text(Symbol("x") as unknown as string)).toBe("null");
  });

  it("stays quick on 400 KB of hostile input", () => {
    const of = (part: string): string => part.repeat(Math.ceil(400_000 / part.length)).slice(0, 400_000);
    const inputs: unknown[] = [
      ...[
        "-----BEGIN ",
        "://",
        "://a:b/",
        "password",
        "password=",
        'password="',
        '"\\',
        "\\",
        "[",
        '{"a":',
        "4",
        "4 ",
        "eyJ",
        "sk-",
        "Bearer ",
        "@",
        "🦊",
        "\ud83e",
      ].map(of),
      `${of("x")}"`,
      { big: of("x"), list: Array.from({ length: 40_000 }, (_, n) => n) },
      JSON.stringify(Array.from({ length: 4_000 }, (_, n) => ({ n, password: "p".repeat(60) }))),
      Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`key_${n}`, "://a:b/"])),
    ];
    for (const input of inputs) {
      // CPU time, since other work on the machine is not ours; the bound is only against quadratic behaviour.
      const started = process.cpuUsage();
      const gated = gate.value(input);
      const { user } = process.cpuUsage(started);
      expect(user / 1_000, typeof input === "string" ? input.slice(0, 12) : "object").toBeLessThan(150);
      expect(bytesOf(gated.text)).toBeLessThanOrEqual(2_048);
    }
  });
});

describe("content switch", () => {
  it("F18: without any setting, content passes redacted", () => {
    expect(createGate().attributes({ "tool.args": '{"a":1,"password":"p"}' })).toEqual({
      "tool.args": '{"a":1,"password":"[redacted]"}',
    });
  });

  it("F18: none leaves sizes and hashes only", () => {
    const none = createGate({ content: "none" });
    const attributes = none.attributes({
      "tool.args": '{"a":"visible"}',
      "exception.message": "visible",
      "tool.args_bytes": 15,
      "agent.run_id": "r1",
    });
    expect(JSON.stringify(attributes)).not.toContain("visible");
    expect(attributes).toMatchObject({ "tool.args_bytes": 15, "agent.run_id": "r1" });
    expect(JSON.parse(String(attributes["tool.args"]))).toMatchObject({ bytes: 15 });
    expect(none.attributes(attributes)).toEqual(attributes);
    expect(none.error(new Error("visible")).message).toBe("");
    expect(none.error(new Error("visible")).stack).not.toContain("visible");
  });

  it("F18: a value it does not know means none, with a warning", () => {
    const warnings: string[] = [];
    const silent = (): void => undefined;
    diag.setLogger(
      { error: silent, info: silent, debug: silent, verbose: silent, warn: (text) => warnings.push(text) },
      DiagLogLevel.WARN,
    );
    // What a configuration file may say.
    const unknown = createGate({ content: "full" as "none" });
    diag.disable();
    expect(unknown.value("visible").text).not.toContain("visible");
    expect(warnings).toHaveLength(1);
  });

  it("refuses a limit too small for its marker", () => {
    expect(() => createGate({ bytesMax: 10 })).toThrow(TracingError);
  });
});
