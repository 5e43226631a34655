// The arm with us: a whole worker with rows, leases and spans, over an agent that does nothing or over the five-step graph.

import type { SQSClient } from "@aws-sdk/client-sqs";
import { openPool } from "@reprise/dev-stack";
import { defineTool } from "@reprise/tools";
import {
  type Agent,
  type AgentGraph,
  type Config,
  defineAgent,
  readConfig,
  startWorker,
  toolAgent,
} from "@reprise/worker";
import type { z } from "zod";
import { chargeSchema, chargeSlowly, pacedModel } from "./bench-worker-agent.ts";
import type { ArmSettings, Play, Played } from "./bench-worker-process.ts";
import { benchClient, type Stopwatch, stopwatch } from "./bench-worker-stopwatch.ts";

export function workerArm(settings: ArmSettings): (play: Play) => Promise<Played> {
  const agent = settings.arm === "empty-worker" ? emptyAgent() : chargingAgent(settings);
  const base = readConfig();
  // One for all rounds, as the bare graph has: a worker lives long, and each connection is opened at the price of a run.
  const pool = openPool(base.databaseUrl, { max: base.poolMax, min: base.poolMax, pipeline: true });
  return async ({ count, queueUrl }) => {
    const config: Config = { ...base, queueUrl, concurrency: settings.concurrency, waitSeconds: 1 };
    const watch = stopwatch();
    const { log, ended } = countEnds(count);
    const worker = await startWorker({
      config,
      agents: [agent],
      pool,
      log,
      sqs: () => startingClient(config.sqsEndpoint, watch),
    });
    await ended;
    const played = watch.end();
    await worker.stop();
    return played;
  };
}

/** Counts deliveries by the last line that each of them logs. */
function countEnds(count: number) {
  let left = count;
  let done: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    done = resolve;
  });
  const complain = (_fields: unknown, text: string): void => void process.stderr.write(`${text}\n`);
  const info = (_fields: unknown, text: string): void => {
    if (text === "delivery ended") left -= 1;
    if (left === 0) done();
  };
  return { ended, log: { debug: () => undefined, info, warn: complain, error: complain } };
}

/** The watch begins when a receive brings the first messages. */
function startingClient(endpoint: string | undefined, watch: Stopwatch): SQSClient {
  const client = benchClient(endpoint);
  client.middlewareStack.add(
    (next) => async (args) => {
      const answer = await next(args);
      // Only a receive answers with messages.
      if ((answer.output as { readonly Messages?: unknown }).Messages !== undefined) watch.begin();
      return answer;
    },
    { step: "initialize", name: "benchStart" },
  );
  return client;
}

/** No graph: what is left is the delivery itself, and `invoke` where a graph would be driven. */
export function emptyAgent(invoke: AgentGraph["invoke"] = async () => ({ messages: [] })): Agent {
  const empty = { values: {}, next: [], config: { configurable: {} }, tasks: [] };
  const graph = {
    // How LangGraph marks a compiled graph.
    lg_is_pregel: true,
    nodes: {},
    invoke,
    // LangGraph's answer for a thread without a checkpoint, as far as the worker looks at it.
    getState: async () => empty as unknown as Awaited<ReturnType<AgentGraph["getState"]>>,
    updateState: async () => ({}),
  };
  return defineAgent({ name: "bench", graph: graph satisfies AgentGraph, result: () => null });
}

function chargingAgent({ modelMs, toolMs }: ArmSettings): Agent {
  const charge = defineTool({
    name: "charge",
    description: "Charges a customer",
    schema: chargeSchema,
    effect: "keyed",
    run: (args: z.output<typeof chargeSchema>) => chargeSlowly(args, toolMs),
  });
  return defineAgent({ name: "bench", graph: toolAgent({ model: pacedModel(modelMs), tools: [charge] }) });
}
