// Makes a data folder into a cluster, or accepts one that already is; never leaves half of one behind.

import { spawn } from "node:child_process";
import { chownSync, existsSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { PRODUCT } from "@reprise/tracing";
import { DevStackError, USE_DATABASE_URL } from "./errors.ts";
import { type Identity, identityMay, spawnAs } from "./postgres-identity.ts";

/** Major version of the pinned binaries; a data folder of another one cannot be opened. */
const MAJOR_VERSION = "18";
const SUPERUSER = PRODUCT.name;

/**
 * Runs initdb when the folder is no cluster yet. initdb works in a folder beside it that is renamed when whole, so that a
 * kill in between leaves no half cluster, and of two starters at once one wins and the other uses its result.
 * @throws DevStackError POSTGRES_DATA_DIR_UNREACHABLE, POSTGRES_DATA_DIR_VERSION or POSTGRES_INITDB_FAILED.
 */
export async function initialiseDataDir(initdb: string, dataDir: string, identity: Identity): Promise<void> {
  if (!isCluster(dataDir)) await createCluster(initdb, dataDir, identity);
  assertUsable(dataDir, identity);
}

/** Whether the folder holds a cluster of whatever version. */
export function isCluster(dataDir: string): boolean {
  return existsSync(join(dataDir, "PG_VERSION"));
}

async function createCluster(initdb: string, dataDir: string, identity: Identity): Promise<void> {
  const parent = dirname(dataDir);
  mkdirSync(parent, { recursive: true });
  const work = await mkdtemp(join(parent, `.${PRODUCT.name}-initdb-`));
  try {
    if (identity.kind === "other") chownSync(work, identity.uid, identity.gid);
    if (!identityMay(identity, "write", work)) throw unreachable(dataDir, identity);
    await runInitdb(initdb, work, identity);
    // Node's rename replaces an empty folder and refuses one with content.
    await rename(work, dataDir).catch(async (error: unknown) => {
      if (isCluster(dataDir)) return;
      throw new DevStackError(
        "POSTGRES_INITDB_FAILED",
        `${dataDir} is neither empty nor a PostgreSQL cluster (it holds ${(await readdir(dataDir)).slice(0, 3).join(", ")}). Choose another data folder.`,
        { cause: error },
      );
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

function assertUsable(dataDir: string, identity: Identity): void {
  // A cluster made as root belongs to the borrowed account, and one made as a user to that user: PostgreSQL insists.
  const owner = statSync(dataDir).uid;
  if (owner !== identity.uid || !identityMay(identity, "write", dataDir)) throw unreachable(dataDir, identity, owner);
  const version = readFileVersion(dataDir);
  if (version !== MAJOR_VERSION) {
    throw new DevStackError(
      "POSTGRES_DATA_DIR_VERSION",
      `${dataDir} was made by PostgreSQL ${version}, and the embedded one is ${MAJOR_VERSION}. Remove the folder (its data is lost) or choose another.`,
    );
  }
}

function readFileVersion(dataDir: string): string {
  return readFileSync(join(dataDir, "PG_VERSION"), "utf8").trim();
}

function unreachable(dataDir: string, identity: Identity, owner?: number): DevStackError {
  const whose = owner === undefined || owner === identity.uid ? "" : ` (it belongs to uid ${owner})`;
  return new DevStackError(
    "POSTGRES_DATA_DIR_UNREACHABLE",
    `PostgreSQL runs as uid ${identity.uid} and cannot use ${dataDir}${whose}: the folder and every one above it must let that uid in. Choose a folder outside private ones such as /root, or leave the data folder out to get a temporary one. ${USE_DATABASE_URL}`,
  );
}

async function runInitdb(initdb: string, dir: string, identity: Identity): Promise<void> {
  // trust is for loopback only, which is all the server listens on; --no-sync: an empty cluster is not worth an fsync.
  const flags = ["-D", dir, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"];
  const child = spawn(initdb, flags, {
    ...spawnAs(identity),
    cwd: dir,
    env: { LC_ALL: "C", TZ: "UTC", PATH: "/usr/local/bin:/usr/bin:/bin" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.setEncoding("utf8");
  child.stderr.on("data", (chunk: string) => {
    said = (said + chunk).slice(-4_096);
  });
  const ended = await new Promise<string>((resolve) => {
    // ENOENT for a file that exists means its loader is missing: a glibc binary on a musl system such as Alpine.
    child.once("error", (error) =>
      resolve(`${error.message} (on musl systems such as Alpine the binaries cannot run)`),
    );
    child.once("close", (status, signal) => resolve(status === 0 ? "" : `exit ${signal ?? status}`));
  });
  if (ended === "") return;
  throw new DevStackError("POSTGRES_INITDB_FAILED", `initdb in ${dir} failed: ${ended} ${said}. ${USE_DATABASE_URL}`);
}
