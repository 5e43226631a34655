// The README's tables against the code: error codes both ways, and the defaults of the bounds.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { PRODUCT } from "../src/product.ts";
import { tailSettings } from "../src/tail-sampler-options.ts";

const folder = join(import.meta.dirname, "..");
const readme = readFileSync(join(folder, "README.md"), "utf8");
const source = readdirSync(join(folder, "src"), { withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map((entry) => readFileSync(join(folder, "src", entry.name), "utf8"))
  .join("\n");

const rows = [...readme.matchAll(/^\| `([A-Z]+_[A-Z_]+)` \|/gm)].map((match) => match[1] ?? "");

it("explains every error code, and no other", () => {
  const inCode = [...source.matchAll(/"((?:TRACING|FILTER)_[A-Z_]+)"/g)].map((match) => match[1]);
  const inReadme = rows.filter((code) => !code.startsWith(PRODUCT.environmentPrefix));
  expect(new Set(inReadme)).toEqual(new Set(inCode));
});

it("explains every variable that only we read, and no other", () => {
  const env = readFileSync(join(folder, "src", "env.ts"), "utf8");
  const inCode = [...env.matchAll(/(?:number\("|environmentPrefix\}\$?)([A-Z_]+)/g)].map(
    (match) => `${PRODUCT.environmentPrefix}${match[1]}`,
  );
  const inReadme = rows.filter((variable) => variable.startsWith(PRODUCT.environmentPrefix));
  expect(new Set(inReadme)).toEqual(new Set(inCode));
});

it("states the defaults of the bounds as they are", () => {
  for (const [option, value] of Object.entries(tailSettings({}))) {
    if (typeof value !== "number" || option === "share") continue;
    const row = readme.split("\n").find((line) => line.startsWith(`| \`${option}\``));
    expect(row, option).toContain(value.toLocaleString("en-US"));
  }
});
