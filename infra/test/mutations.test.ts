// The lists of mutations: every entry still fits its file, and every case the product promises has a test and a mutant.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { mutated, readMutations } from "../setup/mutate.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const numbered = (letter: string, numbers: readonly number[]): readonly string[] =>
  numbers.map((number) => `${letter}${String(number).padStart(2, "0")}`);
const upTo = (last: number): readonly number[] => Array.from({ length: last }, (_, index) => index + 1);

/** Real reports, retold in the issues: the letter is the part, the gaps in the numbers are meant. */
const CASES = [
  ...numbered("A", [1, 2, 3, 4, 6, 8, 10, 11, 13, 15, 16]),
  ...numbered("B", [1, 2, 3, 5, 7, 9, 10, 11, 13, 14]),
  ...numbered("C", [1, 2, 3, 4, 6, 8, 9, 11, 13, 14, 15, 16, 18, 20]),
  ...numbered("D", [1, 2, 5]),
  ...numbered("E", [1, 2, 4, 5]),
  ...numbered("F", [1, 3, 4, 6, 7, 8, 11, 12, 13, 14, 18]),
  ...numbered("G", [1, 2, 3, 6, 7, 9]),
  ...numbered("Q", upTo(20)),
  ...numbered("T", upTo(20)),
];
const mutations = readMutations();

function withSuites(test: string): string {
  const text = read(test);
  const suites = [...text.matchAll(/from "(\.\/[\w-]+\.ts)"/g)].map(([, path = ""]) => read(join(dirname(test), path)));
  return [text, ...suites].join("\n");
}

describe("the lists of mutations", () => {
  test.each(mutations.map((entry) => [`${entry.topic}: ${entry.why}`, entry] as const))("%s", (_, entry) => {
    expect(mutated(read(entry.file), entry).problem).toBeUndefined();
    expect(existsSync(join(root, entry.test)), entry.test).toBe(true);
    // A name may be built from a table; an id stands in the file, or in the suite that it plays.
    if (CASES.includes(entry.name)) expect(withSuites(entry.test), entry.test).toContain(entry.name);
    // Beside cases, a list may name a behaviour or a code.
    for (const id of entry.ids) expect(CASES.includes(id) || !/^[A-Z]\d\d$/.test(id), id).toBe(true);
  });
});

test.each(CASES)("case %s has a mutant that its test must kill", (id) => {
  expect(mutations.filter(({ ids }) => ids.includes(id)).map(({ test: file }) => file)).not.toEqual([]);
});

describe("a mutation", () => {
  const line = { find: "a < b", replace: "a <= b" };

  test("changes the one place it names, whatever the replacement holds", () => {
    expect(mutated("if (a < b) go();", { ...line, replace: "$& || true" }).text).toBe("if ($& || true) go();");
  });

  test.each([
    ["its place is gone", "if (a > b) go();", line],
    ["its place is not the only one", "a < b; a < b;", line],
    ["it changes nothing", "a < b", { find: "a", replace: "a" }],
    ["it spans lines", "a\nb", { find: "a\nb", replace: "b" }],
  ])("is refused when %s", (_, text, entry) => {
    expect(mutated(text, entry).problem).toBeTypeOf("string");
  });
});
