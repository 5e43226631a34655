// The worker of the soak: `reprise work` with our agents in a process that can collect its garbage and say what it holds.
import { writeHeapSnapshot } from "node:v8";
import { startTracing } from "@reprise/tracing";
import { readConfig, startWorker } from "@reprise/worker";

/** What the process holds after a forced collection. */
export type Holdings = { readonly heapBytes: number; readonly handles: Readonly<Record<string, number>> };

const config = readConfig();
startTracing({ serviceName: "soak", sampling: { share: config.sampleShare } });
// After the instrumentation, as the command does it.
const { agents } = await import("../agents/billing.js");
await startWorker({ config, agents });

process.on("message", (message) => {
  if (typeof message === "string" && message.startsWith("snapshot ")) writeHeapSnapshot(message.slice(9));
  else void holdings().then((held) => process.send?.(held));
});
process.on("disconnect", () => process.exit(0));
process.send?.("working");

async function holdings(): Promise<Holdings> {
  const { gc } = globalThis;
  if (gc === undefined) throw new TypeError("the soak starts its worker with --expose-gc");
  // Twice, with a turn between: finalizers of the first round free what the second collects.
  for (let round = 0; round < 2; round += 1) {
    await gc({ execution: "async", type: "major" });
    await new Promise((resolve) => setImmediate(resolve));
  }
  const handles: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) {
    // Timers come and go with every poll; sockets, pipes and servers are what leaks.
    if (kind === "Timeout" || kind === "Immediate") continue;
    handles[kind] = (handles[kind] ?? 0) + 1;
  }
  return { heapBytes: process.memoryUsage().heapUsed, handles };
}
