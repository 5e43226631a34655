// `npm run drill -- restarts|outage|soak`: what production does to a worker, done on purpose; exit code 1 when a promise broke.
import { parseArgs } from "node:util";
import { SupportError } from "../support/errors.ts";
import { drillOutage, OUTAGES } from "./drill-outage.ts";
import { drillRestarts } from "./drill-restarts.ts";
import { drillSoak } from "./drill-soak.ts";

type Report = { readonly drill: string; readonly broken: readonly string[] };

const USAGE = `use: npm run drill -- restarts [--runs 300] [--restarts 100]
     npm run drill -- outage [--kind ${OUTAGES.join("|")}] [--runs 60] [--seconds 20]
     npm run drill -- soak [--minutes 30]
Each prints one JSON object a drill.`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    runs: { type: "string" },
    restarts: { type: "string", default: "100" },
    kind: { type: "string" },
    seconds: { type: "string", default: "20" },
    minutes: { type: "string", default: "30" },
  },
});

async function* drills(name: string | undefined): AsyncGenerator<Report> {
  switch (name) {
    case "restarts":
      yield await drillRestarts({ runs: Number(values.runs ?? 300), restarts: Number(values.restarts) });
      return;
    case "outage": {
      const kinds = OUTAGES.filter((kind) => values.kind === undefined || kind === values.kind);
      if (kinds.length === 0) throw new SupportError("EXAMPLE_FAILED", USAGE);
      for (const outage of kinds) {
        yield await drillOutage({ outage, runs: Number(values.runs ?? 60), seconds: Number(values.seconds) });
      }
      return;
    }
    case "soak":
      yield await drillSoak({ minutes: Number(values.minutes) });
      return;
    default:
      throw new SupportError("EXAMPLE_FAILED", USAGE);
  }
}

for await (const report of drills(positionals[0])) {
  process.stdout.write(`${JSON.stringify(report)}\n`);
  if (report.broken.length > 0) process.exitCode = 1;
}
