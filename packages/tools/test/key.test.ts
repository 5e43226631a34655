// The key: the seed's formula for healthy ids, and no key at all for a missing part.

import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { deriveKey, fingerprintArgs, keyUuid, subKey } from "../src/key.ts";

const part = fc.string({ minLength: 1, unit: "binary" });

describe("deriveKey", () => {
  it("is byte for byte the seed's key for a healthy thread and call id", () => {
    const seed = createHash("sha256").update("run_9f21c0:toolu_01WkP9Qm").digest("hex").slice(0, 32);
    expect(deriveKey("run_9f21c0", "toolu_01WkP9Qm")).toBe(seed);
  });

  it("is stable, has 32 hex digits, and differs when either part differs", () => {
    fc.assert(
      fc.property(part, part, part, part, (threadA, refA, threadB, refB) => {
        const key = deriveKey(threadA, refA);
        expect(key).toMatch(/^[0-9a-f]{32}$/);
        expect(deriveKey(threadA, refA)).toBe(key);
        if (Buffer.from(threadA).equals(Buffer.from(threadB)) && Buffer.from(refA).equals(Buffer.from(refB))) return;
        expect(deriveKey(threadB, refB)).not.toBe(key);
      }),
    );
  });

  it("keeps a colon in the thread apart from a colon in the call (G06)", () => {
    expect(deriveKey("a:b", "c")).not.toBe(deriveKey("a", "b:c"));
    expect(deriveKey("a%3Ab", "c")).not.toBe(deriveKey("a:b", "c"));
    fc.assert(
      fc.property(fc.array(fc.constantFrom("a", ":", "%", "3A"), { minLength: 1 }), fc.nat(9), (pieces, at) => {
        const cut = Math.min(at, pieces.length - 1);
        const text = `${pieces.join("")}:x`;
        const other: readonly [string, string] = [pieces.slice(0, cut).join(""), `${pieces.slice(cut).join("")}:x`];
        if (other[0] === "") return;
        const whole: readonly [string, string] = [pieces.join(""), "x"];
        if (whole[0] === other[0] && whole[1] === other[1]) return;
        expect(deriveKey(...whole), text).not.toBe(deriveKey(...other));
      }),
    );
  });

  it.each([
    ["t", undefined],
    ["", "x"],
    [null, null],
    ["t", ""],
    [undefined, "x"],
  ])("refuses %o and %o with INVALID_KEY_PART (G06)", (threadId, ref) => {
    // JavaScript callers and provider ids do not obey the types.
    expect(() => deriveKey(threadId as string, ref as string)).toThrow(
      expect.objectContaining({ code: "INVALID_KEY_PART" }),
    );
  });

  it("hashes the whole of a long id: two 80-character ids equal in the first 64 give two keys (A10)", () => {
    const head = "x".repeat(64);
    expect(deriveKey("t", `${head}${"a".repeat(16)}`)).not.toBe(deriveKey("t", `${head}${"b".repeat(16)}`));
    expect(deriveKey("t", "i".repeat(210))).toMatch(/^[0-9a-f]{32}$/);
    expect(deriveKey("t", "abc__thought__a+b/c==")).not.toBe(deriveKey("t", "abc__thought__a b/c=="));
  });
});

describe("subKey", () => {
  it("gives each labelled write its own stable key (G01)", () => {
    const key = deriveKey("t", "c");
    expect(subKey(key, "charge")).toBe(subKey(key, "charge"));
    expect(new Set([key, subKey(key, "charge"), subKey(key, "mail")]).size).toBe(3);
    expect(() => subKey(key, "")).toThrow(expect.objectContaining({ code: "INVALID_KEY_PART" }));
  });
});

describe("keyUuid", () => {
  it("is a version 4 UUID that differs when the key differs in any kept digit", () => {
    fc.assert(
      fc.property(part, part, (a, b) => {
        const uuid = keyUuid(deriveKey("t", a));
        expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        if (deriveKey("t", a) !== deriveKey("t", b)) expect(keyUuid(deriveKey("t", b))).not.toBe(uuid);
      }),
    );
    expect(() => keyUuid("not a key")).toThrow(expect.objectContaining({ code: "INVALID_KEY_PART" }));
  });

  it("keeps every digit but the version and variant bits", () => {
    expect(keyUuid("0123456789abcdef0123456789abcdef")).toBe("01234567-89ab-4def-8123-456789abcdef");
  });
});

describe("fingerprintArgs", () => {
  it("ignores the order of object keys and nothing else", () => {
    expect(fingerprintArgs({ a: 1, b: { c: 2, d: 3 } })).toBe(fingerprintArgs({ b: { d: 3, c: 2 }, a: 1 }));
    expect(fingerprintArgs([1, 2])).not.toBe(fingerprintArgs([2, 1]));
    expect(fingerprintArgs({ a: "1" })).not.toBe(fingerprintArgs({ a: 1 }));
    expect(fingerprintArgs({ amount: 12 })).not.toBe(fingerprintArgs({ amount: 1250 }));
  });

  it("is the same after a trip through JSON, as through a checkpoint", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(fingerprintArgs(JSON.parse(JSON.stringify(value)))).toBe(fingerprintArgs(value));
      }),
    );
  });
});
