// Packs the packages as npm would publish them and installs one alone into an empty project, as a stranger would.

import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { promisify } from "node:util";
import { ROOT } from "./repository-tree.ts";

const execute = promisify(execFile);

export const PUBLISHED = ["tracing", "tools", "worker"] as const;
export type Published = (typeof PUBLISHED)[number];

export interface Tarball {
  readonly name: string;
  readonly path: string;
  /** Paths inside the package. */
  readonly files: readonly string[];
}

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Long: the machine may be busy and npm's cache empty. */
export const INSTALL_TIMEOUT_MS = 400_000;
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024;

/** Without what the npm that runs the tests tells its children: it would install into its own project. */
function environment(): NodeJS.ProcessEnv {
  const kept = ["npm_config_cache", "npm_config_registry", "npm_config_userconfig", "npm_config_cafile"];
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(npm_|INIT_CWD|NODE_OPTIONS)/.test(name) || kept.includes(name)),
  );
}

/** Runs to the end and gives whatever came of it; a failure is for the caller to judge. */
export async function run(cwd: string, command: string, args: readonly string[]): Promise<Ran> {
  const options = { cwd, env: environment(), maxBuffer: OUTPUT_BYTES_MAX, timeout: INSTALL_TIMEOUT_MS };
  try {
    return { code: 0, ...(await execute(command, [...args], options)) };
  } catch (error) {
    // execFile rejects with the streams on the error; without them it did not start at all.
    const { code, stdout, stderr } = error as {
      readonly code: unknown;
      readonly stdout?: string;
      readonly stderr?: string;
    };
    return { code: typeof code === "number" ? code : 1, stdout: stdout ?? "", stderr: stderr ?? String(error) };
  }
}

async function must(cwd: string, command: string, args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await run(cwd, command, args);
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${code}:\n${stdout}\n${stderr}`);
  return stdout;
}

export const TSC = join(ROOT, "node_modules", ".bin", "tsc");

/** Brings dist up to date with src; quick when it is. */
export async function build(): Promise<void> {
  await must(ROOT, TSC, ["-b"]);
}

export async function pack(which: Published, into: string): Promise<Tarball> {
  const text = await must(join(ROOT, "packages", which), "npm", ["pack", "--json", "--pack-destination", into]);
  // The shape is npm's own and stable; a change of it would fail on the next line.
  const [packed] = JSON.parse(text) as { name: string; filename: string; files: { path: string }[] }[];
  if (packed === undefined) throw new Error(`npm pack of ${which} said nothing`);
  return {
    name: packed.name,
    path: join(into, packed.filename),
    files: packed.files.map(({ path }) => path).toSorted(),
  };
}

/** An empty project that depends on one tarball; those it needs of ours come from their tarballs too, not from a registry. */
export async function installAlone(folder: string, wanted: Tarball, all: readonly Tarball[]): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const others = all.filter((tarball) => tarball !== wanted);
  const manifest = {
    private: true,
    type: "module",
    dependencies: { [wanted.name]: `file:${wanted.path}` },
    overrides: Object.fromEntries(others.map(({ name, path }) => [name, `file:${path}`])),
  };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  await must(folder, "npm", ["install", "--prefer-offline", "--no-audit", "--no-fund"]);
}

export async function installMore(folder: string, packages: readonly string[]): Promise<void> {
  await must(folder, "npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", ...packages]);
}

/** Name and version of everything below node_modules, one entry a copy. */
export function installed(folder: string): readonly { readonly name: string; readonly version: string }[] {
  const text = readFileSync(join(folder, "node_modules", ".package-lock.json"), "utf8");
  const { packages } = JSON.parse(text) as {
    readonly packages: Readonly<Record<string, { readonly version: string }>>;
  };
  return Object.entries(packages).map(([path, { version }]) => ({
    name: path.split("node_modules/").at(-1) ?? path,
    version,
  }));
}

/** Files below a folder of a package, with forward slashes and without their extensions of source or output. */
export function stemsOf(which: Published, folder: "src" | "dist"): readonly string[] {
  const base = join(ROOT, "packages", which, folder);
  return readdirSync(base, { recursive: true, encoding: "utf8" })
    .map((path) => relative(base, join(base, path)).split(sep).join("/"))
    .flatMap(
      (path) =>
        /^(.*)\.(?:d\.ts|js)$/.exec(path)?.[1] ?? (folder === "src" ? (/^(.*)\.ts$/.exec(path)?.[1] ?? []) : []),
    )
    .filter((stem, index, all) => all.indexOf(stem) === index)
    .toSorted();
}

export interface Entry {
  /** What is written after `from`. */
  readonly specifier: string;
  readonly values: readonly string[];
  readonly types: readonly string[];
}

/** The public names of a package, as its index files list them. */
export function entriesOf(which: Published, name: string): readonly Entry[] {
  const manifest = JSON.parse(readFileSync(join(ROOT, "packages", which, "package.json"), "utf8")) as {
    readonly exports: Readonly<Record<string, { readonly types: string }>>;
  };
  return Object.entries(manifest.exports).map(([subpath, { types }]) => {
    const source = join(ROOT, "packages", which, types.replace("./dist/", "src/").replace(".d.ts", ".ts"));
    return { specifier: `${name}${subpath.slice(1)}`, ...namesOf(readFileSync(source, "utf8")) };
  });
}

function namesOf(index: string): Omit<Entry, "specifier"> {
  const lists = [...index.matchAll(/^export (type )?\{([^}]*)\} from/gm)].flatMap(([, typed, list = ""]) =>
    list
      .split(",")
      .map((each) => each.trim())
      .filter((each) => each !== "")
      .map((each) => ({ name: each.replace(/^type /, ""), isType: typed !== undefined || each.startsWith("type ") })),
  );
  const pick = (isType: boolean): readonly string[] =>
    lists.filter((each) => each.isType === isType).map(({ name }) => name.split(" as ").at(-1) ?? name);
  // A module that is there to be preloaded has its one value itself.
  const consts = [...index.matchAll(/^export const (\w+)/gm)].map(([, constant = ""]) => constant);
  return { values: [...pick(false), ...consts], types: pick(true) };
}
