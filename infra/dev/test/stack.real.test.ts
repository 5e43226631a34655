// The composed stack: what it embeds, what it leaves to the caller, and `npm run dev` as a process.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { GetQueueAttributesCommand, SQSClient } from "@aws-sdk/client-sqs";
import pg from "pg";
import { afterEach, expect, inject, it } from "vitest";
import { startSqs } from "../src/sqs-server.ts";
import { type Stack, type StackOptions, startStack } from "../src/stack.ts";
import { bundleForNode } from "./bundle.ts";

const started: Stack[] = [];
const folders: string[] = [];
const children: ChildProcess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  for (const stack of started.splice(0)) await stack.stop();
  for (const path of folders.splice(0)) rmSync(path, { recursive: true, force: true });
});

const start = async (options: StackOptions = {}): Promise<Stack> => {
  const stack = await startStack({ environment: {}, ...options });
  started.push(stack);
  return stack;
};
const folder = (mode = 0o755): string => {
  const path = mkdtempSync(join(tmpdir(), "reprise-stack-"));
  chmodSync(path, mode);
  folders.push(path);
  return path;
};
const ask = async (url: string, sql: string): Promise<readonly unknown[]> => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
};
const attributesOf = async (stack: Stack, queueUrl: string): Promise<Readonly<Record<string, string>>> => {
  const credentials = { accessKeyId: "x", secretAccessKey: "x" };
  const client = new SQSClient({ endpoint: stack.sqsEndpoint ?? "", region: "us-east-1", credentials });
  const answer = await client.send(new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["All"] }));
  client.destroy();
  return answer.Attributes ?? {};
};

it("embeds all three parts and names everything a worker needs", async () => {
  const stack = await start();
  expect(await ask(stack.databaseUrl, "SELECT 1 AS one")).toEqual([{ one: 1 }]);
  expect(stack.environment).toEqual({
    DATABASE_URL: stack.databaseUrl,
    QUEUE_URL: stack.queueUrl,
    SQS_ENDPOINT: stack.sqsEndpoint,
    AWS_ENDPOINT_URL_SQS: stack.sqsEndpoint,
    AWS_REGION: "us-east-1",
    AWS_ACCESS_KEY_ID: expect.any(String),
    AWS_SECRET_ACCESS_KEY: expect.any(String),
    OTEL_EXPORTER_OTLP_ENDPOINT: stack.sink?.endpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  });
  const source = await attributesOf(stack, stack.queueUrl);
  const dead = await attributesOf(stack, stack.deadLetterQueueUrl ?? "");
  expect(source["VisibilityTimeout"]).toBe("30");
  expect(JSON.parse(source["RedrivePolicy"] ?? "{}")).toEqual({
    deadLetterTargetArn: dead["QueueArn"],
    maxReceiveCount: 50,
  });
  expect(Number(dead["MessageRetentionPeriod"])).toBeGreaterThan(Number(source["MessageRetentionPeriod"]));
  await stack.stop();
  await stack.stop();
});

it("starts nothing that the environment already names", async () => {
  const stack = await start({
    environment: {
      databaseUrl: inject("databaseUrl"),
      queueUrl: "https://sqs.eu-west-1.amazonaws.com/000000000000/runs",
      otlpEndpoint: "http://collector:4318",
    },
  });
  expect([stack.postgres, stack.sqs, stack.sink, stack.deadLetterQueueUrl]).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  // No endpoint and no dummy keys: this is AWS, and the caller's own identity.
  expect(stack.environment).toEqual({
    DATABASE_URL: inject("databaseUrl"),
    QUEUE_URL: "https://sqs.eu-west-1.amazonaws.com/000000000000/runs",
    OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  });
});

it("creates the queues on an outside endpoint, FIFO too, and adapts queues that are there", async () => {
  const sqs = await startSqs();
  const environment = { databaseUrl: inject("databaseUrl"), sqsEndpoint: sqs.endpoint, otlpEndpoint: "http://o" };
  await start({ environment, queueName: "runs.fifo" });
  const again = await start({ environment, queueName: "runs.fifo", visibilitySeconds: 7, maxReceiveCount: 9 });
  expect(again.deadLetterQueueUrl).toMatch(/runs-dead\.fifo$/);
  const source = await attributesOf(again, again.queueUrl);
  expect(source).toMatchObject({ VisibilityTimeout: "7", FifoQueue: "true" });
  expect(JSON.parse(source["RedrivePolicy"] ?? "{}")).toMatchObject({ maxReceiveCount: 9 });
  await sqs.stop();
});

it("says which queue it could not create where, and stops what it had started", async () => {
  const nobody = createServer().listen(0, "127.0.0.1");
  await once(nobody, "listening");
  const address = nobody.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  nobody.close();
  const environment = { databaseUrl: inject("databaseUrl"), sqsEndpoint: `http://127.0.0.1:${port}` };
  await expect(start({ environment })).rejects.toMatchObject({
    code: "STACK_QUEUE_FAILED",
    message: expect.stringMatching(/reprise-runs.*QUEUE_URL/s),
  });
});

it("refuses options that SQS would refuse", async () => {
  await expect(start({ maxReceiveCount: 0 })).rejects.toMatchObject({ code: "STACK_OPTION_INVALID" });
  await expect(start({ visibilitySeconds: 0.5 })).rejects.toMatchObject({ code: "STACK_OPTION_INVALID" });
});

it("keeps databases and queues in the data folder over a restart, on other ports when the preferred are taken", async () => {
  const dataDir = folder();
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const address = holder.address();
  const taken = typeof address === "object" && address !== null ? address.port : 0;
  const options = { dataDir, preferredPorts: { postgres: taken, sqs: taken, sink: taken } };
  const first = await start(options);
  await ask(first.databaseUrl, "CREATE TABLE kept (n int)");
  await first.stop();
  const second = await start(options);
  expect(await ask(second.databaseUrl, "SELECT count(*)::int AS n FROM kept")).toEqual([{ n: 0 }]);
  expect(new URL(second.queueUrl).pathname).toBe(new URL(first.queueUrl).pathname);
  expect(new URL(second.databaseUrl).port).not.toBe(String(taken));
  holder.close();
});

it("keeps the data in a private folder; as root, whose borrowed account cannot enter it, below the temporary one", async () => {
  const dataDir = folder(0o700);
  const first = await start({ dataDir });
  const moved = first.postgres?.dataDir ?? "";
  folders.push(moved);
  expect(moved).toMatch(process.getuid?.() === 0 ? /reprise-dev-[0-9a-f]{12}$/ : /postgres$/);
  await ask(first.databaseUrl, "CREATE TABLE kept (n int)");
  await first.stop();
  const second = await start({ dataDir });
  expect(second.postgres?.dataDir).toBe(moved);
  expect(await ask(second.databaseUrl, "SELECT count(*)::int AS n FROM kept")).toEqual([{ n: 0 }]);
});

it("runs as `npm run dev`: export lines alone on stdout, a clean stop on SIGTERM, data kept", async () => {
  const bundle = await bundleForNode(join(import.meta.dirname, "stack-child.ts"));
  folders.push(join(bundle, ".."));
  const cwd = folder();
  const child = spawn(process.execPath, [bundle], {
    cwd,
    env: { PATH: process.env["PATH"] },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.push(child);
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  await new Promise<void>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`ended with ${code}: ${stderr}`)));
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += chunk.toString();
      if (stderr.includes("Ctrl-C stops it")) resolve();
    });
  });
  const lines = stdout.trim().split("\n");
  expect(lines.every((line) => /^export [A-Z_]+=\S+$/.test(line))).toBe(true);
  const databaseUrl =
    lines
      .find((line) => line.startsWith("export DATABASE_URL="))
      ?.split("=")
      .slice(1)
      .join("=") ?? "";
  expect(await ask(databaseUrl, "SELECT 1 AS one")).toEqual([{ one: 1 }]);
  child.kill("SIGTERM");
  const [code] = await once(child, "exit");
  expect(code).toBe(0);
  expect(existsSync(join(cwd, ".reprise", "postgres", "PG_VERSION"))).toBe(true);
  expect(existsSync(join(cwd, ".reprise", "postgres", "postmaster.pid"))).toBe(false);
});
