// What the payment provider accepts: keys, charges, faults; and what its book decides by a key alone.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ChargeBook } from "../src/support/payments-book.ts";
import { type ChargeRequest, fingerprintCharge, parseCharge, parseKey } from "../src/support/payments-charge.ts";
import { FaultDesk, parseFault } from "../src/support/payments-faults.ts";

const CHARGE = { customer: "cus_1", amount: 4_900, currency: "eur", memo: "March" } as const;

function bookAt(clock: { now: number }, entriesMax = 100): ChargeBook {
  return new ChargeBook({ now: () => clock.now, keyRetentionMs: 1_000, entriesMax });
}

function charge(book: ChargeBook, key: string, request: ChargeRequest): string {
  const made = book.commit(request, "req_1", key);
  book.settle(key, { status: 201, body: made, chargeId: made.id });
  return made.id;
}

describe("an idempotency key", () => {
  it.each([
    ["32 hex digits", "0123456789abcdef0123456789abcdef"],
    ["a UUID", "6f1d1e4c-0a53-4c0e-9b8f-0d2f6e1c9a77"],
    ["255 characters", "k".repeat(255)],
  ])("may be %s", (_name, key) => {
    expect(parseKey(key)).toEqual({ state: "given", key });
  });

  it.each([
    ["256 characters", "k".repeat(256)],
    ["nothing between the colon and the line end", ""],
    ["two header values that Node joined", "a, b"],
    ["a NUL", "a\u0000b"],
  ])("may not be %s", (_name, key) => {
    expect(parseKey(key).state).toBe("invalid");
  });

  it("may be absent", () => {
    expect(parseKey(undefined)).toEqual({ state: "absent" });
  });
});

describe("a charge body", () => {
  it("is accepted with and without a memo, and means the same with memo null", () => {
    const { memo: _memo, ...bare } = CHARGE;
    expect(parseCharge(CHARGE)).toEqual({ state: "valid", request: CHARGE });
    expect(parseCharge(bare)).toEqual(parseCharge({ ...bare, memo: null }));
  });

  it.each([
    ["no object", []],
    ["undefined, as an undecodable body gives", undefined],
    ["an empty customer", { ...CHARGE, customer: "" }],
    ["a fraction of a cent", { ...CHARGE, amount: 0.5 }],
    ["nothing to pay", { ...CHARGE, amount: 0 }],
    ["an amount written as text", { ...CHARGE, amount: "4900" }],
    ["an upper-case currency", { ...CHARGE, currency: "EUR" }],
    ["a misspelt field", { ...CHARGE, memmo: "March" }],
    ["a memo past its bound", { ...CHARGE, memo: "m".repeat(501) }],
  ])("is refused with %s", (_name, body) => {
    expect(parseCharge(body).state).toBe("invalid");
  });

  it("never throws, whatever JSON comes", () => {
    fc.assert(fc.property(fc.jsonValue(), (body) => ["valid", "invalid"].includes(parseCharge(body).state)));
    fc.assert(fc.property(fc.jsonValue(), (body) => ["valid", "invalid"].includes(parseFault(body).state)));
  });

  it("has a fingerprint that differs exactly when a parameter differs", () => {
    const request = fc.record({
      customer: fc.constantFrom("a", "b", 'a","'),
      amount: fc.constantFrom(1, 11),
      currency: fc.constantFrom("eur", "usd"),
      memo: fc.constantFrom(null, "", "1", "null"),
    });
    fc.assert(
      fc.property(request, request, (one, other) => {
        const equal = JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort());
        return (fingerprintCharge(one) === fingerprintCharge(other)) === equal;
      }),
    );
  });
});

describe("the charge book", () => {
  const print = fingerprintCharge(CHARGE);

  it("calls a key in flight until its answer is on record, then replays that answer", () => {
    const book = bookAt({ now: 0 });
    expect(book.claim("k", print)).toEqual({ state: "fresh" });
    expect(book.claim("k", print)).toEqual({ state: "in_flight" });
    expect(book.byKey("k")).toEqual({ state: "in_flight" });
    const id = charge(book, "k", CHARGE);
    expect(book.claim("k", print)).toMatchObject({ state: "replay", answer: { status: 201, chargeId: id } });
    expect(book.byKey("k")).toMatchObject({ state: "found", charge: { id, request: { idempotency_key: "k" } } });
  });

  it("refuses the same key with other parameters, in flight or answered", () => {
    const book = bookAt({ now: 0 });
    book.claim("k", print);
    expect(book.claim("k", "other")).toEqual({ state: "mismatch" });
    charge(book, "k", CHARGE);
    expect(book.claim("k", "other")).toEqual({ state: "mismatch" });
  });

  it("never replays a request without a key", () => {
    const book = bookAt({ now: 0 });
    expect([book.claim(null, print), book.claim(null, print)]).toEqual([{ state: "fresh" }, { state: "fresh" }]);
  });

  it("forgets a key after its retention, but not while its request is in flight", () => {
    const clock = { now: 0 };
    const book = bookAt(clock);
    book.claim("slow", print);
    book.claim("k", print);
    charge(book, "k", CHARGE);
    clock.now = 999;
    expect(book.claim("k", print).state).toBe("replay");
    clock.now = 1_000;
    expect(book.claim("k", print).state).toBe("fresh");
    expect(book.claim("slow", print).state).toBe("in_flight");
  });

  it("frees a released key and keeps an answered one", () => {
    const book = bookAt({ now: 0 });
    book.claim("k", print);
    book.release("k");
    expect(book.claim("k", print).state).toBe("fresh");
    charge(book, "k", CHARGE);
    book.release("k");
    expect(book.claim("k", print).state).toBe("replay");
  });

  it("refuses at its bound and counts it: to forget a key would fake a double charge", () => {
    const book = bookAt({ now: 0 }, 1);
    book.claim("k", print);
    charge(book, "k", CHARGE);
    expect(book.claim("other", print)).toEqual({ state: "full" });
    expect(book.claim("k", print).state).toBe("replay");
    expect(book.counters()).toEqual({ charges: 1, keys: 1, refusedFull: 1 });
  });
});

describe("the fault desk", () => {
  it("meets the next n requests in the order the faults were armed", () => {
    const desk = new FaultDesk();
    desk.arm({ kind: "commit_then_reset", times: 2, customer: null });
    desk.arm({ kind: "reject_402", times: 1, customer: null });
    const kinds = ["a", "b", "c", "d"].map((customer) => desk.take(customer)?.kind ?? null);
    expect(kinds).toEqual(["commit_then_reset", "commit_then_reset", "reject_402", null]);
    expect(desk.counters()).toEqual({ armed: 0, taken: 3, refusedFull: 0 });
  });

  it("meets every request of a named customer and nobody else", () => {
    const desk = new FaultDesk();
    const parsed = parseFault({ kind: "delay", delayMs: 5, customer: "cus_1" });
    expect(parsed).toEqual({ state: "valid", fault: { kind: "delay", delayMs: 5, customer: "cus_1", times: null } });
    if (parsed.state === "valid") desk.arm(parsed.fault);
    expect([desk.take("cus_2"), desk.take("cus_1")?.kind, desk.take("cus_1")?.kind]).toEqual([null, "delay", "delay"]);
  });

  it("refuses past its bound and counts it", () => {
    const desk = new FaultDesk();
    const armed = Array.from({ length: 101 }, () => desk.arm({ kind: "reject_402", times: 1, customer: null }));
    expect(armed.filter((ok) => !ok)).toHaveLength(1);
    expect(desk.counters()).toMatchObject({ armed: 100, refusedFull: 1 });
  });

  it.each([
    ["an unknown kind", { kind: "explode" }],
    ["a 500 that does not say when", { kind: "answer_500" }],
    ["a hold past an hour", { kind: "commit_then_stall", holdMs: 3_600_001 }],
    ["no times at all", { kind: "reject_402", times: 0 }],
    ["a customer that is no text", { kind: "reject_402", customer: 7 }],
  ])("refuses %s", (_name, body) => {
    expect(parseFault(body).state).toBe("invalid");
  });

  it("takes commit_then_stall without holdMs as: until the client is gone", () => {
    expect(parseFault({ kind: "commit_then_stall" })).toMatchObject({
      fault: { holdMs: null, times: 1, customer: null },
    });
  });
});
