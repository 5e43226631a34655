// Under which account the PostgreSQL processes run: our own, or an unprivileged one when we are root.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { userInfo } from "node:os";
import { DevStackError, USE_DATABASE_URL } from "./errors.ts";

/** `own`: spawn as we are. `other`: PostgreSQL refuses root, so spawn under this uid and gid. */
export type Identity =
  | { readonly kind: "own"; readonly uid: number }
  | { readonly kind: "other"; readonly uid: number; readonly gid: number };

/** What decides the identity; a value, so that the odd machines can be tested without being one. */
export interface IdentityFacts {
  /** `process.getuid()`; undefined on Windows. */
  readonly uid: number | undefined;
  /** Whether the system knows an account of that uid. */
  readonly hasAccount: boolean;
  /** Text of /etc/passwd, empty when unreadable. */
  readonly passwd: string;
}

interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Reads the machine once. */
export function identityFacts(): IdentityFacts {
  return { uid: process.getuid?.(), hasAccount: hasAccount(), passwd: readPasswd() };
}

/**
 * Chooses the account. Root borrows `nobody` (or any other ordinary account): no account is ever created on the machine.
 * @throws DevStackError POSTGRES_UID_WITHOUT_ACCOUNT when initdb would refuse the uid (containers with arbitrary uids).
 */
export function chooseIdentity(facts: IdentityFacts): Identity {
  const { uid } = facts;
  if (uid === 0) return borrowedIdentity(facts.passwd);
  if (uid === undefined || !facts.hasAccount) {
    throw new DevStackError(
      "POSTGRES_UID_WITHOUT_ACCOUNT",
      `uid ${uid ?? "unknown"} has no account on this machine (no passwd entry), and PostgreSQL's initdb refuses to run for such a uid. ${USE_DATABASE_URL}`,
    );
  }
  return { kind: "own", uid };
}

/** The spawn options that switch to the identity; empty when we run as ourselves. */
export function spawnAs(identity: Identity): { readonly uid?: number; readonly gid?: number } {
  return identity.kind === "other" ? { uid: identity.uid, gid: identity.gid } : {};
}

/**
 * Whether that account may do this to the path, asked of the kernel by a process of that account: mode bits alone would
 * miss access lists and mounts without exec.
 */
export function identityMay(identity: Identity, what: "execute" | "write", path: string): boolean {
  const asked = spawnSync("test", [what === "execute" ? "-x" : "-w", path], { ...spawnAs(identity), cwd: "/" });
  if (isPermissionError(asked.error)) {
    throw new DevStackError(
      "POSTGRES_CANNOT_DROP_ROOT",
      `We are root, PostgreSQL refuses to run as root, and this machine does not let us switch to uid ${identity.uid}. Run as an ordinary user. ${USE_DATABASE_URL}`,
      { cause: asked.error },
    );
  }
  return asked.status === 0;
}

function borrowedIdentity(passwd: string): Identity {
  const accounts = parsePasswd(passwd).filter((account) => account.uid > 0);
  const account = accounts.find((candidate) => candidate.name === "nobody") ?? accounts[0];
  if (account === undefined) {
    throw new DevStackError(
      "POSTGRES_UID_WITHOUT_ACCOUNT",
      `We are root, PostgreSQL refuses to run as root, and /etc/passwd lists no other account to borrow. ${USE_DATABASE_URL}`,
    );
  }
  return { kind: "other", uid: account.uid, gid: account.gid };
}

function parsePasswd(text: string): readonly Account[] {
  return text.split("\n").flatMap((line) => {
    const [name = "", , uid = "", gid = ""] = line.split(":");
    return /^\d+$/.test(uid) && /^\d+$/.test(gid) ? [{ name, uid: Number(uid), gid: Number(gid) }] : [];
  });
}

function hasAccount(): boolean {
  try {
    userInfo();
    return true;
  } catch {
    // libuv throws when getpwuid finds nothing, which is exactly the question.
    return false;
  }
}

function readPasswd(): string {
  try {
    return readFileSync("/etc/passwd", "utf8");
  } catch {
    return "";
  }
}

function isPermissionError(error: Error | undefined): boolean {
  return error !== undefined && "code" in error && (error.code === "EPERM" || error.code === "EINVAL");
}
