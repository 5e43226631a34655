// The preflight against real parts: a healthy scene, one with everything wrong, things that hang, and the worker's own start.
import { execFile } from "node:child_process";
import { createServer, type Server } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { SetQueueAttributesCommand } from "@aws-sdk/client-sqs";
import { openPool, startSink } from "@reprise/dev-stack";
import { afterEach, describe, expect, inject, it } from "vitest";
import { defineAgent } from "../src/agent.ts";
import { type CheckLine, checkLines } from "../src/check.ts";
import { collectFacts } from "../src/check-collect.ts";
import { otlpTarget } from "../src/check-otlp.ts";
import type { Logger } from "../src/log.ts";
import { type Scene, scene } from "./scene.ts";
import { twoSteps } from "./scene-agent.ts";

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

const steps = defineAgent({ name: "steps", graph: twoSteps() });

async function withRedrive(s: Scene, maxReceiveCount: number, dead: Readonly<Record<string, string>> = {}) {
  const url = await s.sqs.createQueue("dead", { MessageRetentionPeriod: "1209600", ...dead });
  const deadLetterTargetArn = `arn:aws:sqs:us-east-1:000000000000:${url.split("/").at(-1)}`;
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn, maxReceiveCount });
  await s.client.send(new SetQueueAttributesCommand({ QueueUrl: s.queueUrl, Attributes: { RedrivePolicy } }));
}

async function linesOf(s: Scene, otlpEndpoint: string): Promise<ReadonlyMap<string, CheckLine>> {
  const otlp = otlpTarget({ OTEL_EXPORTER_OTLP_ENDPOINT: otlpEndpoint });
  const facts = await collectFacts({ config: s.config, client: s.client, pool: s.pool, otlp, timeoutMs: 4_000 });
  return new Map(checkLines(facts).map((line) => [line.what, line]));
}

async function listening(server: Server): Promise<string> {
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  closers.push(() => new Promise((done) => server.close(done)));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return `http://127.0.0.1:${address.port}`;
}

describe("the preflight", () => {
  it("finds a healthy scene healthy: queue, dead letters, tables, clocks, connections, collector", async () => {
    const s = await scene({ REPRISE_WAIT_SECONDS: "5", REPRISE_CONCURRENCY: "2", REPRISE_POOL_MAX: "4" });
    await withRedrive(s, 50);
    const sink = await startSink();
    closers.push(() => sink.stop());
    const lines = await linesOf(s, sink.endpoint);
    const bad = [...lines.values()].filter(({ verdict }) => verdict !== "ok");
    expect(bad.map(({ what }) => what)).toEqual(["encryption"]);
    expect([...lines.keys()]).toEqual(
      expect.arrayContaining([
        "redrive policy",
        "dead-letter queue",
        "tables",
        "database clock",
        "queue clock",
        "traces",
      ]),
    );
  });

  it("names what is missing: dead-letter queue, tables, a collector that refuses", async () => {
    const s = await scene();
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: "arn:aws:sqs:us-east-1:0:gone", maxReceiveCount: 5 });
    await s.client.send(new SetQueueAttributesCommand({ QueueUrl: s.queueUrl, Attributes: { RedrivePolicy } }));
    await s.pool.query("delete from reprise.migrations where id like 'worker-%'");
    const refusing = await listening(createServer((_request, response) => response.writeHead(401).end()));
    const lines = await linesOf(s, refusing);
    expect(lines.get("dead-letter queue")).toMatchObject({ verdict: "fail" });
    expect(lines.get("redrive policy")).toMatchObject({ verdict: "warn" });
    expect(lines.get("tables")?.found).toContain("worker-001-runs");
    expect(lines.get("traces")).toMatchObject({ verdict: "fail", found: "status 401" });
  });

  it("ends in time whatever hangs: an endpoint that never answers, a database that never greets", async () => {
    const s = await scene();
    const silent = await listening(createServer(() => {}));
    const sockets = new Set<{ destroy(): void }>();
    const mute = createTcpServer((socket) => sockets.add(socket));
    await new Promise<void>((done) => mute.listen(0, "127.0.0.1", done));
    const address = mute.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    const pool = openPool(`postgres://x@127.0.0.1:${address.port}/x`, { max: 1 });
    pool.on("error", () => {});
    closers.push(async () => {
      for (const socket of sockets) socket.destroy();
      mute.close();
    });
    s.sqs.faults.add({ kind: "delay", operation: "GetQueueAttributes", delayMs: 30_000, remaining: 10 });
    const otlp = otlpTarget({ OTEL_EXPORTER_OTLP_ENDPOINT: silent });
    const facts = await collectFacts({ config: s.config, client: s.client, pool, otlp, timeoutMs: 500 });
    expect(facts).toMatchObject({
      queue: { state: "unread", name: "TimeoutError" },
      database: { state: "unread", name: "TimeoutError" },
      process: { tracing: { answer: { state: "unread", name: "TimeoutError" } } },
    });
    s.sqs.faults.clear();
  });
});

describe("the worker's own start", () => {
  interface Warned {
    readonly log: Logger;
    readonly checks: unknown[];
  }
  function warned(): Warned {
    const checks: unknown[] = [];
    const silent = (): void => {};
    const warn = (fields: Readonly<Record<string, unknown>>): void => {
      if ("check" in fields) checks.push(fields["check"]);
    };
    return { checks, log: { debug: silent, info: silent, warn, error: silent } };
  }

  it("C03: warns below 20 receives and works", async () => {
    const s = await scene({ REPRISE_WAIT_SECONDS: "5", REPRISE_CONCURRENCY: "2" });
    await withRedrive(s, 5);
    const { log, checks } = warned();
    await s.start([steps], { log });
    expect(checks).toEqual(["redrive policy", "encryption"]);
  });

  it("C03: refuses fewer than 3, under its code, and leaves nothing open", async () => {
    const s = await scene();
    await withRedrive(s, 2);
    await expect(s.start([steps])).rejects.toMatchObject({ code: "QUEUE_UNFIT" });
    await s.until("its connections to close", async () => {
      const { rows } = await s.pool.query(
        "select count(*)::int as open from pg_stat_activity where datname = current_database() and application_name = 'reprise-worker'",
      );
      return rows[0].open === 0;
    });
  });

  it("works without sqs:GetQueueAttributes, and says so", async () => {
    const s = await scene();
    s.sqs.faults.add({ kind: "error", operation: "GetQueueAttributes", code: "AccessDenied", remaining: 5 });
    const { log, checks } = warned();
    await s.start([steps], { log });
    expect(checks).toEqual(["queue", "pool"].slice(0, checks.length));
    expect(checks[0]).toBe("queue");
    s.sqs.faults.clear();
  });
});

describe("the command", () => {
  const PACKAGE = dirname(import.meta.dirname);
  const run = async (environment: Readonly<Record<string, string>>, ...args: string[]) => {
    try {
      const env = { PATH: process.env["PATH"] ?? "", ...environment };
      const done = await promisify(execFile)(process.execPath, [join(PACKAGE, "dist", "cli.js"), "check", ...args], {
        env,
      });
      return { code: 0, ...done };
    } catch (error) {
      // execFile rejects with the exit code and what was written.
      return error as { readonly code: number; readonly stdout: string; readonly stderr: string };
    }
  };

  it("exits 0 with warnings, 1 with a failure, 2 without its settings, and speaks JSON", async () => {
    const ROOT = dirname(dirname(PACKAGE));
    await promisify(execFile)(join(ROOT, "node_modules", ".bin", "tsc"), ["-b"], { cwd: ROOT });
    const s = await scene();
    const environment = {
      DATABASE_URL: s.config.databaseUrl,
      QUEUE_URL: s.queueUrl,
      SQS_ENDPOINT: s.sqs.endpoint,
      AWS_ACCESS_KEY_ID: "x",
      AWS_SECRET_ACCESS_KEY: "y",
      OTEL_SDK_DISABLED: "true",
    };
    const warns = await run(environment);
    expect(warns.code).toBe(0);
    expect(warns.stdout).toContain("warn  redrive policy");
    expect(warns.stdout).toContain("fix: ");
    const fails = await run(
      {
        ...environment,
        DATABASE_URL: `${inject("databaseUrl")}-gone`,
        REPRISE_DRAIN_SECONDS: "25",
        REPRISE_STOP_GRACE_SECONDS: "10",
      },
      "--json",
    );
    expect(fails.code).toBe(1);
    const lines = fails.stdout
      .trim()
      .split("\n")
      .map((text): CheckLine => JSON.parse(text));
    expect(lines.filter(({ verdict }) => verdict === "fail").map(({ what }) => what)).toEqual([
      "database",
      "stop budget",
    ]);
    const usage = await run({ QUEUE_URL: s.queueUrl });
    expect(usage.code).toBe(2);
    expect(usage.stderr).toContain("DATABASE_URL");
  }, 180_000);
});
