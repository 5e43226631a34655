// `node --import .../register` in real processes: what the environment sets, how a process ends, a slow and a dead collector.

import { spawn } from "node:child_process";
import { copyFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { bundleForNode } from "../../../infra/dev/test/bundle.ts";
import { type Receiver, startReceiver } from "./otlp-receiver.ts";

let preload: string;
let program: string;
const receivers: Receiver[] = [];

beforeAll(async () => {
  preload = await bundleForNode(join(import.meta.dirname, "..", "src", "register.ts"));
  program = join(dirname(preload), "register-program.mjs");
  copyFileSync(join(import.meta.dirname, "register-program.mjs"), program);
});
afterEach(async () => {
  for (const receiver of receivers.splice(0)) await receiver.close();
});

async function receiverOf(options: { readonly delayMs?: number } = {}): Promise<Receiver> {
  const receiver = await startReceiver(options);
  receivers.push(receiver);
  return receiver;
}

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly error: string;
}

interface Run {
  readonly env?: Readonly<Record<string, string>>;
  /** `ends` by itself, `waits` for a signal it has no handler for, or `drains` on one. */
  readonly ending?: "ends" | "waits" | "drains";
}

async function run(target: Receiver, { env = {}, ending = "ends" }: Run = {}): Promise<Ended> {
  const child = spawn(process.execPath, ["--import", preload, program, target.url, ending], {
    env: { PATH: process.env["PATH"] ?? "", OTEL_EXPORTER_OTLP_ENDPOINT: target.url, ...env },
  });
  const ended = { code: null as number | null, signal: null as NodeJS.Signals | null, out: "", error: "" };
  child.stdout.on("data", (chunk: Buffer) => {
    const wasReady = ended.out.includes("ready");
    ended.out += chunk.toString();
    if (ending !== "ends" && !wasReady && ended.out.includes("ready")) child.kill("SIGTERM");
  });
  child.stderr.on("data", (chunk: Buffer) => {
    ended.error += chunk.toString();
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject).once("close", (code, signal) => resolve({ ...ended, code, signal }));
  });
}

const namesOf = (receiver: Receiver): readonly string[] => receiver.spans.map((span) => span.name).toSorted();

describe("a preloaded process", () => {
  it("is traced, gated and sampled without a line of its own, as the standard variables say", async () => {
    const receiver = await receiverOf();
    const env = {
      OTEL_SERVICE_NAME: "billing",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test",
      OTEL_EXPORTER_OTLP_HEADERS: "x-tenant=blue",
    };
    const { code, error } = await run(receiver, { env });
    expect({ code, error: code === 0 ? "" : error }).toEqual({ code: 0, error: "" });
    // Its share is 5 %, and "uneventful" is in it one time in twenty.
    expect(namesOf(receiver).filter((name) => name !== "uneventful")).toEqual(["GET", "GET", "process runs"]);
    const root = receiver.spans.find((span) => span.name === "process runs");
    const inner = receiver.spans.filter((span) => span.name === "GET");
    expect(inner.map((span) => span.parentSpanId)).toEqual([root?.spanId, root?.spanId]);
    expect(root?.attributes).toMatchObject({
      "sampling.reason": "error",
      "tool.args": '{"password":"[redacted]","amount":5}',
    });
    expect(root?.resource).toMatchObject({ "service.name": "billing", "deployment.environment.name": "test" });
    expect(receiver.exports[0]).toEqual({ contentType: "application/json", tenant: "blue" });
  });

  it.each([
    ["OTEL_SDK_DISABLED", "true"],
    ["OTEL_TRACES_EXPORTER", "none"],
  ])("sends nothing under %s=%s", async (name, value) => {
    const receiver = await receiverOf();
    expect((await run(receiver, { env: { [name]: value } })).code).toBe(0);
    expect(receiver.exports).toEqual([]);
  });

  it("speaks protobuf where the environment says so", async () => {
    const receiver = await receiverOf();
    expect((await run(receiver, { env: { OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf" } })).code).toBe(0);
    expect(receiver.exports.map(({ contentType }) => contentType)).toEqual(["application/x-protobuf"]);
  });

  it("F18: keeps content at home, takes the share, and goes on with the default where a value is no number", async () => {
    const receiver = await receiverOf();
    const env = { REPRISE_CONTENT: "none", REPRISE_SAMPLE_SHARE: "1", REPRISE_SLOW_SECONDS: "soon" };
    const { code, error } = await run(receiver, { env });
    expect(code).toBe(0);
    expect(error).toContain("REPRISE_SLOW_SECONDS must be a number from 0.1 to 86400");
    expect(namesOf(receiver)).toContain("uneventful");
    const root = receiver.spans.find((span) => span.name === "process runs");
    expect(root?.attributes["tool.args"]).toMatch(/^\{"bytes":33,"sha256":"[0-9a-f]{64}"\}$/);
  });
});

describe("the end of a preloaded process", () => {
  it("F11: a signal without a handler flushes first, and is what the process dies of", async () => {
    const receiver = await receiverOf();
    const { signal } = await run(receiver, { ending: "waits" });
    expect(signal).toBe("SIGTERM");
    expect(namesOf(receiver)).toContain("process runs");
  });

  it("F11: a program with a handler drains in its own time, and its last spans leave too", async () => {
    const receiver = await receiverOf();
    const { code, signal, out } = await run(receiver, { ending: "drains" });
    expect({ code, signal, drained: out.includes("drained") }).toEqual({ code: 0, signal: null, drained: true });
    expect(namesOf(receiver)).toEqual(expect.arrayContaining(["process runs", "drain"]));
  });

  it("F11: a collector that takes 3 s delays no work, and loses nothing within the budget", async () => {
    const receiver = await receiverOf({ delayMs: 3_000 });
    const { code, out } = await run(receiver, { env: { REPRISE_FLUSH_SECONDS: "30", REPRISE_SAMPLE_SHARE: "1" } });
    expect(code).toBe(0);
    // Written by the program as its first line.
    const { workMs } = JSON.parse(out.split("\n")[0] ?? "{}") as { readonly workMs: number };
    expect(workMs).toBeLessThan(3_000);
    expect(namesOf(receiver)).toEqual(["GET", "GET", "process runs", "uneventful"]);
  });

  it("F11: past the budget the process ends without its spans", async () => {
    const receiver = await receiverOf({ delayMs: 15_000 });
    const { code } = await run(receiver, { env: { REPRISE_FLUSH_SECONDS: "0.5" } });
    expect(code).toBe(0);
    expect(receiver.spans).toEqual([]);
  });
});
