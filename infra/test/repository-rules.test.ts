// The checker itself, on planted sources: each rule is red where it should be, and green beside it.

import { describe, expect, it } from "vitest";
import {
  type Allowance,
  directionComplaints,
  environmentComplaints,
  productComplaints,
  styleComplaints,
  tracingComplaints,
  undeclaredComplaints,
  wordComplaints,
} from "./repository-rules.ts";
import { readSource, type SourceFacts } from "./repository-source.ts";

const HEAD = "// A planted source file of the tests.\n";
const plant = (path: string, code: string): SourceFacts => readSource(path, `${HEAD}${code}`);

describe("the direction of imports", () => {
  it.each([
    ["packages/tracing/src/a.ts", 'import { deriveKey } from "@reprise/tools";'],
    ["packages/tracing/src/a.ts", 'import type { Ledger } from "@reprise/tools";'],
    ["packages/tools/src/a.ts", 'export { startWorker } from "@reprise/worker";'],
    ["packages/tools/src/a.ts", 'type W = import("@reprise/worker").Worker;'],
    ["packages/tools/src/langgraph/a.ts", 'export const load = () => import("@reprise/worker");'],
    ["packages/worker/src/a.ts", 'import { withScene } from "@reprise/examples";'],
    ["packages/worker/src/a.ts", 'import { startStack } from "@reprise/dev-stack";'],
    ["packages/worker/src/a.ts", 'export * from "@reprise/dev-stack/deep";'],
    ["infra/dev/src/a.ts", 'import { readConfig } from "@reprise/worker";'],
    ["infra/dev/src/a.ts", 'const path = import.meta.resolve("@reprise/tools");'],
    ["packages/tracing/test/a.test.ts", 'import { defineTool } from "@reprise/tools";'],
    ["packages/tools/src/a.ts", 'import { gate } from "../../tracing/src/gate.ts";'],
    ["packages/tools/src/langgraph/a.ts", 'import { gate } from "../../../tracing/src/gate.ts";'],
    ["examples/src/kill/a.ts", 'import x from "../../../infra/dev/src/stack.ts";'],
  ])("complains in %s of %s", (path, code) => {
    expect(directionComplaints(plant(path, code))).toEqual([expect.stringContaining(`${path}:2:`)]);
  });

  it.each([
    ["packages/tools/src/a.ts", 'import { ATTR } from "@reprise/tracing";'],
    ["packages/worker/src/a.ts", 'import { effectScope } from "@reprise/tools/langgraph";'],
    ["packages/tools/src/langgraph/a.ts", 'import { key } from "../key.ts";'],
    ["packages/tools/test/a.test.ts", 'import { createDatabase } from "@reprise/dev-stack";'],
    ["packages/tools/test/a.test.ts", 'import x from "../../tracing/test/telemetry.ts";'],
    ["examples/src/a.ts", 'import { startStack } from "@reprise/dev-stack"; import "@reprise/worker";'],
    ["infra/dev/src/a.ts", 'import { PRODUCT } from "@reprise/tracing";'],
    ["packages/tracing/src/a.ts", '// import "@reprise/worker"\nexport const text = \'import "@reprise/worker"\';'],
  ])("accepts in %s %s", (path, code) => {
    expect(directionComplaints(plant(path, code))).toEqual([]);
  });
});

describe("tracing's core", () => {
  it.each([
    ["packages/tracing/src/a.ts", 'import { Runnable } from "@langchain/core/runnables";'],
    ["packages/tracing/src/a.ts", 'import pg from "pg";'],
    ["packages/tracing/src/a.ts", 'import { TracedSaver } from "./langgraph/traced-saver.ts";'],
    ["packages/tracing/src/langgraph/a.ts", 'import { z } from "zod";'],
  ])("in %s may not: %s", (path, code) => {
    expect(tracingComplaints(plant(path, code))).toHaveLength(1);
  });

  it.each([
    [
      "packages/tracing/src/a.ts",
      'import { trace } from "@opentelemetry/api"; import { join } from "node:path"; import "./b.ts";',
    ],
    [
      "packages/tracing/src/langgraph/a.ts",
      'import { Runnable } from "@langchain/core/runnables"; import "../span.ts";',
    ],
    ["packages/tools/src/a.ts", 'import pg from "pg";'],
  ])("in %s may: %s", (path, code) => {
    expect(tracingComplaints(plant(path, code))).toEqual([]);
  });
});

describe("a package's own list", () => {
  const facts = plant(
    "packages/tools/src/a.ts",
    'import { z } from "zod/v4"; import { T } from "@langchain/core/tools"; import "node:fs"; import "./b.ts";',
  );

  it("lacks what only hoisting provides", () => {
    expect(undeclaredComplaints(facts, { dependencies: { zod: "4.6.7" } })).toEqual([
      expect.stringContaining("@langchain/core is imported but not in package.json"),
    ]);
  });

  it("is complete with dependencies and peers", () => {
    const manifest = { dependencies: { zod: "4.6.7" }, peerDependencies: { "@langchain/core": "^1.4.0" } };
    expect(undeclaredComplaints(facts, manifest)).toEqual([]);
  });
});

describe("the product's name", () => {
  it.each([
    'export const name = "reprise-worker";',
    "export const sql = `select 1 from reprise.runs where id = $1`;",
    'export const environment = { REPRISE_LOG_LEVEL: "warn" };',
    'export const variable = "REPRISE_LOG_LEVEL";',
    'throw new Error("Reprise cannot start");',
    'export const scope = "@reprise/tools";',
  ])("is a stray in %s", (code) => {
    expect(productComplaints(plant("packages/worker/src/a.ts", code), [])).toHaveLength(1);
  });

  it.each([
    [
      "packages/worker/src/a.ts",
      'import "@reprise/tools"; // reprise\nexport type T = import("@reprise/tracing").Tracing;',
    ],
    ["packages/tracing/src/product.ts", 'export const name = "reprise";'],
    ["packages/worker/test/a.test.ts", 'const sql = "select * from reprise.runs";'],
  ])("may stand in %s", (path, code) => {
    expect(productComplaints(plant(path, code), [])).toEqual([]);
  });

  it("is judged without what an allowance covers, and with the rest", () => {
    const allowance: Allowance = { path: /^examples\//, text: /reprise\.[a-z]+/, reason: "planted" };
    const used = new Set<Allowance>();
    const judge = (code: string): readonly string[] =>
      productComplaints(plant("examples/src/a.ts", code), [allowance], used);
    expect(judge('export const other = "reprise";')).toHaveLength(1);
    expect(used.size).toBe(0);
    expect(judge('export const sql = "from reprise.runs join reprise.effects";')).toEqual([]);
    expect(judge('export const sql = "from reprise.runs as reprise";')).toHaveLength(1);
    expect(used).toEqual(new Set([allowance]));
  });
});

describe("the environment", () => {
  it.each([
    'export const a = process.env["A"];',
    "const { env } = process;",
    'import { env } from "node:process";',
    'import process from "node:process";',
  ])("is read by %s, where it must not be", (code) => {
    expect(environmentComplaints(plant("packages/tools/src/a.ts", code))).toHaveLength(1);
  });

  it.each([
    "packages/worker/src/config.ts",
    "examples/src/support/env.ts",
    "infra/setup/a.mjs",
    "infra/dev/test/a.test.ts",
  ])("may be read in %s", (path) => {
    expect(environmentComplaints(plant(path, 'export const a = process.env["A"];'))).toEqual([]);
  });

  it("is not read by a config.ts of another package, nor by process.pid", () => {
    expect(environmentComplaints(plant("packages/tools/src/config.ts", "export const a = process.env;"))).toHaveLength(
      1,
    );
    expect(environmentComplaints(plant("packages/tools/src/a.ts", "export const a = process.pid;"))).toEqual([]);
  });
});

describe("the house style", () => {
  it.each([
    ["any", "export const a: readonly any[] = [];"],
    ["non-null assertion", "export const f = (a?: string) => a!.length;"],
    ["default export", "export default class A {}"],
    ["export *", 'export * from "./a.ts";'],
    ["focused or skipped test", 'describe.concurrent.only("x", () => {});'],
    ["focused or skipped test", 'it.skip("x", () => {});'],
    ["focused or skipped test", 'test.todo("x");'],
    ["focused or skipped test", 'it.skipIf(true)("x", () => {});'],
  ])("has no place for: %s", (what, code) => {
    expect(styleComplaints(plant("packages/tools/src/a.ts", code))).toEqual([`packages/tools/src/a.ts:2: ${what}`]);
  });

  it("minds code, not words about code", () => {
    const code =
      'export const a = "export * from any; it.skip"; // any! export default\nexport const only = [a].at(0);';
    expect(styleComplaints(plant("packages/tools/src/a.ts", code))).toEqual([]);
  });

  it.each([
    'import "node:fs";',
    "",
    "//",
    "// one",
    "/* A block that says it. */",
    "// biome-ignore lint: for some reason",
  ])("wants a first line that says the job, not %s", (line) => {
    expect(styleComplaints(readSource("packages/tools/src/a.ts", `${line}\nexport {};\n`))).toHaveLength(1);
  });

  it("takes the line after a shebang for the first", () => {
    expect(styleComplaints(readSource("packages/tools/src/a.ts", `#!/usr/bin/env node\n${HEAD}export {};\n`))).toEqual(
      [],
    );
  });
});

describe("words", () => {
  const promise = ["exactly", "once"];
  it.each([promise.join(" "), promise.join("-"), promise.join("\n * "), promise.join("\n// ").toUpperCase()])(
    "that promise too much are found, also over a line's end: %j",
    (words) => {
      expect(wordComplaints("README.md", `It runs.\nIt runs ${words}.`)).toEqual([
        expect.stringContaining("README.md:2:"),
      ]);
    },
  );

  it("that are notes to oneself are found, and parts of other words are not", () => {
    expect(wordComplaints("a.ts", `// ${["TO", "DO"].join("")}: later`)).toHaveLength(1);
    expect(wordComplaints("a.ts", "it.todo, MASTODON, exactly what it does once")).toEqual([]);
  });
});
