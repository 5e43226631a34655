// The conformance kit against real processes, a real ledger and a counting provider: green for a sound tool, red for each wrong key.

import { createDatabase, type TestDatabase } from "@reprise/dev-stack";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { bundleForNode } from "../../../infra/dev/test/bundle.ts";
import { type CountingProvider, startCountingProvider } from "../src/testing/counting-provider.ts";
import { type CheckToolsOptions, type ConformanceReport, checkTools } from "../src/testing/kit.ts";

let holder: string;
let database: TestDatabase;
let provider: CountingProvider;

beforeAll(async () => {
  holder = await bundleForNode(`${import.meta.dirname}/testing-holder.ts`);
  database = await createDatabase(inject("databaseUrl"));
  provider = await startCountingProvider();
});

afterAll(async () => {
  await provider?.close();
  await database?.drop();
});

async function check(only: readonly string[], changes: Partial<CheckToolsOptions> = {}) {
  const reports = await checkTools({
    holder,
    only,
    databaseUrl: database.url,
    provider,
    urlVariable: "PROVIDER_URL",
    lanes: 1,
    points: ["after_commit"],
    strikes: ["SIGKILL"],
    ...changes,
  });
  return new Map<string, ConformanceReport>(reports.map((report) => [report.tool, report]));
}

it("is green for a tool whose key the provider sees twice, and red for one that mints its own", async () => {
  const reports = await check(["ship", "mints_its_own"]);
  const ship = reports.get("ship");
  expect(ship).toMatchObject({ policy: "keyed", broken: [] });
  expect(ship?.retry).toMatchObject({ requests: 2, keyed: 2, executions: 1, told: "done" });
  const broken = reports.get("mints_its_own")?.broken;
  expect(broken).toContain("the retry: 2 of 2 requests came without the call's key");
}, 300_000);

it("goes red behind a gateway that strips the key's header", async () => {
  const ship = (await check(["ship"], { stripHeaders: ["idempotency-key"] })).get("ship");
  expect(ship?.retry).toMatchObject({ requests: 2, keyed: 0, executions: 2 });
  expect(ship?.broken).toEqual([
    "SIGKILL after_commit: the effect happened 2 times",
    "the retry: 2 of 2 requests came without the call's key",
  ]);
}, 300_000);

it("finds by lookup what a frozen holder had sent, and sends nothing again", async () => {
  const report = (await check(["ship_and_look"], { strikes: ["SIGSTOP"] })).get("ship_and_look");
  expect(report?.broken).toEqual([]);
  expect(report?.plays).toMatchObject([{ requests: 1, executions: 1, told: "done", row: "done" }]);
}, 300_000);

it("says what to look at when the tool's requests never reach the provider", async () => {
  await expect(check(["elsewhere"])).rejects.toMatchObject({
    code: "KIT_FAILED",
    message: expect.stringContaining("Does the tool use the given URL?"),
  });
}, 300_000);
