// The payment provider as a process of its own: prints one JSON line `{"url":...}`, then serves until it is told to stop.
import { parseArgs } from "node:util";
import { startPayments } from "./payments.ts";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "0" },
    "log-file": { type: "string" },
    // For a parent that may be killed: the kernel closes the pipe for it, and the provider does not outlive it.
    "until-stdin-ends": { type: "boolean", default: false },
  },
});
const logFile = values["log-file"];
const payments = await startPayments({ port: Number(values.port), ...(logFile === undefined ? {} : { logFile }) });
process.stdout.write(`${JSON.stringify({ url: payments.url, pid: process.pid })}\n`);

const stop = (): void => {
  void payments.close().then(() => process.exit(0));
};
process.once("SIGTERM", stop);
process.once("SIGINT", stop);
if (values["until-stdin-ends"]) process.stdin.once("close", stop).resume();
