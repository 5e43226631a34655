// Proves what a completion says: one report for each status, bodies that their reader understands, and what no message can hold.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type CompletionRow,
  completionBody,
  interruptsText,
  parseCompletion,
  replyQueues,
  reportOf,
} from "../src/completion.ts";

const ROW: CompletionRow = {
  completion_id: "r1:finished",
  run_id: "r1",
  thread_id: "t1",
  agent: "billing",
  status: "finished",
  result: '{"total":3}',
  interrupts: null,
  error_code: null,
  error_text: null,
  created_at: new Date("2026-06-01T00:00:00Z"),
};
const HEAD = { completionId: "r1:finished", runId: "r1", threadId: "t1", agent: "billing", omitted: false };

describe("a report", () => {
  test.each(["queued", "running"] as const)("of a run that is %s is none", (status) => {
    expect(reportOf({ ...ROW, status })).toBeUndefined();
  });

  test("of a finished run has its result, also when that is nothing", () => {
    expect(reportOf(ROW)).toEqual({ state: "finished", result: { total: 3 } });
    expect(reportOf({ ...ROW, result: null })).toEqual({ state: "finished", result: null });
  });

  test("of a run that asks has the questions with their ids", () => {
    const interrupts = JSON.stringify([{ id: "i1", value: { pay: 3 } }, { id: "i2" }, { value: "no id" }, 7]);
    expect(reportOf({ ...ROW, status: "interrupted", interrupts })).toEqual({
      state: "interrupted",
      interrupts: [
        { id: "i1", value: { pay: 3 } },
        { id: "i2", value: null },
      ],
    });
  });

  test.each(["failed", "cancelled", "rejected", "parked", "abandoned"] as const)("of a %s run says why", (status) => {
    const row = { ...ROW, status, error_code: "FAULT_LIMIT", error_text: "5 faults" };
    expect(reportOf(row)).toEqual({ state: status, code: "FAULT_LIMIT", text: "5 faults" });
  });
});

describe("a body", () => {
  test("is read as what it was made of, for any result", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (result) => {
        const read = parseCompletion(completionBody({ ...ROW, result: JSON.stringify(result) }));
        expect(read).toEqual({ ...HEAD, state: "finished", result: JSON.parse(JSON.stringify(result)) });
      }),
    );
  });

  test("of an error and of a question is read as such", () => {
    const parked = { ...ROW, status: "parked", error_code: "NO_PROGRESS", error_text: "lost twice" } as const;
    expect(parseCompletion(completionBody(parked))).toEqual({
      ...HEAD,
      state: "parked",
      code: "NO_PROGRESS",
      text: "lost twice",
    });
    const asking = { ...ROW, status: "interrupted", interrupts: '[{"id":"i1","value":"ok?"}]' } as const;
    expect(parseCompletion(completionBody(asking))).toMatchObject({ interrupts: [{ id: "i1", value: "ok?" }] });
  });

  test("never outgrows 256 KiB, counted in bytes; what is left out is said to be, and questions keep their ids", () => {
    const large = JSON.stringify("ü".repeat(200_000));
    const finished = completionBody({ ...ROW, result: large });
    expect(Buffer.byteLength(finished)).toBeLessThan(1_000);
    expect(parseCompletion(finished)).toEqual({ ...HEAD, state: "finished", result: null, omitted: true });
    const asking = completionBody({ ...ROW, status: "interrupted", interrupts: `[{"id":"i1","value":${large}}]` });
    expect(parseCompletion(asking)).toMatchObject({ interrupts: [{ id: "i1", value: null }], omitted: true });
  });

  test.each(["", "{", "[]", "null", '{"schema":1,"run_id":"r"}', '{"schema":1,"kind":"else"}'])(
    "that is no completion reads as none: %j",
    (body) => expect(parseCompletion(body)).toBeUndefined(),
  );

  test("of a run that is not over cannot be made", () => {
    expect(() => completionBody({ ...ROW, status: "running" })).toThrow(TypeError);
  });
});

test("questions that do not fit a row keep their ids", () => {
  const asked = [{ id: "i1", value: "x".repeat(100) }];
  expect(interruptsText(asked, 200)).toBe(JSON.stringify(asked));
  expect(JSON.parse(interruptsText(asked, 100))).toEqual([{ id: "i1", value: { truncated: true } }]);
});

test.each([
  [undefined, []],
  ["", []],
  [" http://a/1 ", ["http://a/1"]],
  ["http://a/1,http://a/2  http://a/3,", ["http://a/1", "http://a/2", "http://a/3"]],
])("the configured reply queues %j are %j", (setting, urls) => {
  expect([...replyQueues(setting)]).toEqual(urls);
});
