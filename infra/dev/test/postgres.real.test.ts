// The embedded server itself: its life and the lives it survives. Machines we are not on are tested in the unit files.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterEach, beforeAll, expect, inject, it } from "vitest";
import { type Postgres, startPostgres } from "../src/postgres.ts";
import { createDatabase } from "../src/postgres-database.ts";
import { bundleForNode } from "./bundle.ts";

let childFile = "";
const started: Postgres[] = [];
const children: ChildProcess[] = [];
const folders: string[] = [];

beforeAll(async () => {
  childFile = await bundleForNode(join(import.meta.dirname, "postgres-child.ts"));
  return () => rmSync(join(childFile, ".."), { recursive: true, force: true });
});

afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  for (const postgres of started.splice(0)) await postgres.stop();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

const start = async (options?: Parameters<typeof startPostgres>[0]): Promise<Postgres> => {
  const postgres = await startPostgres(options);
  started.push(postgres);
  return postgres;
};

const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), "reprise-test-"));
  // Run as root, the server borrows another account, which must be able to enter.
  chmodSync(path, 0o755);
  folders.push(path);
  return path;
};

const ask = async (url: string, sql: string): Promise<readonly unknown[]> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
};

const startChild = async (
  dataDir?: string,
): Promise<{ url: string; dataDir: string; serverPid: number; child: ChildProcess }> => {
  const child = spawn(process.execPath, dataDir === undefined ? [childFile] : [childFile, dataDir], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  const died = once(child, "exit").then(() => Promise.reject(new Error("the child ended before it was ready")));
  const [line] = await Promise.race([once(child.stdout, "data"), died]);
  void died.catch(() => undefined);
  return { ...JSON.parse(String(line)), child };
};

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

const childrenOf = (parentPid: number): readonly number[] =>
  spawnSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" })
    .stdout.split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number))
    .flatMap(([pid, parent]) => (parent === parentPid && pid !== undefined ? [pid] : []));

const until = async (what: () => boolean, waitMs = 20_000): Promise<void> => {
  const deadline = performance.now() + waitMs;
  while (!what()) {
    if (performance.now() > deadline) throw new Error(`still not so after ${waitMs} ms: ${what}`);
    await sleep(20);
  }
};

it("hands every test file a server on which it can create a database of its own", async () => {
  const database = await createDatabase(inject("databaseUrl"));
  expect(await ask(database.url, "SELECT current_database() AS name")).toEqual([{ name: database.name }]);
  await database.drop();
  await database.drop();
});

it("clones a template, waiting for a session that is about to leave it", async () => {
  const template = await createDatabase(inject("databaseUrl"));
  await ask(template.url, "CREATE TABLE seeded (n int); INSERT INTO seeded VALUES (7)");
  const lingering = new pg.Client({ connectionString: template.url });
  await lingering.connect();
  const clone = createDatabase(inject("databaseUrl"), { template: template.name });
  await sleep(200);
  await lingering.end();
  expect(await ask((await clone).url, "SELECT n FROM seeded")).toEqual([{ n: 7 }]);
  await (await clone).drop();
  await template.drop();
});

it("says which database could not be created, without the password", async () => {
  const url = new URL(inject("databaseUrl"));
  url.password = "hush";
  const failed = createDatabase(url.href, { template: "no_such_template" });
  await expect(failed).rejects.toMatchObject({ code: "DATABASE_CREATE_FAILED" });
  await expect(failed).rejects.not.toThrow(/hush/);
});

it("listens on loopback only, without a socket file, and removes its folder at the end", async () => {
  const postgres = await start();
  const [settings] = await ask(
    postgres.url,
    "SELECT current_setting('listen_addresses') AS addresses, current_setting('unix_socket_directories') AS sockets",
  );
  expect(settings).toEqual({ addresses: "127.0.0.1", sockets: "" });
  expect(existsSync(postgres.dataDir)).toBe(true);
  await postgres.stop();
  expect(existsSync(join(postgres.dataDir, ".."))).toBe(false);
  expect(isAlive(postgres.serverPid)).toBe(false);
});

it("starts under a locale that was never generated", async () => {
  const before = { LANG: process.env["LANG"], LC_ALL: process.env["LC_ALL"] };
  Object.assign(process.env, { LANG: "xx_YY.UTF-8", LC_ALL: "xx_YY.UTF-8" });
  try {
    const postgres = await start();
    expect(await ask(postgres.url, "SHOW server_encoding")).toEqual([{ server_encoding: "UTF8" }]);
  } finally {
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
});

it("keeps the data of a given folder over a restart, also after the server was killed", async () => {
  const dataDir = join(folder(), "data");
  const first = await start({ dataDir });
  await ask(first.url, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)");
  await first.stop();
  const second = await start({ dataDir });
  await ask(second.url, "INSERT INTO kept VALUES (2)");
  process.kill(second.serverPid, "SIGKILL");
  await second.ended;
  const third = await start({ dataDir });
  expect(await ask(third.url, "SELECT count(*)::int AS n FROM kept")).toEqual([{ n: 2 }]);
});

it("starts two servers at once without a clash of ports, links or folders", async () => {
  const [left, right] = await Promise.all([start(), start()]);
  expect(new Set([left.url, right.url]).size).toBe(2);
  expect(await ask(left.url, "SELECT 1 AS n")).toEqual(await ask(right.url, "SELECT 1 AS n"));
});

it("refuses a port that is taken, and says so", async () => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const address = holder.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  await expect(start({ port })).rejects.toMatchObject({ code: "POSTGRES_PORT_IN_USE" });
  holder.close();
});

it("shows the server's own words when a setting is wrong", async () => {
  await expect(start({ settings: { shared_buffers: "plenty" } })).rejects.toMatchObject({
    code: "POSTGRES_START_FAILED",
    message: expect.stringMatching(/shared_buffers.*DATABASE_URL/s),
  });
});

it("stops the server and removes its folder when the parent is killed", async () => {
  const { child, serverPid, dataDir } = await startChild();
  expect(isAlive(serverPid)).toBe(true);
  child.kill("SIGKILL");
  await until(() => !isAlive(serverPid) && !existsSync(join(dataDir, "..")));
});

it("leaves a data folder alone that a living process uses", async () => {
  const dataDir = join(folder(), "data");
  const { serverPid } = await startChild(dataDir);
  await expect(start({ dataDir })).rejects.toMatchObject({ code: "POSTGRES_DATA_DIR_IN_USE" });
  expect(isAlive(serverPid)).toBe(true);
});

it("takes a data folder over from a server whose parent and watchdog were killed", async () => {
  const dataDir = join(folder(), "data");
  const { child, serverPid, url } = await startChild(dataDir);
  await ask(url, "CREATE TABLE orphaned (n int)");
  // The child's other child is the watchdog; killed first, it cannot clean up.
  const others = childrenOf(child.pid ?? 0).filter((pid) => pid !== serverPid);
  expect(others).toHaveLength(1);
  for (const pid of others) process.kill(pid, "SIGKILL");
  child.kill("SIGKILL");
  await once(child, "close");
  expect(isAlive(serverPid)).toBe(true);
  const next = await start({ dataDir });
  // Its pid file goes first, the process a moment later.
  await until(() => !isAlive(serverPid));
  expect(await ask(next.url, "SELECT count(*)::int AS n FROM orphaned")).toEqual([{ n: 0 }]);
});
