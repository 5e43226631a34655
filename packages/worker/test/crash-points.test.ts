// The table of crash points in ARCHITECTURE.md is the one the kills are made from; `npm run docs` writes it.
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { CRASH_POINTS } from "./crash-points.ts";

it("stands in ARCHITECTURE.md, row by row, and nothing else does", () => {
  const text = readFileSync(new URL("../../../ARCHITECTURE.md", import.meta.url), "utf8");
  const block = /<!-- generated: crash points -->([\s\S]*?)<!-- end of generated -->/.exec(text)?.[1] ?? "";
  const rows = block
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(2);
  expect(rows).toEqual(CRASH_POINTS.map(({ between, next }) => `| ${between.replace("->", "→")} | ${next} |`));
});
