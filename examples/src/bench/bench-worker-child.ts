// The process of one arm of the worker's benchmarks: plays what it is told and answers with wall and CPU time.

import { startTracing } from "@reprise/tracing";
import type { ArmSettings, Play, Played } from "./bench-worker-process.ts";
import { countingExporter } from "./telemetry-scene.ts";

// Written by bench-worker-process.ts.
const settings = JSON.parse(process.argv[2] ?? "{}") as ArmSettings;
const ours = ["empty-worker", "graph-worker", "load-worker"].includes(settings.arm);
// Before pg and the AWS SDK are loaded, as `reprise work` does it; the arms that stand for life without us get no spans.
const tracing = ours ? startTracing({ exporter: countingExporter() }) : undefined;
const play = await armOf(settings);

process.on("message", (message) => {
  play(message as Play).then(
    (played) => process.send?.(played),
    (error: unknown) => {
      process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
      process.exit(1);
    },
  );
});
process.on("disconnect", () => {
  void tracing?.shutdown(500).then(() => process.exit(0));
  if (tracing === undefined) process.exit(0);
});

async function armOf(wanted: ArmSettings): Promise<(play: Play) => Promise<Played>> {
  const { arm } = wanted;
  switch (arm) {
    case "receive":
      return (await import("./bench-worker-arm-receive.ts")).receiveArm();
    case "empty-worker":
    case "graph-worker":
      return (await import("./bench-worker-arm-worker.ts")).workerArm(wanted);
    case "bare-graph":
      return (await import("./bench-worker-arm-graph.ts")).graphArm(wanted);
    case "load-worker":
      return (await import("./bench-worker-arm-load.ts")).loadWorkerArm(wanted);
    case "load-message":
    case "load-batch":
    case "load-singles":
      return (await import("./bench-worker-arm-load.ts")).loadConsumersArm(arm, wanted.concurrency);
    case "settle-single":
    case "settle-batch":
      return (await import("./bench-worker-arm-settle.ts")).settleArm(arm);
    default:
      return arm satisfies never;
  }
}
