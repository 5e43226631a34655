// startTracing in a real ESM process: nesting with and without the loader hook, a dead and a slow collector, the SDK's variables.

import { spawn } from "node:child_process";
import { copyFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import { bundleForNode } from "../../../infra/dev/test/bundle.ts";
import "../../../infra/dev/test/provided.ts";
import { METRIC } from "../src/names.ts";
import { type ReceivedSpan, type Receiver, startReceiver } from "./otlp-receiver.ts";

let program: string;
let receiver: Receiver;
const cleanups: (() => Promise<void>)[] = [];

beforeAll(async () => {
  const bundle = await bundleForNode(join(import.meta.dirname, "..", "src", "index.ts"));
  program = join(dirname(bundle), "setup-program.mjs");
  copyFileSync(join(import.meta.dirname, "setup-start.mjs"), join(dirname(bundle), "start.mjs"));
  copyFileSync(join(import.meta.dirname, "setup-program.mjs"), program);
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

interface Ran {
  readonly code: number | null;
  readonly error: string;
  readonly outcome: string;
  readonly shutdownMs: number;
  readonly spans: readonly ReceivedSpan[];
}

async function run(loader: "loader" | "plain", env: Record<string, string> = {}): Promise<Ran> {
  receiver = await startReceiver();
  cleanups.push(() => receiver.close());
  const child = spawn(process.execPath, [program, loader, receiver.url, inject("databaseUrl")], {
    env: { PATH: process.env["PATH"] ?? "", OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, ...env },
  });
  let out = "";
  let error = "";
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    error += chunk.toString();
  });
  const code = await new Promise<number | null>((resolve, reject) => child.once("error", reject).once("exit", resolve));
  // Written by setup-start.mjs as one line.
  const { outcome, shutdownMs } = JSON.parse(out || "{}") as { outcome: string; shutdownMs: number };
  return { code, error, outcome, shutdownMs, spans: receiver.spans };
}

function childrenOf(spans: readonly ReceivedSpan[], name: string): readonly ReceivedSpan[] {
  const parent = spans.find((span) => span.name === name);
  return spans.filter((span) => span.parentSpanId === parent?.spanId && span.traceId === parent?.traceId);
}

describe("startTracing in an ESM process", () => {
  it.each(["plain", "loader"] as const)(
    "nests fetch, node:http, pg and AWS spans under the active span (%s)",
    async (mode) => {
      const { code, error, outcome, spans } = await run(mode);
      expect({ code, error: code === 0 ? "" : error, outcome }).toEqual({ code: 0, error: "", outcome: "flushed" });

      for (const name of ["tool:fetch", "tool:http", "tool:http_named"]) {
        expect(
          childrenOf(spans, name).map((span) => span.name),
          name,
        ).toEqual(["GET"]);
      }
      // The SDK's own HTTP request is no second span below.
      const aws = childrenOf(spans, "tool:aws");
      expect(aws.map((span) => span.name)).toEqual(["SQS.GetQueueUrl"]);
      expect(spans.filter((span) => span.parentSpanId === aws[0]?.spanId)).toEqual([]);
      expect(spans[0]?.resource["service.name"]).toBe("program");
    },
  );

  it("F06: a query that waited for a pool of one belongs to its own run", async () => {
    const { spans } = await run("plain");
    for (let run = 0; run < 10; run++) {
      const queries = childrenOf(spans, `checkpoint.put ${run}`).filter((span) => span.name.startsWith("pg.query"));
      expect(queries.map((span) => span.attributes["db.query.text"])).toEqual([`select ${run}::int as run`]);
    }
    expect(spans.some((span) => span.attributes["db.query.text"] === "select 1 as alone")).toBe(false);
  });

  it("F13: cleans the query string of an instrumented URL", async () => {
    const { spans } = await run("plain");
    expect(JSON.stringify(spans)).not.toContain("hunter2");
    expect(childrenOf(spans, "tool:fetch")[0]?.attributes["url.full"]).toContain("api_key=[redacted]");
  });

  it("F11: a collector that never answers delays the shutdown by its budget and no longer", async () => {
    const held = createServer(() => undefined);
    await new Promise<void>((resolve) => held.listen(0, "127.0.0.1", resolve));
    cleanups.push(
      () =>
        new Promise((resolve) => {
          held.close(() => resolve());
          held.closeAllConnections();
        }),
    );
    // A listening TCP server has one.
    const { port } = held.address() as AddressInfo;
    const { code, outcome, shutdownMs } = await run("plain", {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    });
    expect({ code, outcome }).toEqual({ code: 0, outcome: "timed_out" });
    expect(shutdownMs).toBeLessThan(2_000);
  });

  it("F11: a dead collector changes nothing for the program", async () => {
    const { code, shutdownMs } = await run("plain", { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" });
    expect(code).toBe(0);
    expect(shutdownMs).toBeLessThan(2_000);
  });

  const decided = (metrics: Receiver["metrics"]): Receiver["metrics"][number] | undefined =>
    metrics.find((metric) => metric.name === "sampling.traces.decided");

  it("exports metrics by OTLP when the environment says nothing, in protobuf as the SDK does by default", async () => {
    const { code, outcome } = await run("plain");
    expect({ code, outcome }).toEqual({ code: 0, outcome: "flushed" });
    expect(receiver.metricExports).toEqual(["application/x-protobuf"]);
  });

  it("exports the sampler's metrics under the process's resource, and none of the instrumentations'", async () => {
    const { code, outcome } = await run("plain", { OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" });
    expect({ code, outcome }).toEqual({ code: 0, outcome: "flushed" });
    // Ten runs with their query and four tools: each a trace, all kept by a share of one.
    expect(decided(receiver.metrics)?.points).toContainEqual({
      attributes: { "sampling.verdict": "keep", "sampling.reason": "share" },
      value: 14,
    });
    expect(decided(receiver.metrics)?.resource["service.name"]).toBe("program");
    const ours = new Set<string>(Object.values(METRIC));
    expect(receiver.metrics.filter(({ name }) => !ours.has(name))).toEqual([]);
  });

  it("exports no metrics under OTEL_METRICS_EXPORTER=none, and the spans as ever", async () => {
    const { spans } = await run("plain", { OTEL_METRICS_EXPORTER: "none" });
    expect(receiver.metricExports).toEqual([]);
    expect(spans.length).toBeGreaterThan(14);
  });

  it.each([{ OTEL_SDK_DISABLED: "true" }, { OTEL_TRACES_EXPORTER: "none" }])("sends nothing under %j", async (env) => {
    const { code, spans } = await run("plain", env);
    expect({ code, spans }).toEqual({ code: 0, spans: [] });
    expect(receiver.paths).toEqual(["/fetch?api_key=hunter2", "/http", "/http", "/"]);
  });
});
