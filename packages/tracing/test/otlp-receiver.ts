// A collector for tests: takes OTLP over HTTP as JSON and hands spans and metrics out flat. Also answers as a plain HTTP target.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly scope: string;
  readonly statusCode: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface ReceivedMetric {
  readonly name: string;
  readonly unit: string;
  readonly scope: string;
  readonly resource: Readonly<Record<string, unknown>>;
  readonly points: readonly { readonly attributes: Readonly<Record<string, unknown>>; readonly value: number }[];
}

export interface Receiver {
  readonly url: string;
  /** Content types of the metric exports that came; those in JSON are in `metrics`. */
  readonly metricExports: readonly string[];
  readonly metrics: readonly ReceivedMetric[];
  /** Paths of every request that was no export. */
  readonly paths: readonly string[];
  readonly spans: readonly ReceivedSpan[];
  /** Trace exports: their content type, and the header `x-tenant` that the sender was told to add. */
  readonly exports: readonly { readonly contentType: string; readonly tenant: string | undefined }[];
  close(): Promise<void>;
}

interface OtlpValue {
  readonly stringValue?: string;
  readonly intValue?: string | number;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
}
interface OtlpAttribute {
  readonly key: string;
  readonly value: OtlpValue;
}
interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly status?: { readonly code?: number };
  readonly attributes?: readonly OtlpAttribute[];
}
interface OtlpPoint {
  readonly attributes?: readonly OtlpAttribute[];
  readonly asInt?: string | number;
  readonly asDouble?: number;
  readonly count?: string | number;
}
interface OtlpMetric {
  readonly name: string;
  readonly unit?: string;
  readonly sum?: { readonly dataPoints: readonly OtlpPoint[] };
  readonly gauge?: { readonly dataPoints: readonly OtlpPoint[] };
  readonly histogram?: { readonly dataPoints: readonly OtlpPoint[] };
}
interface OtlpMetricsBody {
  readonly resourceMetrics: readonly {
    readonly resource?: { readonly attributes?: readonly OtlpAttribute[] };
    readonly scopeMetrics: readonly {
      readonly scope?: { readonly name?: string };
      readonly metrics: readonly OtlpMetric[];
    }[];
  }[];
}
interface OtlpBody {
  readonly resourceSpans: readonly {
    readonly resource?: { readonly attributes?: readonly OtlpAttribute[] };
    readonly scopeSpans: readonly {
      readonly scope?: { readonly name?: string };
      readonly spans: readonly OtlpSpan[];
    }[];
  }[];
}

/** `delayMs`: how long it takes over a trace export before it has it and answers. */
export async function startReceiver({ delayMs = 0 }: { readonly delayMs?: number } = {}): Promise<Receiver> {
  const exports: { readonly contentType: string; readonly tenant: string | undefined }[] = [];
  const spans: ReceivedSpan[] = [];
  const metrics: ReceivedMetric[] = [];
  const metricExports: string[] = [];
  const paths: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", async () => {
      const path = request.url ?? "";
      // The exporters under test write these shapes; a wrong one fails the test by throwing here.
      const json = (): unknown => JSON.parse(Buffer.concat(chunks).toString());
      if (path === "/v1/traces") {
        if (delayMs > 0) await setTimeout(delayMs);
        const contentType = request.headers["content-type"] ?? "";
        const tenant = request.headers["x-tenant"];
        exports.push({ contentType, tenant: typeof tenant === "string" ? tenant : undefined });
        if (contentType.includes("json")) spans.push(...flatten(json() as OtlpBody));
      } else if (path === "/v1/metrics") {
        const type = request.headers["content-type"] ?? "";
        metricExports.push(type);
        if (type.includes("json")) metrics.push(...flattenMetrics(json() as OtlpMetricsBody));
      } else paths.push(path);
      response.setHeader("content-type", "application/x-amz-json-1.0");
      response.end(JSON.stringify(path.startsWith("/v1/") ? {} : { QueueUrl: "http://localhost/1/agent-runs" }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A listening TCP server has one.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    metricExports,
    metrics,
    paths,
    spans,
    exports,
    close: () => closeServer(server),
  };
}

function flatten(body: OtlpBody): ReceivedSpan[] {
  return body.resourceSpans.flatMap((resourceSpans) =>
    resourceSpans.scopeSpans.flatMap((scopeSpans) =>
      scopeSpans.spans.map((span) => ({
        traceId: span.traceId,
        spanId: span.spanId,
        parentSpanId: span.parentSpanId,
        name: span.name,
        scope: scopeSpans.scope?.name ?? "",
        statusCode: span.status?.code ?? 0,
        attributes: plain(span.attributes ?? []),
        resource: plain(resourceSpans.resource?.attributes ?? []),
      })),
    ),
  );
}

function flattenMetrics(body: OtlpMetricsBody): ReceivedMetric[] {
  return body.resourceMetrics.flatMap((resourceMetrics) =>
    resourceMetrics.scopeMetrics.flatMap(({ scope, metrics }) =>
      metrics.map((metric) => ({
        name: metric.name,
        unit: metric.unit ?? "",
        scope: scope?.name ?? "",
        resource: plain(resourceMetrics.resource?.attributes ?? []),
        points: ((metric.sum ?? metric.gauge ?? metric.histogram)?.dataPoints ?? []).map((point) => ({
          attributes: plain(point.attributes ?? []),
          value: Number(point.asInt ?? point.asDouble ?? point.count ?? Number.NaN),
        })),
      })),
    ),
  );
}

function plain(attributes: readonly OtlpAttribute[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.stringValue ??
        value.doubleValue ??
        value.boolValue ??
        (value.intValue === undefined ? undefined : Number(value.intValue)),
    ]),
  );
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
