// Proves the package's errors: stable codes, causes kept, and every refusal documented with its remedy.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { errorName, errorText, REFUSALS, WorkerError } from "../src/errors.ts";

const refusals = Object.entries(REFUSALS);

test.each(refusals)("%s says what happened and what to do next, in sentences", (code, text) => {
  expect(code).toMatch(/^[A-Z]+(_[A-Z]+)*$/);
  expect(text).toMatch(/^\S.{30,}\.$/);
});

test("no two refusals have the same text", () => {
  expect(new Set(refusals.map(([, text]) => text)).size).toBe(refusals.length);
});

test("the README has a row for each refusal, and for no other", () => {
  const start = readme().findIndex((line) => /^#+ .*refus/i.test(line));
  expect(start).toBeGreaterThanOrEqual(0);
  const section = readme().slice(start + 1);
  const end = section.findIndex((line) => line.startsWith("#"));
  const named = section
    .slice(0, end === -1 ? undefined : end)
    .flatMap((line) => /^\|\s*`([A-Z_]+)`/.exec(line)?.[1] ?? []);
  expect(named.sort()).toEqual(Object.keys(REFUSALS).sort());
});

test("an error carries its code, also in its message, and its cause", () => {
  const cause = new Error("connection reset");
  const error = new WorkerError("SEND_FAILED", "SQS did not take run r1", { cause });
  expect(error).toBeInstanceOf(Error);
  expect(error).toMatchObject({ name: "WorkerError", code: "SEND_FAILED", cause });
  expect(error.message).toBe("SEND_FAILED: SQS did not take run r1");
});

test.each([
  [new WorkerError("LEASE_LOST", "gone"), "LEASE_LOST"],
  [Object.assign(new Error("refused"), { code: "ECONNREFUSED" }), "ECONNREFUSED"],
  [new TypeError("no"), "TypeError"],
  [Object.assign(new Error("odd"), { code: 42 }), "Error"],
  ["text", "string"],
  [undefined, "undefined"],
  [null, "object"],
])("whatever was thrown has a name (%#)", (thrown, name) => {
  expect(errorName(thrown)).toBe(name);
});

test.each([
  [new Error("words"), "words"],
  ["words", "words"],
  [undefined, "undefined"],
  [null, "null"],
  [{ a: 1 }, "[object Object]"],
])("whatever was thrown has a text (%#)", (thrown, text) => {
  expect(errorText(thrown)).toBe(text);
});

function readme(): readonly string[] {
  return readFileSync(new URL("../README.md", import.meta.url), "utf8").split("\n");
}
