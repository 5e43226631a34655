// A collector in a process of its own, which only reads and answers, and the stock exporter that sends to it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import type { SpanExporter } from "@opentelemetry/sdk-trace-base";
import { PRODUCT } from "@reprise/tracing";
import { requireWork } from "./errors.ts";

export interface Sink {
  readonly url: string;
  stop(): Promise<void>;
}

// Its own process: what reading costs is not the sender's.
const SINK = `
const server = require("node:http").createServer((request, response) => request.resume().once("end", () => response.end()));
server.listen(0, "127.0.0.1", () => process.stdout.write(String(server.address().port)));
process.stdin.resume().once("end", () => process.exit());
`;

export async function startSink(): Promise<Sink> {
  const child = spawn(process.execPath, ["-e", SINK], { stdio: ["pipe", "pipe", "inherit"] });
  const [port]: Buffer[] = await once(child.stdout, "data");
  return {
    url: `http://127.0.0.1:${String(port)}/v1/traces`,
    stop: async () => {
      const gone = once(child, "exit");
      child.stdin.end();
      await gone;
    },
  };
}

type Exporters = { readonly OTLPTraceExporter: new (options: { readonly url: string }) => SpanExporter };

/** The one that the SDK brings with it: found from there, so that nothing has to be installed for a figure. */
export function otlpProtobufExporter(url: string): SpanExporter {
  const ours = createRequire(createRequire(import.meta.url).resolve(`${PRODUCT.scope}/tracing`));
  const sdk = createRequire(ours.resolve("@opentelemetry/sdk-node"));
  // Untyped; the shape is that of every OTLP exporter, and a wrong one throws here.
  const { OTLPTraceExporter } = sdk("@opentelemetry/exporter-trace-otlp-proto") as Exporters;
  requireWork(typeof OTLPTraceExporter === "function", "the SDK brings no OTLP exporter for protobuf any more");
  return new OTLPTraceExporter({ url });
}
