// The kit's judgement and its table, from plays that are written down here.

import { describe, expect, it } from "vitest";
import { brokenBy, brokenByRetry } from "../src/testing/kit-judge.ts";
import type { Played } from "../src/testing/kit-lane.ts";
import { crashTable } from "../src/testing/kit-table.ts";

const played = (changes: Partial<Played>): Played => ({
  tool: "pay",
  point: "after_commit",
  strike: "SIGKILL",
  executions: 1,
  told: "done",
  row: "done",
  requests: 1,
  keyed: 1,
  ...changes,
});

describe("brokenBy", () => {
  it.each([
    [{ executions: 2 }, "the effect happened 2 times"],
    [{ executions: 0 }, "the model was told done, and the effect never happened"],
    [{ told: "failed" }, "the model was told failed, and the effect happened"],
    [{ told: "nothing", error: "boom" }, "the delivery that took over gave no reply: boom"],
  ] as const)("says of %o that %s", (changes, sentence) => {
    expect(brokenBy("keyed", played(changes))).toEqual([`SIGKILL after_commit: ${sentence}`]);
  });

  it("calls no unknown broken, whether or not it happened", () => {
    for (const executions of [0, 1]) expect(brokenBy("once", played({ executions, told: "unknown" }))).toEqual([]);
  });

  it("holds the policy once to what it promises, as keyed and lookup", () => {
    for (const policy of ["once", "keyed", "lookup"] as const) {
      expect(brokenBy(policy, played({ executions: 2 }))).toHaveLength(1);
    }
  });

  it("holds a read and a tool without a ledger to nothing", () => {
    for (const policy of ["none", undefined] as const) expect(brokenBy(policy, played({ executions: 3 }))).toEqual([]);
  });
});

describe("brokenByRetry", () => {
  it("wants the provider to have seen the call's key on both requests, and one effect", () => {
    expect(brokenByRetry(played({ requests: 2, keyed: 2 }))).toEqual([]);
    expect(brokenByRetry(played({ requests: 1 }))).toEqual(["the retry: the provider saw 1 of 2 requests"]);
    expect(brokenByRetry(played({ requests: 2, keyed: 1 }))).toEqual([
      "the retry: 1 of 2 requests came without the call's key",
    ]);
    expect(brokenByRetry(played({ requests: 2, keyed: 2, executions: 2 }))).toEqual([
      "the retry: the provider saw the same key twice and did it 2 times",
    ]);
  });
});

describe("crashTable", () => {
  it("has a row a tool and strike, and lists the plays of a cell that differ", () => {
    const plays = [
      played({ executions: 1 }),
      played({ executions: 2 }),
      played({ point: "after_claim", executions: 0, told: "unknown" }),
    ];
    const [head, rule, row, ...rest] = crashTable([{ tool: "pay", policy: "once", plays, broken: ["x"] }]).split("\n");
    expect(head).toContain("committed, no reply yet");
    expect(rule).toMatch(/^\|[-|]+\|$/);
    expect(row?.split("|").map((cell) => cell.trim())).toEqual([
      "",
      "pay",
      "once",
      "SIGKILL",
      "",
      "0, unknown",
      "1 x1; 2 x1",
      "",
      "",
      "1 broken",
      "",
    ]);
    expect(rest).toEqual([]);
  });
});
