// The setup script against a tiny project in a temporary folder, with a fake npm first on PATH.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";

const SCRIPT = join(import.meta.dirname, "..", "setup", "ensure.mjs");

/** Records each call, takes its time, says something on stdout, lays down a node_modules with a compiler and a tool. */
const FAKE_NPM = `#!/bin/sh
echo "begin $*" >> calls
sleep 0.3
rm -rf node_modules
mkdir -p node_modules/.bin
printf '#!/bin/sh\\necho "built $*" >> calls\\necho compiler output\\nexit \${TSC_EXIT:-0}\\n' > node_modules/.bin/tsc
printf '#!/bin/sh\\necho tool "$@"\\n' > node_modules/.bin/tool
chmod +x node_modules/.bin/tsc node_modules/.bin/tool
echo "cache \${npm_config_cache:-default}" >> caches
echo "npm output"
echo "end" >> calls
exit \${NPM_EXIT:-0}
`;

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "reprise-ensure-"));
  mkdirSync(join(dir, "infra", "setup"), { recursive: true });
  mkdirSync(join(dir, "bin"));
  copyFileSync(SCRIPT, join(dir, "infra", "setup", "ensure.mjs"));
  writeFileSync(join(dir, "bin", "npm"), FAKE_NPM, { mode: 0o755 });
  writeFileSync(
    join(dir, "package-lock.json"),
    JSON.stringify({ packages: { "node_modules/a": { version: "1.0.0" } } }),
  );
  writeFileSync(join(dir, "tsconfig.json"), "{}");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

const launch = (args: readonly string[], variables: Readonly<Record<string, string>> = {}): ChildProcess =>
  spawn(process.execPath, [join(dir, "infra", "setup", "ensure.mjs"), ...args], {
    cwd: dir,
    env: { PATH: `${join(dir, "bin")}:/usr/local/bin:/usr/bin:/bin`, HOME: dir, ...variables },
    stdio: ["ignore", "pipe", "pipe"],
  });

const end = async (child: ChildProcess): Promise<Ended> => {
  let [stdout, stderr] = ["", ""];
  child.stdout?.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr?.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const [code, signal] = await once(child, "close");
  return { code, signal, stdout, stderr };
};

const ensure = (args: readonly string[], variables?: Readonly<Record<string, string>>): Promise<Ended> =>
  end(launch(args, variables));

const calls = (): readonly string[] =>
  existsSync(join(dir, "calls")) ? readFileSync(join(dir, "calls"), "utf8").trim().split("\n") : [];
const installs = (): number => calls().filter((line) => line.startsWith("begin ci")).length;

it("installs, builds and runs a tool from node_modules/.bin, with a stdout that is the tool's alone", async () => {
  const ended = await ensure(["tool", "a b", "--flag"]);
  expect(ended).toMatchObject({ code: 0, stdout: "tool a b --flag\n" });
  expect(ended.stderr).toContain("npm output");
  expect(ended.stderr).toContain("compiler output");
  expect(calls()).toEqual([expect.stringContaining("begin ci --include=dev --include=optional"), "end", "built -b"]);
});

it("installs again when the lock file changed, and not otherwise; builds each time", async () => {
  await ensure([]);
  await ensure([]);
  expect(installs()).toBe(1);
  writeFileSync(
    join(dir, "package-lock.json"),
    JSON.stringify({ packages: { "node_modules/a": { version: "2.0.0" } } }),
  );
  await ensure([]);
  await ensure([]);
  expect(installs()).toBe(2);
  expect(calls().filter((line) => line === "built -b")).toHaveLength(4);
});

it("installs again when node_modules was removed or an install was cut short", async () => {
  await ensure([]);
  rmSync(join(dir, "node_modules"), { recursive: true });
  await ensure([]);
  rmSync(join(dir, "node_modules", ".reprise-lock"));
  await ensure([]);
  expect(installs()).toBe(3);
});

it("believes an install made by hand when npm's own record agrees with the lock file", async () => {
  mkdirSync(join(dir, "node_modules"));
  const record = (version: string): void =>
    writeFileSync(
      join(dir, "node_modules", ".package-lock.json"),
      JSON.stringify({ packages: { "node_modules/a": { version } } }),
    );
  record("1.0.0");
  await ensure([]);
  expect(installs()).toBe(0);
  record("0.9.0");
  await ensure([]);
  expect(installs()).toBe(1);
});

it("passes the exit codes of the command, of npm and of the compiler", async () => {
  expect(await ensure(["node", "-e", "process.exit(7)"])).toMatchObject({ code: 7 });
  expect(await ensure(["no-such-program"])).toMatchObject({
    code: 127,
    stderr: expect.stringContaining("no-such-program"),
  });
  expect(await ensure(["tool"], { TSC_EXIT: "2" })).toMatchObject({ code: 2, stdout: "" });
  rmSync(join(dir, "node_modules"), { recursive: true });
  expect(await ensure(["tool"], { NPM_EXIT: "5" })).toMatchObject({ code: 5, stdout: "" });
  expect(existsSync(join(dir, "node_modules", ".reprise-lock"))).toBe(false);
});

it("passes SIGTERM and SIGINT to the command and ends with its exit code", async () => {
  await ensure([]);
  const program =
    "process.on('SIGTERM',()=>process.exit(41));process.on('SIGINT',()=>process.exit(42));console.log('up');setInterval(()=>0,1000)";
  for (const [signal, code] of [
    ["SIGTERM", 41],
    ["SIGINT", 42],
  ] as const) {
    const child = launch(["node", "-e", program]);
    const ended = end(child);
    if (child.stdout !== null) await once(child.stdout, "data");
    child.kill(signal);
    expect(await ended).toMatchObject({ code });
  }
});

it("ends with 128 + n when the command dies of signal n", async () => {
  expect(await ensure(["node", "-e", "process.kill(process.pid,'SIGKILL');setInterval(()=>0,1000)"])).toMatchObject({
    code: 137,
  });
});

it("installs once when several calls come at once", async () => {
  const ended = await Promise.all([ensure(["tool", "1"]), ensure(["tool", "2"]), ensure(["tool", "3"])]);
  expect(ended.map(({ code }) => code)).toEqual([0, 0, 0]);
  expect(installs()).toBe(1);
  expect(readdirSync(join(dir, ".reprise"))).toEqual([]);
});

it("takes over from a call that was killed during the install", async () => {
  const killed = launch(["tool"]);
  const ended = end(killed);
  while (installs() === 0) await sleep(20);
  killed.kill("SIGKILL");
  await ended;
  expect(readdirSync(join(dir, ".reprise"))).toEqual(["ensure.lock"]);
  const [left, right] = await Promise.all([ensure(["tool"]), ensure(["tool"])]);
  expect([left.code, right.code]).toEqual([0, 0]);
  expect(installs()).toBe(2);
});

it("gives npm a cache in the temporary folder when there is no home to write to", async () => {
  await ensure([], { HOME: "/nonexistent" });
  expect(readFileSync(join(dir, "caches"), "utf8")).toContain(`cache ${join(tmpdir(), "reprise-npm-")}`);
  rmSync(join(dir, "node_modules"), { recursive: true });
  await ensure([], { HOME: "/nonexistent", npm_config_cache: "/mine" });
  expect(readFileSync(join(dir, "caches"), "utf8")).toContain("cache /mine");
});

it("says which Node it needs when this one is too old", async () => {
  const script = join(dir, "infra", "setup", "ensure.mjs");
  writeFileSync(script, readFileSync(script, "utf8").replace("const NODE_MIN = [20, 19]", "const NODE_MIN = [99, 1]"));
  expect(await ensure(["tool"])).toMatchObject({ code: 1, stderr: expect.stringMatching(/needs 99\.1 or newer/) });
  expect(installs()).toBe(0);
});
