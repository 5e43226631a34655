// The command as a user types it: built, in a process of its own, against a real database and a real SQS endpoint.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startSink } from "@reprise/dev-stack";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildCommand, CLI, environmentOf, PACKAGE, reprise } from "./cli-process.ts";
import { scene } from "./scene.ts";

/** Below the package, so that a module in it resolves @reprise/worker as a user's would. */
let folder: string;

beforeAll(async () => {
  await buildCommand();
  folder = mkdtempSync(join(PACKAGE, "dist", "cli-"));
}, 180_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const AGENTS = `
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { defineAgent } from "@reprise/worker";
const State = Annotation.Root({ log: Annotation({ reducer: (a, b) => a.concat(b), default: () => [] }) });
const graph = new StateGraph(State).addNode("one", async () => ({ log: ["one"] })).addEdge(START, "one").addEdge("one", END).compile();
export const agents = [defineAgent({ name: "steps", graph, result: (state) => state })];
`;

describe("the command line", () => {
  it("names the variable, its meaning and an example when a setting is missing, with exit code 2, before anything connects", async () => {
    const ended = await reprise(["work", "./agents.js"], { QUEUE_URL: "http://127.0.0.1:1/q" });
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain("CONFIG_MISSING");
    expect(ended.stderr).toContain("DATABASE_URL");
    expect(ended.stderr).toContain("PostgreSQL that holds the checkpoints");
    expect(ended.stderr).toContain("postgres://");
  });

  it("answers a mistyped command and a mistyped option with the nearest one, and exit code 2", async () => {
    const command = await reprise(["wrok"]);
    expect(command).toMatchObject({ code: 2 });
    expect(command.stderr).toContain("Did you mean work?");
    const option = await reprise(["runs", "--wher", "x"]);
    expect(option).toMatchObject({ code: 2 });
    expect(option.stderr).toContain("Did you mean --where?");
  });

  it("says where a filter is wrong", async () => {
    const ended = await reprise(["runs", "--where", "receive_count>"], { DATABASE_URL: "postgres://127.0.0.1:1/x" });
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain("--where");
  });

  it("says what a module must export", async () => {
    const s = await scene();
    writeFileSync(join(folder, "empty.js"), "export const nothing = 1;");
    const ended = await reprise(["work", join(folder, "empty.js")], environmentOf(s));
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain("AGENT_MODULE_INVALID");
    expect(ended.stderr).toContain("export `agents`");
  });

  it("migrates, sends, works and lists: the README's four commands", async () => {
    const s = await scene();
    const environment = environmentOf(s);
    expect(await reprise(["migrate"], environment)).toMatchObject({ code: 0, stdout: "nothing to apply\n" });
    const sent = await reprise(
      ["send", "--agent", "steps", "--thread", "t", "--run", "r", "--input", '{"log":["in"]}'],
      environment,
    );
    expect(sent.code).toBe(0);
    expect(JSON.parse(sent.stdout)).toMatchObject({ run_id: "r" });
    writeFileSync(join(folder, "agents.js"), AGENTS);
    const worker = spawn(process.execPath, [CLI, "work", join(folder, "agents.js")], {
      env: { PATH: process.env["PATH"] ?? "", ...environment },
      stdio: "ignore",
    });
    await s.until("the run's end", async () => (await s.deliveries("r")).some((row) => row["outcome"] === "finished"));
    worker.kill("SIGTERM");
    expect(await once(worker, "exit")).toEqual([0, null]);
    const listed = await reprise(["runs", "--json", "--where", "run_id=r and cause=none"], environment);
    expect(JSON.parse(listed.stdout)).toMatchObject({
      run_id: "r",
      status: "finished",
      receive_count: 1,
      cause: "none",
    });
    const none = await reprise(["runs", "--where", "receive_count>1"], environment);
    expect(none).toMatchObject({ code: 0, stdout: "no runs\n" });
  });
});

describe("a process with an OpenTelemetry SDK of its own", () => {
  it("keeps it: the run's spans go where that SDK sends them, and ours does not start", async () => {
    const s = await scene();
    const sink = await startSink();
    try {
      writeFileSync(join(folder, "agents.js"), AGENTS);
      writeFileSync(
        join(folder, "otel.mjs"),
        `import { NodeSDK } from "@opentelemetry/sdk-node";
         import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
         import { SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
         new NodeSDK({ serviceName: "mine", spanProcessors: [new SimpleSpanProcessor(new OTLPTraceExporter())] }).start();`,
      );
      const { OTEL_SDK_DISABLED: _off, ...environment } = environmentOf(s);
      const worker = spawn(
        process.execPath,
        ["--import", join(folder, "otel.mjs"), CLI, "work", join(folder, "agents.js")],
        {
          env: {
            PATH: process.env["PATH"] ?? "",
            ...environment,
            OTEL_EXPORTER_OTLP_ENDPOINT: sink.endpoint,
            OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
          },
          stdio: "ignore",
        },
      );
      await s.send({ agent: "steps", runId: "r", input: { log: [] } });
      await s.until("the root span", async () => sink.spans().some((span) => span.attributes["agent.run_id"] === "r"));
      worker.kill("SIGTERM");
      await once(worker, "exit");
      const root = sink.spans().find((span) => span.attributes["agent.run_id"] === "r");
      expect(root?.resource["service.name"]).toBe("mine");
      // No tail sampler of ours decided about it.
      expect(root?.attributes["sampling.reason"]).toBeUndefined();
      expect(sink.spans().some((span) => span.name === "node:one" && span.traceId === root?.traceId)).toBe(true);
    } finally {
      await sink.stop();
    }
  });
});
