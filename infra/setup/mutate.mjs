// `npm run mutate`: applies each listed one-line mutation to a copy of the tree and expects the test that guards the line to go red.
// Plain JavaScript without packages, like verify.mjs. The lists: packages/*/test/mutations/*.json, infra and examples likewise.

import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, sep } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const PLACES = ["packages/tracing", "packages/tools", "packages/worker", "examples", "infra/dev", "infra"];
const NOT_COPIED = new Set(["node_modules", "dist", ".git"]);
/** A mutant may wait for ever; a test file takes less than this by far. */
const TEST_MS_MAX = 240_000;
const OUTPUT_BYTES_MAX = 256 * 1024;

/** Every list there is. @returns entries as the lists hold them, with `topic`, the list's file name */
export function readMutations(from = root) {
  return PLACES.flatMap((place) => {
    const folder = join(from, place, "test", "mutations");
    return filesOf(folder).flatMap((file) =>
      JSON.parse(readFileSync(join(folder, file), "utf8")).map((entry) => ({
        ...entry,
        topic: `${basename(place)}/${basename(file, ".json")}`,
      })),
    );
  });
}

function filesOf(folder) {
  try {
    return readdirSync(folder)
      .filter((file) => file.endsWith(".json"))
      .sort();
  } catch (error) {
    if (error.code === "ENOENT") return [];
    throw error;
  }
}

/** The text with the mutation in it, or what is wrong with the entry. */
export function mutated(text, { find, replace }) {
  const count = text.split(find).length - 1;
  if (count !== 1) return { problem: `"find" stands ${count} times in the file, not once` };
  if (find.includes("\n") || replace.includes("\n")) return { problem: "not one line" };
  if (find === replace) return { problem: "changes nothing" };
  return { text: text.replace(find, () => replace) };
}

/** A tree of its own for the mutants: sources copied, packages shared, except our own, which must be the copy's. */
function copyTree() {
  const copy = mkdtempSync(join(tmpdir(), "mutants-"));
  for (const name of readdirSync(root)) {
    if (NOT_COPIED.has(name)) continue;
    const filter = (path) => !path.split(sep).some((part) => NOT_COPIED.has(part));
    cpSync(join(root, name), join(copy, name), { recursive: true, filter: (path) => filter(path.slice(root.length)) });
  }
  linkPackages(copy);
  return copy;
}

/** Everything that is installed, by links; what npm linked to our own folders leads to the copy's. */
function linkPackages(copy) {
  const installed = join(root, "node_modules");
  const ours = readJson("package.json").workspaces.map((folder) => ({
    folder,
    name: readJson(folder, "package.json").name,
  }));
  const [scope = ""] = ours.map(({ name }) => name.split("/")[0]);
  mkdirSync(join(copy, "node_modules", scope), { recursive: true });
  for (const name of readdirSync(installed)) {
    if (name !== scope && !name.startsWith(".vite"))
      symlinkSync(join(installed, name), join(copy, "node_modules", name));
  }
  for (const { folder, name } of ours) symlinkSync(join(copy, folder), join(copy, "node_modules", name));
}

const readJson = (...path) => JSON.parse(readFileSync(join(root, ...path), "utf8"));

function run(copy, args) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd: copy, stdio: ["ignore", "pipe", "pipe"], detached: true });
    let output = "";
    const keep = (chunk) => {
      output = `${output}${chunk}`.slice(-OUTPUT_BYTES_MAX);
    };
    child.stdout.setEncoding("utf8").on("data", keep);
    child.stderr.setEncoding("utf8").on("data", keep);
    // The whole group: a test's own children must not outlive it.
    const timer = setTimeout(() => process.kill(-child.pid, "SIGKILL"), TEST_MS_MAX);
    child.once("close", (code) => {
      clearTimeout(timer);
      resolve({ code, output });
    });
  });
}

const buildTree = (copy) => run(copy, [join("node_modules", "typescript", "bin", "tsc"), "-b"]);

/** @returns "green" | "red" | "broken" (the file did not load, or the pattern selects nothing) with what was printed */
async function runTest(copy, { test, name, build }) {
  if (build) {
    const built = await buildTree(copy);
    if (built.code !== 0) return { colour: "broken", output: built.output };
  }
  const report = join(copy, "report.json");
  rmSync(report, { force: true });
  const project = test.endsWith(".real.test.ts") ? "real" : "unit";
  const { code, output } = await run(copy, [
    join("node_modules", "vitest", "vitest.mjs"),
    ...["run", "--project", project, test, "-t", name, "--reporter=json", `--outputFile=${report}`],
  ]);
  return { colour: colourOf(code, report), output };
}

function colourOf(code, report) {
  // A run that was cut off for hanging left no report: the mutant changed what happens.
  if (code === null) return "red";
  try {
    const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(report, "utf8"));
    if (numPassedTests + numFailedTests === 0) return "broken";
    return code === 0 ? "green" : "red";
  } catch {
    return "broken";
  }
}

const verdictOf = { green: "SURVIVED", red: "killed", broken: "BROKEN" };

async function tryMutation(copy, entry, baselines) {
  const file = join(copy, entry.file);
  const text = readFileSync(file, "utf8");
  const mutant = mutated(text, entry);
  if (mutant.problem !== undefined) return { verdict: "STALE", output: mutant.problem };
  const key = `${entry.test} ${entry.name}`;
  baselines[key] ??= await runTest(copy, entry);
  if (baselines[key].colour !== "green") return { verdict: "NOT GREEN BEFORE", output: baselines[key].output };
  writeFileSync(file, mutant.text);
  try {
    const { colour, output } = await runTest(copy, entry);
    return { verdict: verdictOf[colour], output };
  } finally {
    writeFileSync(file, text);
  }
}

async function lane(queue, report) {
  const copy = copyTree();
  const baselines = {};
  try {
    // Real tests start processes of what is built and import each other's packages by it, also where no mutant needs a build.
    await buildTree(copy);
    for (let entry = queue.shift(); entry !== undefined; entry = queue.shift()) {
      report(entry, await tryMutation(copy, entry, baselines));
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function chosen(entries, only) {
  if (only === undefined) return entries;
  return entries.filter(({ ids, topic }) => ids.includes(only) || topic === only || topic.endsWith(`/${only}`));
}

async function main(args) {
  const argumentOf = (flag) => (args.includes(flag) ? args[args.indexOf(flag) + 1] : undefined);
  const queue = chosen(readMutations(), argumentOf("--only"));
  if (queue.length === 0) throw new Error("no listed mutation is meant: --only takes a case id or the name of a list");
  const total = queue.length;
  const alive = [];
  const report = (entry, { verdict, output }) => {
    process.stdout.write(
      `${verdict.padEnd(16)} ${entry.ids.join(" ").padEnd(8)} ${entry.topic}  ${entry.file}: ${entry.why}\n`,
    );
    if (verdict === "killed") return;
    alive.push(entry);
    process.stdout.write(`  - ${entry.find.trim()}\n  + ${entry.replace.trim()}\n  ${entry.test} -t "${entry.name}"\n`);
    if (verdict !== "SURVIVED") process.stdout.write(`${output.slice(-2_000)}\n`);
  };
  const lanes = Math.min(Number(argumentOf("--lanes") ?? 1), total);
  await Promise.all(Array.from({ length: lanes }, () => lane(queue, report)));
  process.stdout.write(`${total - alive.length} of ${total} mutants killed\n`);
  return alive.length === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await main(process.argv.slice(2));
