// A worker process of the kill harness: loads everything, waits for "go", works until it is killed.
import { readConfig, startWorker } from "@reprise/worker";
import { readHarnessEnvironment } from "../support/env.ts";
import { agentsFor, MUTATIONS, type Mutation } from "./agents.ts";

const named = readHarnessEnvironment().mutation;
const mutation: Mutation = MUTATIONS.find((known) => known === named) ?? "none";
const agents = agentsFor(mutation);

process.on("message", (message) => {
  if (message !== "go") return;
  startWorker({ config: readConfig(), agents })
    .then(() => process.send?.("working"))
    .catch((error: unknown) => {
      process.stderr.write(`${String(error)}\n`);
      process.exit(1);
    });
});
// The harness is our parent: when it is gone, nobody will kill us any more.
process.on("disconnect", () => process.exit(0));
process.send?.("loaded");
