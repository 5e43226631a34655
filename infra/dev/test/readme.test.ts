// The README's table of error codes against the codes in the source, both ways.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const read = (...path: readonly string[]): string => readFileSync(join(import.meta.dirname, "..", ...path), "utf8");
const all = (text: string, pattern: RegExp): readonly string[] =>
  [...text.matchAll(pattern)].map(([, code]) => code ?? "").toSorted();

it("has a README row for every error code, and no row without a code", () => {
  const codes = all(read("src", "errors.ts"), /^ {2}\| "([A-Z_]+)"/gm);
  expect(codes.length).toBeGreaterThan(10);
  expect(all(read("README.md").split("## Errors")[1] ?? "", /^\| `([A-Z_]+)`/gm)).toEqual(codes);
});
