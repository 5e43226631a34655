// The crash table: holders of each policy struck at five points with two signals; what the provider counted, and what was told.
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startStack } from "@reprise/dev-stack";
import { type ConformanceReport, type CountedProvider, checkTools, crashTable } from "@reprise/tools/testing";
import { PAYMENTS_VARIABLE } from "../support/env.ts";
import { connectPayments } from "../support/payments-client.ts";
import { spawnPayments } from "../support/payments-process.ts";
import { deviations } from "./expected.ts";
import { SUBJECTS } from "./subjects.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "12" },
    lanes: { type: "string", default: "4" },
    json: { type: "boolean", default: false },
  },
});

const HOLDER = fileURLToPath(new URL("./holder.js", import.meta.url));

function counted(url: string): CountedProvider {
  const payments = connectPayments(url);
  return {
    url,
    executions: async (mark) => (await payments.charges(mark)).length,
    requests: async (mark) =>
      (await payments.requests({ method: "POST", customer: mark })).map(({ idempotencyKey }) => idempotencyKey ?? ""),
  };
}

const startedAt = performance.now();
const stack = await startStack({ environment: {} });
const payments = await spawnPayments();
let reports: readonly ConformanceReport[] = [];
try {
  reports = await checkTools({
    holder: HOLDER,
    databaseUrl: stack.databaseUrl,
    provider: counted(payments.url),
    urlVariable: PAYMENTS_VARIABLE,
    seeds: Number(values.seeds),
    lanes: Number(values.lanes),
  });
} finally {
  await payments.stop();
  await stack.stop();
}
// Reports come in the order in which the holder holds its tools.
const wrong = SUBJECTS.flatMap((subject, at) => {
  const report = reports[at];
  if (report === undefined) return [`${subject} was not played`];
  return [...report.broken, ...deviations(subject, report.plays)];
});
const seconds = Math.round((performance.now() - startedAt) / 1_000);
if (values.json) process.stdout.write(`${JSON.stringify({ seeds: Number(values.seeds), seconds, reports, wrong })}\n`);
else {
  process.stdout.write(`${crashTable(reports)}\n\n`);
  const retry = reports.find((report) => report.retry !== undefined)?.retry;
  if (retry !== undefined) {
    const { requests, keyed } = retry;
    process.stdout.write(
      `Deliberate retry: the provider saw ${requests} requests, ${keyed} under the call's own key.\n`,
    );
  }
  const verdict = wrong.length === 0 ? "Every cell reads as it must." : `WRONG:\n  ${wrong.join("\n  ")}`;
  process.stdout.write(`${values.seeds} seeds a cell, ${seconds} s. ${verdict}\n`);
}
process.exitCode = wrong.length === 0 ? 0 : 1;
