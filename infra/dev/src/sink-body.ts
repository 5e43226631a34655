// Reads one export request's body: size bounds before and after decompression, media type, JSON. Every refusal says the fix.

import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";

const gunzipAsync = promisify(gunzip);

/** The status and text to answer with, or the parsed body. */
export type ReadBody =
  | { readonly ok: true; readonly body: unknown }
  | { readonly ok: false; readonly status: 400 | 413 | 415; readonly message: string };

const PROTOBUF_FIX =
  "This sink reads OTLP as JSON only. Set OTEL_EXPORTER_OTLP_PROTOCOL=http/json (or OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json) in the process that exports.";

/** @param bytesMax of the body, both as sent and as decompressed: a small gzip can hold gigabytes. */
export async function readBody(request: IncomingMessage, bytesMax: number): Promise<ReadBody> {
  const refused = refuseHeaders(request, bytesMax);
  if (refused !== undefined) return refused;
  const sent = await collect(request, bytesMax);
  if (sent === undefined) return tooLarge(bytesMax);
  const plain = isGzip(request) ? await decompress(sent, bytesMax) : sent;
  if (!Buffer.isBuffer(plain)) return plain;
  try {
    return { ok: true, body: JSON.parse(plain.toString("utf8")) as unknown };
  } catch (error) {
    return { ok: false, status: 400, message: `The body is not JSON: ${String(error)}` };
  }
}

function refuseHeaders(request: IncomingMessage, bytesMax: number): ReadBody | undefined {
  const type = (request.headers["content-type"] ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  if (type !== "application/json") {
    return { ok: false, status: 415, message: `Content-Type ${type || "(none)"} is not supported. ${PROTOBUF_FIX}` };
  }
  const encoding = request.headers["content-encoding"] ?? "identity";
  if (encoding !== "identity" && !isGzip(request)) {
    return { ok: false, status: 415, message: `Content-Encoding ${encoding} is not supported: send gzip or nothing.` };
  }
  return Number(request.headers["content-length"] ?? 0) > bytesMax ? tooLarge(bytesMax) : undefined;
}

function isGzip(request: IncomingMessage): boolean {
  return request.headers["content-encoding"]?.trim().toLowerCase() === "gzip";
}

/** Undefined when more came than allowed; the rest is not kept. */
async function collect(request: IncomingMessage, bytesMax: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    // Without setEncoding an IncomingMessage yields Buffers.
    const buffer = chunk as Buffer;
    bytes += buffer.length;
    if (bytes > bytesMax) return undefined;
    chunks.push(buffer);
  }
  return Buffer.concat(chunks);
}

async function decompress(sent: Buffer, bytesMax: number): Promise<Buffer | ReadBody> {
  try {
    return await gunzipAsync(sent, { maxOutputLength: bytesMax });
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE") return tooLarge(bytesMax);
    return { ok: false, status: 400, message: `The body is not gzip: ${String(error)}` };
  }
}

function tooLarge(bytesMax: number): ReadBody {
  const message = `The body exceeds ${bytesMax} bytes. Lower OTEL_BSP_MAX_EXPORT_BATCH_SIZE in the process that exports.`;
  return { ok: false, status: 413, message };
}
