// Every error code is in the README's table, and the table names no code that does not exist.

import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { ERROR_CODES, FenceLost, ToolsError } from "../src/errors.ts";

describe("error codes", () => {
  it("are the rows of the README's table, both ways", async () => {
    const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
    const rows = [...readme.matchAll(/^\| `([A-Z_]+)`\s*\|/gm)].map((match) => match[1]);
    expect([...rows].sort()).toEqual([...ERROR_CODES].sort());
  });

  it("are literals on one base class, with thread and cause", () => {
    const cause = new Error("x");
    const error = new FenceLost("t1", "why", { cause });
    expect(error).toBeInstanceOf(ToolsError);
    expect(error).toMatchObject({ code: "FENCE_LOST", threadId: "t1", cause, name: "FenceLost" });
  });
});
