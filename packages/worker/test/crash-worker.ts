// A worker process as `reprise work` starts it, from a module that brings a pool and SQS clients which may kill the process.

import { work } from "../src/cli-work.ts";
import { readConfig } from "../src/config.ts";
import type { WorkerOptions } from "../src/worker.ts";
import { crashAgents } from "./crash-agents.ts";
import { type Kill, killSwitch, watchedPool, watchedSqs } from "./crash-kill.ts";

const config = readConfig();
const told = process.env["CRASH_KILL"];
// Written by crash-process.ts beside this file.
const kills = killSwitch(told === undefined ? undefined : (JSON.parse(told) as Kill));

export const agents = crashAgents(process.env["PAYMENTS_URL"] ?? "", () => process.kill(process.pid, "SIGKILL"));

export const options: Pick<WorkerOptions, "pool" | "sqs"> = {
  sqs: () => watchedSqs({ endpoint: config.sqsEndpoint ?? "", region: config.awsRegion }, kills),
  // Without a kill the worker opens, and has to close, a pool of its own.
  ...(told === undefined ? {} : { pool: watchedPool(config.databaseUrl, kills) }),
};

// The test is our parent: when it is gone, nobody will end us any more.
process.on("disconnect", () => process.exit(1));
process.channel?.unref();

// Not awaited: `work` imports this very module, which has to have ended by then.
work(import.meta.filename).catch((error: unknown) => {
  process.stderr.write(`${String(error)}\n`);
  process.exit(2);
});
