// `npm run verify`: everything that must hold before a change is believed, in order, one summary line a step; stops at the first red.
// Plain JavaScript without packages, like ensure.mjs, which runs it and has installed by then.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const scratch = mkdtempSync(join(tmpdir(), "verify-"));
const reportFile = join(scratch, "tests.json");

/** Enough to see what broke; a runaway step must not fill our memory. The end of it is kept. */
const OUTPUT_BYTES_MAX = 4 * 1024 * 1024;

/**
 * Files whose tests may be skipped, each with its reason. A skipped test proves nothing, so anything else that is skipped is red.
 * The published suite marks for itself what the memory saver cannot do; only the suite can unmark it.
 */
const MAY_SKIP = {
  "packages/tracing/test/langgraph-validation.test.ts":
    "the published checkpoint suite skips two of its tests for MemorySaver",
};

const STEPS = [
  { name: "build", command: ["tsc", "-b"] },
  { name: "lint", command: ["biome", "ci", "."] },
  { name: "types", command: ["tsc", "-p", "tsconfig.test.json"] },
  // All at once, as `npm test` runs them: two projects that pass one by one can still refuse to run together.
  { name: "tests", command: vitest(), judge: judgeTests },
  { name: "examples", command: ["node", "examples/dist/run.js"] },
  { name: "kill harness", command: ["node", "examples/dist/kill/main.js", "--runs", "20", "--json"] },
  { name: "benchmarks", command: ["node", "examples/dist/bench/main.js", "--once", "--json"] },
];

function vitest() {
  return ["vitest", "run", "--reporter=default", "--reporter=json", `--outputFile.json=${reportFile}`];
}

/** What vitest counted. Its exit code says nothing of tests that did not run. */
function judgeTests() {
  const report = JSON.parse(readFileSync(reportFile, "utf8"));
  const skipped = report.testResults.flatMap((file) =>
    file.assertionResults
      .filter(({ status }) => status !== "passed" && status !== "failed")
      .map(({ fullName, status }) => ({ file: relative(root, file.name), fullName, status })),
  );
  const strays = skipped.filter(({ file }) => MAY_SKIP[file] === undefined);
  const counts = `${report.numPassedTests} passed, ${report.numFailedTests} failed, ${skipped.length} skipped`;
  if (report.numPassedTests === 0) return { counts, problem: "no test ran" };
  if (strays.length === 0) return { counts };
  const list = strays.map(({ file, fullName, status }) => `  ${status}  ${file}  ${fullName}`).join("\n");
  return { counts, problem: `a test that does not run proves nothing:\n${list}` };
}

/** Runs a step with its output kept aside, so that eight greens are eight lines and a red is all there is to read. */
function run([command, ...args]) {
  const program = command === "node" ? process.execPath : join(root, "node_modules", ".bin", command);
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd: root, env: process.env, stdio: ["ignore", "pipe", "pipe"] });
    const stop = (signal) => child.kill(signal);
    process.on("SIGINT", stop).on("SIGTERM", stop);
    let output = "";
    const keep = (chunk) => {
      output = `${output}${chunk}`.slice(-OUTPUT_BYTES_MAX);
    };
    child.stdout.setEncoding("utf8").on("data", keep);
    child.stderr.setEncoding("utf8").on("data", keep);
    const ended = (code) => {
      process.off("SIGINT", stop).off("SIGTERM", stop);
      resolve({ code, output });
    };
    child.once("error", (error) => {
      keep(`${error.message}\n`);
      ended(127);
    });
    child.once("close", (code, signal) => ended(code ?? 128 + (constants.signals[signal] ?? 9)));
  });
}

async function step({ name, command, judge }) {
  const began = performance.now();
  // Some steps take minutes: whoever waits, a person or a CI system that ends silent jobs, hears which.
  process.stderr.write(`     ${name} ...\n`);
  const { code, output } = await run(command);
  const verdict = code === 0 && judge !== undefined ? judge() : {};
  const problem = code === 0 ? verdict.problem : `${command.join(" ")} ended with exit code ${code}`;
  const seconds = ((performance.now() - began) / 1_000).toFixed(1).padStart(7);
  const line = `${problem === undefined ? "ok  " : "FAIL"} ${name.padEnd(13)} ${seconds} s  ${verdict.counts ?? ""}`;
  process.stdout.write(problem === undefined ? `${line.trimEnd()}\n` : `${output}\n${line}\n${problem}\n`);
  return problem === undefined ? 0 : code || 1;
}

async function main() {
  for (const each of STEPS) {
    const code = await step(each);
    if (code !== 0) {
      process.stdout.write(`verify: stopped at "${each.name}"; the steps after it were not run\n`);
      return code;
    }
  }
  process.stdout.write(`verify: ${STEPS.length} of ${STEPS.length} steps passed\n`);
  return 0;
}

try {
  process.exitCode = await main();
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
