// The built tree for tests that start real processes: brought up to date first, then run as a user would run it.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const EXAMPLES = dirname(import.meta.dirname);
const ROOT = dirname(EXAMPLES);
const BUILD_TIMEOUT_MS = 180_000;

export type Ended = {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
};

/** Quick when nothing changed; the compiler decides. */
export async function build(): Promise<void> {
  const compiler = join(ROOT, "node_modules", ".bin", "tsc");
  await promisify(execFile)(compiler, ["-b"], { cwd: ROOT, timeout: BUILD_TIMEOUT_MS });
}

/** A module of examples/src in its built form, as Node loads it: processes that it starts are built ones too. */
export function builtUrl(module: string): string {
  return new URL(`file://${join(EXAMPLES, "dist", module)}`).href;
}

export async function runBuilt(module: string, args: readonly string[]): Promise<Ended> {
  return await run(process.execPath, [join(EXAMPLES, "dist", module), ...args]);
}

/** Runs in the repository's root, with nobody at the keyboard. */
export async function run(command: string, args: readonly string[]): Promise<Ended> {
  const child = spawn(command, args, { cwd: ROOT, env: environment(), stdio: ["ignore", "pipe", "pipe"] });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (piece: string) => {
    stdout += piece;
  });
  child.stderr.setEncoding("utf8").on("data", (piece: string) => {
    stderr += piece;
  });
  const [code]: (number | null)[] = await once(child, "close");
  return { code: code ?? null, stdout, stderr };
}

/** Without the settings that the npm which runs the tests hands down: a user's npm reads the repository's own. */
function environment(): NodeJS.ProcessEnv {
  const handedDown = /^npm_(?!config_(cache|registry|userconfig|cafile)$)/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !handedDown.test(name)));
}
