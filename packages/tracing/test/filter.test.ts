// The filter grammar: what matches, what is refused with which column, and that no input hangs it.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { FILTER_DEPTH_MAX, FILTER_LENGTH_MAX, parseFilter } from "../src/index.ts";

const root = {
  "agent.receive_count": 2,
  "agent.redelivery_cause": "visibility_expired",
  "agent.redelivered": true,
  "agent.run_id": "run_9f21c0",
  "agent.name": "billing agent",
  "otlp.count": "3",
  "agent.thread_id": "90071992547409931",
  tags: 1,
  "list.tags": ["a", "b"],
};

function matches(text: string, attributes: Readonly<Record<string, unknown>> = root): boolean {
  const parsed = parseFilter(text);
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed.matches(attributes);
}

describe("a filter", () => {
  it.each([
    "receive_count>1",
    "receive_count > 1 and cause=visibility_expired",
    "receive_count>=2",
    "receive_count<3",
    "receive_count<=2",
    "receive_count=2",
    "receive_count!=3",
    "cause!=none",
    "redelivered=true",
    "redelivered!=false",
    "run_id=run_9f21c0",
    'agent="billing agent"',
    "agent='billing agent'",
    'agent!="a \\"quoted\\" one"',
    "not cause=none",
    "NOT (cause=none OR cause=redrive)",
    "cause=none or receive_count=2",
    "cause=none and cause=none or receive_count=2",
    "receive_count=2 or cause=none and cause=none",
    "(receive_count=2 or cause=none) and redelivered=true",
    "agent.receive_count>1",
    "otlp.count>2",
    "otlp.count=3",
    "thread_id=90071992547409931",
    'receive_count="2"',
    "cause>=visibility",
    "list.tags=b",
    "not not receive_count=2",
    "not outcome=x",
  ])("matches: %s", (text) => expect(matches(text)).toBe(true));

  it.each([
    "receive_count>2",
    "receive_count=2.5",
    "cause=visibility",
    "redelivered=1",
    "redelivered>0",
    "outcome=x",
    "outcome!=x",
    "(receive_count=2 or cause=none) and redelivered=false",
    "thread_id=90071992547409932",
    "list.tags=c",
    "agent.constructor=x",
    "cause>1",
    "tags.length=1",
  ])("does not match: %s", (text) => expect(matches(text)).toBe(false));

  it.each([
    ["", 1, "an attribute name, not or ("],
    ["receive_count", 14, "= != > >= < or <="],
    ["receive_count >", 16, "a value"],
    ["receive_count > and", 17, "a value"],
    ["receive_count>1 cause=none", 17, "and, or, or the end"],
    ["(receive_count>1", 17, "and, or, or )"],
    ["receive_count>1)", 16, "and, or, or the end"],
    ["recieve_count>1", 1, "a full attribute name with a dot, or one of receive_count"],
    ["agent='x", 9, "a closing '"],
    ["cause=!x", 7, "a name, an operator or a value"],
    ["and", 1, "an attribute name, not or ("],
    ["x".repeat(FILTER_LENGTH_MAX + 1), FILTER_LENGTH_MAX + 1, `at most ${FILTER_LENGTH_MAX} characters`],
    [`${"(".repeat(FILTER_DEPTH_MAX + 1)}a.b=1`, FILTER_DEPTH_MAX + 1, "nested parentheses"],
    [`${"not ".repeat(FILTER_DEPTH_MAX + 1)}a.b=1`, FILTER_DEPTH_MAX * 4 + 1, "nested parentheses"],
  ])("refuses %j at column %i", (text, column, expected) => {
    const parsed = parseFilter(text);
    expect(parsed).toMatchObject({ ok: false, code: "FILTER_SYNTAX" });
    expect(parsed.ok ? "" : parsed.message).toContain(`column ${column}: expected `);
    expect(parsed.ok ? "" : parsed.message).toContain(expected);
  });

  it("never throws, whatever it reads", () => {
    const words = fc.constantFrom(
      "(",
      ")",
      "and",
      "or",
      "not",
      "=",
      ">",
      "!=",
      "a.b",
      "cause",
      "'",
      '"',
      "1",
      "\\",
      " ",
      "🦊",
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(words).map((parts) => parts.join(" ")),
        ),
        (text) => {
          const parsed = parseFilter(text);
          if (parsed.ok) parsed.matches(root);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it("agrees with a direct reading on random conditions", () => {
    const number = fc.integer({ min: 0, max: 5 });
    const operator = fc.constantFrom("=", "!=", ">", ">=", "<", "<=");
    const holds = (value: number, op: string, other: number): boolean =>
      op === "="
        ? value === other
        : op === "!="
          ? value !== other
          : op === ">"
            ? value > other
            : op === ">="
              ? value >= other
              : op === "<"
                ? value < other
                : value <= other;
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom("x.a", "x.b"), operator, number, fc.boolean()), {
          minLength: 1,
          maxLength: 6,
        }),
        number,
        number,
        (terms, a, b) => {
          const text = terms
            .map(
              ([name, op, other], at) => `${at === 0 ? "" : terms[at - 1]?.[3] ? " and " : " or "}${name}${op}${other}`,
            )
            .join("");
          let expected = false;
          let group = true;
          for (const [name, op, other, and] of terms) {
            group = group && holds(name === "x.a" ? a : b, op, other);
            if (!and) {
              expected = expected || group;
              group = true;
            }
          }
          if (terms.at(-1)?.[3] === true) expected = expected || group;
          expect(matches(text, { "x.a": a, "x.b": b })).toBe(expected);
        },
      ),
    );
  });
});
