// The sink over real HTTP, with the exporter that workers use and with requests no exporter would send.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { BasicTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { afterEach, beforeEach, expect, it } from "vitest";
import { type Sink, startSink } from "../src/sink.ts";

let dir = "";
let sink: Sink;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "reprise-sink-"));
  sink = await startSink({ file: join(dir, "spans.jsonl"), bytesMax: 200_000 });
});
afterEach(async () => {
  await sink.stop();
  rmSync(dir, { recursive: true, force: true });
});

const wire = (digit: string, attributes: Readonly<Record<string, number>> = {}): string =>
  JSON.stringify({
    resourceSpans: [
      {
        scopeSpans: [
          {
            spans: [
              {
                traceId: digit.repeat(32),
                spanId: digit.repeat(16),
                name: "process q",
                startTimeUnixNano: "1700000000000000000",
                endTimeUnixNano: "1700000000001000000",
                attributes: Object.entries(attributes).map(([key, intValue]) => ({ key, value: { intValue } })),
              },
            ],
          },
        ],
      },
    ],
  });
const post = (body: string | Buffer, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
  fetch(`${sink.endpoint}/v1/traces`, {
    method: "POST",
    body: typeof body === "string" ? body : new Uint8Array(body),
    headers: { "content-type": "application/json", ...headers },
  });

it("takes what the OpenTelemetry exporter sends, gzip included, and writes it as JSON lines", async () => {
  const exporter = new OTLPTraceExporter({
    url: `${sink.endpoint}/v1/traces`,
    // The package's enum is not exported from its index; the setting's documented text is "gzip".
    compression: "gzip" as never,
  });
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const span = provider.getTracer("reprise.test").startSpan("process q", {
    kind: SpanKind.CONSUMER,
    attributes: { "agent.receive_count": 2, list: ["a", "b"] },
  });
  span.addEvent("first_token", { n: 1 });
  span.setStatus({ code: SpanStatusCode.ERROR, message: "boom" });
  span.end();
  await provider.forceFlush();
  await provider.shutdown();
  const [received] = sink.spans();
  expect(received).toMatchObject({
    name: "process q",
    kind: "CONSUMER",
    scope: "reprise.test",
    attributes: { "agent.receive_count": 2, list: ["a", "b"] },
    events: [{ name: "first_token", attributes: { n: 1 } }],
    status: { code: "ERROR", message: "boom" },
  });
  expect(JSON.parse(readFileSync(join(dir, "spans.jsonl"), "utf8"))).toEqual(received);
});

it("shows the traces a filter asks for, by the short name, as JSON, as text and as a page", async () => {
  await post(wire("a", { "agent.receive_count": 1 }));
  await post(wire("b", { "agent.receive_count": 2 }));
  const traces = await (await fetch(`${sink.endpoint}/traces?where=receive_count>1`)).json();
  expect(traces).toMatchObject([{ traceId: "b".repeat(32), durationMs: 1, spans: [{ name: "process q" }] }]);
  expect(sink.traces("receive_count>1")).toEqual(traces);
  expect(sink.traces("duration_ms>=1 and status=unset")).toHaveLength(2);
  const text = await (await fetch(`${sink.endpoint}/?where=receive_count>1`)).text();
  expect(text).toContain("trace bbbbbbbb…");
  expect(text).not.toContain("aaaaaaaa");
  const page = await fetch(`${sink.endpoint}/?where=${encodeURIComponent('name="<script>"')}`, {
    headers: { accept: "text/html" },
  });
  expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(await page.text()).not.toContain("<script>");
});

it("answers a filter it cannot read with 400 and the reason", async () => {
  const answer = await fetch(`${sink.endpoint}/traces?where=receive_count>`);
  expect(answer.status).toBe(400);
  expect(await answer.json()).toMatchObject({ code: "SINK_FILTER_INVALID" });
  expect(() => sink.traces("((")).toThrow(expect.objectContaining({ code: "SINK_FILTER_INVALID" }));
});

it("refuses protobuf with 415 and names the environment variable that mends it", async () => {
  const answer = await post("\u0001", { "content-type": "application/x-protobuf" });
  expect(answer.status).toBe(415);
  expect(await answer.text()).toContain("OTEL_EXPORTER_OTLP_PROTOCOL=http/json");
});

it("refuses bad JSON, bad gzip and other shapes with 400, and other encodings with 415", async () => {
  expect((await post("{")).status).toBe(400);
  expect((await post("not gzip", { "content-encoding": "gzip" })).status).toBe(400);
  expect((await post("[]")).status).toBe(400);
  expect((await post(wire("a"), { "content-encoding": "br" })).status).toBe(415);
  expect(sink.stats()).toMatchObject({ requestsRefused: 4, spans: 0 });
});

it("refuses a body over the bound with 413, also one that is small until it is unpacked", async () => {
  expect((await post(" ".repeat(200_001))).status).toBe(413);
  expect((await post(gzipSync(Buffer.alloc(50_000_000, " ")), { "content-encoding": "gzip" })).status).toBe(413);
  expect((await post(wire("a"))).status).toBe(200);
});

it("reports single unreadable spans in partialSuccess and keeps the rest", async () => {
  const answer = await post(wire("a").replace('"traceId":"a', '"traceId":"z'));
  expect(await answer.json()).toEqual({
    partialSuccess: { rejectedSpans: "1", errorMessage: "first unreadable field: traceId" },
  });
  expect(sink.stats()).toMatchObject({ spansRejected: 1, spans: 0 });
});

it("drops the oldest traces under load and says how many at /stats", async () => {
  const small = await startSink({ spansMax: 2 });
  for (const digit of ["a", "b", "c"]) {
    await fetch(`${small.endpoint}/v1/traces`, {
      method: "POST",
      body: wire(digit),
      headers: { "content-type": "application/json" },
    });
  }
  expect(await (await fetch(`${small.endpoint}/stats`)).json()).toMatchObject({
    spans: 2,
    tracesDropped: 1,
    spansDropped: 1,
  });
  await small.stop();
  await small.stop();
});

it("answers only those who ask for it by a loopback name", async () => {
  const status = await new Promise<number | undefined>((resolve, reject) => {
    request(`${sink.endpoint}/traces`, { headers: { host: "evil.example" } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on("error", reject)
      .end();
  });
  expect(status).toBe(403);
});

it("says which port it cannot have", async () => {
  const port = Number(new URL(sink.endpoint).port);
  await expect(startSink({ port })).rejects.toMatchObject({
    code: "SINK_LISTEN_FAILED",
    message: expect.stringContaining(String(port)),
  });
});
