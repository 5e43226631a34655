// Regenerates what the documents show of real runs and real tables: `npm run docs`. Built code is read, nothing is typed in.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Replaces what stands between the two marker lines of `name`; a missing marker is an error, not a silent nothing. */
function replaceBlock(file, name, body) {
  const path = join(root, file);
  const text = readFileSync(path, "utf8");
  const begin = `<!-- generated: ${name} -->`;
  const end = "<!-- end of generated -->";
  const from = text.indexOf(begin);
  const to = text.indexOf(end, from);
  if (from < 0 || to < 0) throw new Error(`${file} has no block "${begin}" ... "${end}"`);
  writeFileSync(path, `${text.slice(0, from + begin.length)}\n\n${body.trimEnd()}\n\n${text.slice(to)}`);
  process.stdout.write(`${file}: ${name}\n`);
}

function run(args) {
  const done = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8", maxBuffer: 1 << 24 });
  if (done.status !== 0) throw new Error(`${args.join(" ")} failed:\n${done.stderr}`);
  return done.stdout;
}

const fenced = (text) => `\`\`\`text\n${text.trimEnd()}\n\`\`\``;

export function settingsTable(SETTINGS) {
  const rows = Object.values(SETTINGS).map((setting) => {
    const standard = setting.required ? "required" : setting.default === undefined ? "none" : `\`${setting.default}\``;
    const range =
      setting.type === "number"
        ? `${setting.unit}, ${setting.min} to ${setting.max}`
        : setting.type === "choice"
          ? setting.choices.join(", ")
          : "text";
    return `| \`${setting.env}\` | ${standard} | ${range} | ${setting.meaning} |`;
  });
  return ["| variable | default | unit and bounds | meaning |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

export function refusalsTable(REFUSALS) {
  const rows = Object.entries(REFUSALS).map(([code, text]) => `| \`${code}\` | ${text} |`);
  return ["| code | what happened, and what to do |", "| --- | --- |", ...rows].join("\n");
}

/** The crash points stand with the test that kills there, in TypeScript: bundled in memory, since Node 20 does not read it. */
async function crashTable() {
  const { build } = await import("vite");
  const entry = join(root, "packages/worker/test/crash-points.ts");
  const bundled = await build({
    configFile: false,
    logLevel: "error",
    build: { ssr: entry, write: false, target: "node20" },
  });
  const code = bundled.output[0].code;
  const { CRASH_POINTS } = await import(`data:text/javascript,${encodeURIComponent(code)}`);
  const rows = CRASH_POINTS.map(({ between, next }) => `| ${between.replace("->", "→")} | ${next} |`);
  return ["| killed between | what the next delivery does |", "| --- | --- |", ...rows].join("\n");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { REFUSALS, SETTINGS } = await import("../../packages/worker/dist/index.js");
  replaceBlock("packages/worker/README.md", "settings", settingsTable(SETTINGS));
  replaceBlock("packages/worker/README.md", "refusals", refusalsTable(REFUSALS));
  replaceBlock("ARCHITECTURE.md", "crash points", await crashTable());
  // Minutes, so only when asked: `npm run docs -- kill`.
  if (process.argv.includes("kill")) {
    replaceBlock("README.md", "kill", fenced(run(["examples/dist/kill/main.js", "--runs", "200", "--seed", "1"])));
  }
  replaceBlock("README.md", "demo", fenced(run(["examples/dist/demo/main.js"])));
  replaceBlock("README.md", "demo --naive --json", fenced(run(["examples/dist/demo/main.js", "--naive", "--json"])));
}
