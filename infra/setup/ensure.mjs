// Runs a command of this repository on a fresh machine: checks Node, installs and builds when needed, then becomes the command.
// Plain JavaScript with nothing but Node's own modules: it runs before `npm install` did. Its own words go to stderr.

import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { homedir, hostname, tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const modules = join(root, "node_modules");
const marker = join(modules, ".reprise-lock");
const lock = join(root, ".reprise", "ensure.lock");

const NODE_MIN = [20, 19];
/** A cold install takes half a minute; a slow line or machine may need many of them. */
const LOCK_WAIT_MS = 15 * 60_000;
const LOCK_POLL_MS = 100;
/** A holder on another machine of a shared folder is believed as long as it touches its lock this often. */
const LOCK_BEAT_MS = 5_000;
const LOCK_BEAT_LOST_MS = 60_000;

/** Signals that end us; 128 + number is the shell's exit code for them. */
const SIGNAL_NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGTERM: 15 };

class EnsureError extends Error {
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

const say = (text) => process.stderr.write(`ensure: ${text}\n`);

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1])) return;
  throw new EnsureError(
    `Node ${process.versions.node} is too old: this repository needs ${NODE_MIN.join(".")} or newer. Install one (nodejs.org, nvm, or your package manager) and run the command again.`,
  );
}

/** Lock file and platform: a folder shared between a laptop and a container holds binaries for one of them only. */
function wantedInstall() {
  const text = readFileSync(join(root, "package-lock.json"));
  return createHash("sha256").update(text).update(`${process.platform}-${process.arch}`).digest("hex");
}

function isInstalled(wanted) {
  if (!existsSync(modules)) return false;
  if (existsSync(marker)) return readFileSync(marker, "utf8").trim() === wanted;
  return isInstalledByHand();
}

/**
 * Without our marker somebody ran `npm install` themselves. npm's own record of what it laid down tells whether that was
 * this lock file; believing it spares a reinstall under the feet of whatever runs from the folder.
 */
function isInstalledByHand() {
  try {
    const read = (path) => JSON.parse(readFileSync(path, "utf8")).packages;
    const locked = read(join(root, "package-lock.json"));
    const laid = read(join(modules, ".package-lock.json"));
    const same = ([path, entry]) =>
      laid[path] === undefined ? entry.optional === true : laid[path].version === entry.version;
    return Object.entries(locked)
      .filter(([path]) => path.includes("node_modules/"))
      .every(same);
  } catch {
    return false;
  }
}

/** npm wants a cache it can write: a home that is missing or not ours (`nobody`, some containers) has none. */
function npmEnvironment() {
  const named = Object.keys(process.env).some((name) => name.toLowerCase() === "npm_config_cache");
  if (named || isWritable(homeFolder())) return process.env;
  return { ...process.env, npm_config_cache: join(tmpdir(), `reprise-npm-${process.getuid?.() ?? 0}`) };
}

function homeFolder() {
  try {
    return homedir();
  } catch {
    return "";
  }
}

function isWritable(path) {
  try {
    accessSync(path, constants.W_OK);
    return path !== "";
  } catch {
    return false;
  }
}

async function install(wanted) {
  say("installing packages (npm ci)");
  // NODE_ENV=production or a user's npmrc would leave out the compiler, the test runner and the PostgreSQL binaries.
  const flags = ["ci", "--include=dev", "--include=optional", "--no-audit", "--no-fund", "--json=false"];
  const code = await run("npm", flags, { env: npmEnvironment(), stdio: ["ignore", 2, 2] });
  if (code !== 0) {
    throw new EnsureError(
      `npm ci failed with exit code ${code}; its output above says why. Nothing else was run.`,
      code,
    );
  }
  // Last of all: a kill before this line means that the next call installs again.
  mkdirSync(modules, { recursive: true });
  writeFileSync(marker, `${wanted}\n`);
}

/** The compiler is incremental, so asking it is the cheapest way to learn whether there is anything to do. */
async function build() {
  const compiler = join(modules, ".bin", "tsc");
  if (!existsSync(join(root, "tsconfig.json")) || !existsSync(compiler)) return;
  const code = await run(compiler, ["-b"], { env: process.env, stdio: ["ignore", 2, 2] });
  if (code !== 0)
    throw new EnsureError(`the build (tsc -b) failed with exit code ${code}; its output above says where.`, code);
}

/**
 * Takes the lock: a folder with one file named after its holder, put in place by a rename, which fails while a holder's file
 * is there. A dead holder is replaced by renaming its file, which only one of several waiters can do.
 * @returns what gives it back; nothing to give back in a folder we may not write to.
 */
async function takeLock() {
  const mine = `${hostname()}~${process.pid}~${randomBytes(4).toString("hex")}`;
  const prepared = `${lock}.${mine}`;
  try {
    mkdirSync(prepared, { recursive: true });
  } catch (error) {
    if (["EACCES", "EROFS", "EPERM"].includes(error.code)) return () => undefined;
    throw error;
  }
  writeFileSync(join(prepared, mine), "");
  const deadline = Date.now() + LOCK_WAIT_MS;
  for (let told = false; !(moved(prepared, lock) || replacedDeadHolder(mine)); told = true) {
    if (!told) say(`waiting for another call (${lock})`);
    if (Date.now() > deadline) {
      rmSync(prepared, { recursive: true, force: true });
      throw new EnsureError(`another call has held ${lock} for too long. If none is running, remove that folder.`);
    }
    await sleep(LOCK_POLL_MS);
  }
  rmSync(prepared, { recursive: true, force: true });
  const beat = setInterval(() => touch(join(lock, mine)), LOCK_BEAT_MS);
  touch(join(lock, mine));
  return () => {
    clearInterval(beat);
    quietly(() => unlinkSync(join(lock, mine)));
    quietly(() => rmdirSync(lock));
  };
}

function replacedDeadHolder(mine) {
  const [holder] = quietly(() => readdirSync(lock)) ?? [];
  if (holder === undefined || !isDead(holder)) return false;
  return moved(join(lock, holder), join(lock, mine));
}

function isDead(holder) {
  const [host, pid] = holder.split("~");
  if (host === hostname()) return !isRunning(Number(pid));
  const touched = quietly(() => statSync(join(lock, holder)).mtimeMs);
  return touched !== undefined && Date.now() - touched > LOCK_BEAT_LOST_MS;
}

function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs, as somebody else.
    return error.code === "EPERM";
  }
}

function moved(from, to) {
  try {
    renameSync(from, to);
    return true;
  } catch (error) {
    if (["ENOTEMPTY", "EEXIST", "ENOENT"].includes(error.code)) return false;
    throw error;
  }
}

const touch = (path) => quietly(() => utimesSync(path, new Date(), new Date()));

function quietly(action) {
  try {
    return action();
  } catch {
    return undefined;
  }
}

async function ensure() {
  checkNode();
  const release = await takeLock();
  process.once("exit", release);
  try {
    // Asked under the lock: whoever held it before may have done our work.
    const wanted = wantedInstall();
    if (!isInstalled(wanted)) await install(wanted);
    await build();
  } finally {
    release();
    process.removeListener("exit", release);
  }
}

/**
 * Runs a child to its end and passes our signals on. A terminal's Ctrl-C reaches the child by itself, and a second SIGINT
 * means "at once" to many programs, so INT and QUIT are passed on only when no terminal is there to do it.
 * @returns its exit code, 128 + n after signal n, 127 when there is no such program.
 */
function run(command, args, options) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, ...options });
    const pass = Object.keys(SIGNAL_NUMBERS).map((signal) => {
      const fromTerminal = process.stdin.isTTY && (signal === "SIGINT" || signal === "SIGQUIT");
      const listener = () => (fromTerminal ? undefined : child.kill(signal));
      process.on(signal, listener);
      return () => process.removeListener(signal, listener);
    });
    const ended = () => pass.forEach((remove) => void remove());
    child.once("error", (error) => {
      ended();
      if (error.code !== "ENOENT") reject(error);
      else {
        say(`${command}: no such program on PATH`);
        resolve(127);
      }
    });
    child.once("exit", (code, signal) => {
      ended();
      resolve(code ?? 128 + (SIGNAL_NUMBERS[signal] ?? 9));
    });
  });
}

async function main() {
  const [command, ...args] = process.argv.slice(2);
  await ensure();
  if (command === undefined) return 0;
  const env = {
    // The AWS SDK warns that releases of 2027 will need Node 22; ours is pinned, and the warning hides what a command says.
    AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: "true",
    ...process.env,
    PATH: `${join(modules, ".bin")}${delimiter}${process.env.PATH ?? ""}`,
  };
  // "node" is the Node that was checked above, whatever PATH says. The caller's folder stays the command's folder.
  const program = command === "node" ? process.execPath : command;
  return run(program, args, { cwd: process.cwd(), env, stdio: "inherit" });
}

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof EnsureError)) throw error;
  say(error.message);
  process.exitCode = error.exitCode;
}
