// `reprise work`: configuration, tracing, the user's agents, the worker, and its end on SIGTERM, in this order.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { ProxyTracerProvider, trace } from "@opentelemetry/api";
import { type LostDelivery, PRODUCT, startTracing, type Tracing } from "@reprise/tracing";
import type { Agent } from "./agent.ts";
import { type Config, readConfig } from "./config.ts";
import { errorText, WorkerError } from "./errors.ts";
import type { Worker, WorkerOptions } from "./worker.ts";

/** What a user's module may export beside its agents. */
interface AgentModule {
  readonly agents: readonly Agent[];
  readonly options?: Pick<WorkerOptions, "pool" | "sqs" | "ledger" | "log" | "exportObituary">;
}

export async function work(modulePath: string): Promise<void> {
  const config = readConfig();
  const starting = leaveOnSignal();
  const tracing = ownTracing(config);
  // Loaded only now: instrumentation has to be in place before pg, the AWS SDK and the user's clients are imported.
  const { startWorker } = await import("./worker.ts");
  const { agents, options } = await loadModule(modulePath);
  const worker = await startWorker({
    config,
    agents,
    exportObituary: (lost: LostDelivery) => tracing?.exportObituary(lost) ?? Promise.resolve(),
    ...options,
  });
  const stopped = stopOnSignal(worker);
  starting.over();
  await stopped;
  const flushed = tracing === undefined ? "flushed" : await tracing.shutdown(config.flushSeconds * 1000);
  // A collector that does not answer keeps the exporter's last try, and with it the process, alive past the stop grace.
  if (flushed === "timed_out") process.exit(0);
}

/** Our set-up, unless the process already has an OpenTelemetry SDK: then spans go there, and stay the user's business. */
function ownTracing(config: Config): Tracing | undefined {
  const provider = trace.getTracerProvider();
  if (provider instanceof ProxyTracerProvider && provider.getDelegate().constructor.name !== "NoopTracerProvider")
    return undefined;
  return startTracing({
    serviceName: `${PRODUCT.name}-worker`,
    sampling: { share: config.sampleShare, slowMs: config.slowSeconds * 1000 },
    gate: { content: config.content },
  });
}

async function loadModule(path: string): Promise<AgentModule> {
  const url = pathToFileURL(resolve(path)).href;
  let loaded: Readonly<Record<string, unknown>>;
  try {
    loaded = await import(url);
  } catch (error) {
    throw new WorkerError("AGENT_MODULE_INVALID", `${path} could not be loaded: ${errorText(error)}`, { cause: error });
  }
  const { agents, options } = loaded;
  if (!Array.isArray(agents) || agents.length === 0) {
    throw new WorkerError(
      "AGENT_MODULE_INVALID",
      `${path} must export \`agents\`, an array of defineAgent(...) with at least one agent`,
    );
  }
  // Each element was made by defineAgent, which checked it; a foreign object fails at its first use with its name.
  return {
    agents: agents as readonly Agent[],
    ...(options === undefined ? {} : { options: options as NonNullable<AgentModule["options"]> }),
  };
}

/**
 * Until the worker receives there is nothing to drain. Without a handler Node as PID 1 of a container would not even notice the
 * signal: the kernel gives PID 1 none that it has no handler for, and the platform would wait its whole stop grace (case D01).
 */
function leaveOnSignal(): { over(): void } {
  const leave = (): void => process.exit(0);
  process.on("SIGTERM", leave);
  process.on("SIGINT", leave);
  return {
    over: () => {
      process.off("SIGTERM", leave);
      process.off("SIGINT", leave);
    },
  };
}

/** First signal: drain. Second: abort and hand back now. Resolves when the worker has stopped. */
function stopOnSignal(worker: Worker): Promise<void> {
  return new Promise((done, failed) => {
    const stop = (): void => {
      worker.stop().then(done, failed);
    };
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
  });
}
