// The one command that checks everything, against a tiny project whose tools say what they were asked and end as told.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";

const SCRIPT = join(import.meta.dirname, "..", "setup", "verify.mjs");
const PROGRAMS = ["run.js", "kill/main.js", "bench/main.js"].map((file) => `examples/dist/${file}`);

/** Appends its arguments to `calls`, says something, ends with 3 when it is the one to break. */
const fakeTool = (name: string): string => `#!/usr/bin/env node
const { appendFileSync, copyFileSync } = require("node:fs");
const line = ["${name}", ...process.argv.slice(2)].join(" ");
appendFileSync("calls", line + "\\n");
console.log("words of ${name}");
const report = process.argv.find((each) => each.startsWith("--outputFile.json="));
if (report !== undefined) copyFileSync("report.json", report.split("=")[1]);
process.exit(process.env.BREAKS !== undefined && line.startsWith(process.env.BREAKS) ? 3 : 0);
`;

let dir = "";
const put = (path: string, text: string): void => {
  mkdirSync(dirname(join(dir, path)), { recursive: true });
  writeFileSync(join(dir, path), text, { mode: 0o755 });
};
const report = (status: string, file = "packages/a/test/a.test.ts", passed = 5): void =>
  put(
    "report.json",
    JSON.stringify({
      numPassedTests: passed,
      numFailedTests: 0,
      testResults: [{ name: join(dir, file), assertionResults: [{ fullName: "does a thing", status }] }],
    }),
  );

beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), "verify-test-")));
  put("infra/setup/verify.mjs", "");
  copyFileSync(SCRIPT, join(dir, "infra/setup/verify.mjs"));
  put("package.json", '{"type":"commonjs"}');
  for (const tool of ["tsc", "biome", "vitest"]) put(`node_modules/.bin/${tool}`, fakeTool(tool));
  for (const program of PROGRAMS) put(program, fakeTool(program));
  report("passed");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function verify(breaks?: string): Promise<{ readonly code: number | null; readonly out: string }> {
  const child = spawn(process.execPath, [join(dir, "infra/setup/verify.mjs")], {
    cwd: dir,
    env: { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, ...(breaks === undefined ? {} : { BREAKS: breaks }) },
    stdio: ["ignore", "pipe", "ignore"],
  });
  let out = "";
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  const [code]: (number | null)[] = await once(child, "close");
  return { code: code ?? null, out };
}
const calls = (): readonly string[] =>
  existsSync(join(dir, "calls")) ? readFileSync(join(dir, "calls"), "utf8").trim().split("\n") : [];

it("runs every step in order, one line each, and hides the words of what passed", async () => {
  const { code, out } = await verify();
  expect(code).toBe(0);
  expect(calls().map((line) => line.replace(/ --reporter.*/, ""))).toEqual([
    "tsc -b",
    "biome ci .",
    "tsc -p tsconfig.test.json",
    "vitest run",
    "examples/dist/run.js",
    "examples/dist/kill/main.js --runs 20 --json",
    "examples/dist/bench/main.js --once --json",
  ]);
  expect(out.match(/^ok {3}/gm)).toHaveLength(7);
  expect(out).toContain("5 passed, 0 failed, 0 skipped");
  expect(out).not.toContain("words of");
});

it("stops at the first failure, shows its output and ends with its exit code", async () => {
  const { code, out } = await verify("biome");
  expect(code).toBe(3);
  expect(calls()).toEqual(["tsc -b", "biome ci ."]);
  expect(out).toMatch(/words of biome[\s\S]*FAIL lint[\s\S]*stopped at "lint"/);
  expect(out).not.toContain("words of tsc");
});

it("goes on to no benchmark when the kill harness is red", async () => {
  expect(await verify("examples/dist/kill")).toMatchObject({ code: 3 });
  expect(calls().at(-1)).toContain("kill/main.js");
});

it.each(["skipped", "pending", "todo"])("takes a %s test for a failure and names it", async (status) => {
  report(status);
  const { code, out } = await verify();
  expect(code).toBe(1);
  expect(out).toMatch(new RegExp(`${status}\\s+packages/a/test/a\\.test\\.ts\\s+does a thing`));
  expect(calls().at(-1)).toContain("vitest run");
});

it("lets the published checkpoint suite skip what it skips by itself, by file name", async () => {
  report("skipped", "packages/tracing/test/langgraph-validation.test.ts");
  expect(await verify()).toMatchObject({ code: 0, out: expect.stringContaining("1 skipped") });
});

it("takes a test run without a passed test for a failure", async () => {
  report("passed", undefined, 0);
  expect(await verify()).toMatchObject({ code: 1, out: expect.stringContaining("no test ran") });
});

it("leaves nothing in the temporary folder", async () => {
  await verify();
  const [file] = calls().flatMap((line) => /--outputFile\.json=(\S+)/.exec(line)?.[1] ?? []);
  expect(file).toBeDefined();
  expect(existsSync(dirname(file ?? ""))).toBe(false);
});
