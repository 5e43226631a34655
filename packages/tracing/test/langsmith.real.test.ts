// LangSmith's own tracing beside ours, in real processes against a stand-in of its server: the same spans, once each, and its runs too.

import { spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { bundleForNode } from "../../../infra/dev/test/bundle.ts";
import { type ReceivedSpan, startReceiver } from "./otlp-receiver.ts";

interface Seen {
  readonly spans: readonly ReceivedSpan[];
  /** Paths that LangSmith's client called. */
  readonly langsmith: readonly string[];
  readonly out: string;
  readonly error: string;
}

let off: Seen;
let on: Seen;

beforeAll(async () => {
  const program = await bundleForNode(join(import.meta.dirname, "langsmith-child.ts"));
  off = await run(program, "false");
  on = await run(program, "true");
});

/** Refuses a run's first two tool calls; takes whatever LangSmith sends. */
async function startServices() {
  const langsmith: string[] = [];
  const calls = new Map<string, number>();
  const server = createServer((request, response) => {
    const path = request.url ?? "";
    request.resume().once("end", () => {
      if (!path.startsWith("/tool/")) {
        langsmith.push(path);
        response.setHeader("content-type", "application/json").end("{}");
        return;
      }
      const made = (calls.get(path) ?? 0) + 1;
      calls.set(path, made);
      response.writeHead(made < 3 ? 503 : 200).end("ok");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A listening TCP server has one.
  const { port } = server.address() as AddressInfo;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { url: `http://127.0.0.1:${port}`, langsmith, close };
}

async function run(program: string, tracing: "true" | "false"): Promise<Seen> {
  const receiver = await startReceiver();
  const services = await startServices();
  const child = spawn(process.execPath, [program, services.url], {
    env: {
      PATH: process.env["PATH"] ?? "",
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_METRICS_EXPORTER: "none",
      LANGSMITH_TRACING: tracing,
      LANGSMITH_ENDPOINT: services.url,
      LANGSMITH_API_KEY: "not-a-key",
    },
  });
  let [out, error] = ["", ""];
  child.stdout.on("data", (chunk: Buffer) => {
    out += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    error += chunk.toString();
  });
  await new Promise((resolve, reject) => child.once("error", reject).once("close", resolve));
  await receiver.close();
  await services.close();
  return { spans: receiver.spans, langsmith: services.langsmith, out, error };
}

/** Every span as the path of names from its root. */
function shapeOf(spans: readonly ReceivedSpan[]): readonly string[] {
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  const pathOf = (span: ReceivedSpan): string => {
    const parent = byId.get(span.parentSpanId ?? "");
    return parent === undefined ? span.name : `${pathOf(parent)} > ${span.name}`;
  };
  return spans.map(pathOf).toSorted();
}

describe("with LangSmith's tracing switched on", () => {
  it("has the spans it has without, each once, under the same parents", () => {
    expect({ out: on.out, error: on.error }).toEqual({ out: "flushed", error: "" });
    expect(shapeOf(on.spans)).toEqual(shapeOf(off.spans));
    expect(new Set(on.spans.map((span) => span.spanId)).size).toBe(on.spans.length);
  });

  it("leaves LangSmith its runs", () => {
    expect(on.langsmith.some((path) => path.includes("/runs"))).toBe(true);
    expect(off.langsmith).toEqual([]);
  });
});

describe("five runs at once", () => {
  it("keep their spans, and a client's retries are siblings under the tool's span", () => {
    const shape = shapeOf(off.spans);
    for (let run = 0; run < 5; run++) {
      const own = shape.filter((path) => path.startsWith(`process ${run}`));
      expect(own.filter((path) => path.endsWith("> node:agent"))).toHaveLength(1);
      expect(own.filter((path) => path.includes("node:agent > model:"))).toHaveLength(1);
      const tool = "> node:tools > tool:charge";
      expect(own.filter((path) => path.endsWith(`${tool} > GET`))).toHaveLength(3);
    }
  });
});
