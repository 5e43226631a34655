// The crash table reads as it must, with real processes; and the payments tool turns red where a proxy swallows its key.
import { fileURLToPath } from "node:url";
import { createDatabase } from "@reprise/dev-stack";
import { checkTools } from "@reprise/tools/testing";
import { beforeAll, expect, inject, it } from "vitest";
import { startPayments } from "../src/support/payments.ts";
import { connectPayments } from "../src/support/payments-client.ts";
import { build, builtUrl, runBuilt } from "./built.ts";

const TIMEOUT_MS = 600_000;

beforeAll(build, TIMEOUT_MS);

it(
  "shows at most one execution where a policy promises it, unknown where nobody can know, duplicates without a ledger",
  async () => {
    const { code, stdout, stderr } = await runBuilt("crash-table/main.js", ["--seeds", "1", "--lanes", "3", "--json"]);
    expect(stdout, stderr).not.toBe("");
    const { wrong, reports }: { wrong: string[]; reports: { plays: { executions: number }[] }[] } = JSON.parse(stdout);
    expect(wrong).toEqual([]);
    expect(reports.map(({ plays }) => Math.max(...plays.map(({ executions }) => executions)))).toEqual([2, 2, 1, 1, 1]);
    expect(code).toBe(0);
  },
  TIMEOUT_MS,
);

it(
  "goes red for the payments tool behind a gateway that strips its key: the customer was charged twice",
  async () => {
    const database = await createDatabase(inject("databaseUrl"));
    const provider = await startPayments();
    const payments = connectPayments(provider.url);
    try {
      const [report] = await checkTools({
        holder: fileURLToPath(builtUrl("crash-table/holder.js")),
        only: ["charge_subscription"],
        databaseUrl: database.url,
        provider: {
          url: provider.url,
          executions: async (mark) => (await payments.charges(mark)).length,
          requests: async (mark) =>
            (await payments.requests({ method: "POST", customer: mark })).map((entry) => String(entry.idempotencyKey)),
        },
        urlVariable: "PAYMENTS_URL",
        lanes: 1,
        points: ["after_commit"],
        strikes: ["SIGKILL"],
        stripHeaders: ["idempotency-key"],
      });
      expect(report?.retry).toMatchObject({ requests: 2, keyed: 0, executions: 2 });
      expect(report?.broken).toContain("SIGKILL after_commit: the effect happened 2 times");
    } finally {
      await provider.close();
      await database.drop();
    }
  },
  TIMEOUT_MS,
);
