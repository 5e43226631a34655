// The README's promises about itself: a tool of each policy, each short enough to be copied.

import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";

const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");

it.each(["keyed", "lookup", "once", "none"])("shows a %s tool in under 15 lines", (policy) => {
  const blocks = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = ""]) => code);
  const [block, ...others] = blocks.filter((code) => code.includes(`effect: "${policy}",\n`));
  expect(others).toEqual([]);
  const lines = (block ?? "").split("\n").filter((line) => line !== "" && !line.startsWith("//"));
  expect(lines.length).toBeGreaterThan(5);
  expect(lines.length).toBeLessThan(15);
});
