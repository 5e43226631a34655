// Reads OTLP/JSON trace requests into flat spans. Pure: unknown in, spans and a count of the unreadable out.
// Shapes: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding and opentelemetry-proto trace.proto.

export type OtlpSpanKind = "UNSPECIFIED" | "INTERNAL" | "SERVER" | "CLIENT" | "PRODUCER" | "CONSUMER";

/** 64-bit integers beyond 2^53 stay decimal text, byte strings stay base64 text; the rest is what it was. */
export type OtlpValue = string | number | boolean | null | readonly OtlpValue[] | { readonly [key: string]: OtlpValue };
export type OtlpAttributes = Readonly<Record<string, OtlpValue>>;

export interface OtlpEvent {
  readonly name: string;
  /** Nanoseconds since 1970, decimal text. */
  readonly timeUnixNano: string;
  readonly attributes: OtlpAttributes;
}

export interface OtlpLink {
  readonly traceId: string;
  readonly spanId: string;
  readonly attributes: OtlpAttributes;
}

/** One span as received; plain JSON. */
export interface OtlpSpan {
  /** 32 and 16 lower-case hex digits. */
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: OtlpSpanKind;
  /** Nanoseconds since 1970, decimal text: a number would lose the last digits. */
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly durationMs: number;
  readonly status: { readonly code: "UNSET" | "OK" | "ERROR"; readonly message?: string };
  readonly attributes: OtlpAttributes;
  readonly events: readonly OtlpEvent[];
  readonly links: readonly OtlpLink[];
  /** Attributes of the resource (service.name and friends). */
  readonly resource: OtlpAttributes;
  /** Instrumentation scope's name, empty when not said. */
  readonly scope: string;
}

/** `unreadable` names the field that a span (or the request) got wrong, first one only. */
export type ReadRequest =
  | { readonly ok: true; readonly spans: readonly OtlpSpan[]; readonly rejected: number; readonly unreadable?: string }
  | { readonly ok: false; readonly message: string };

const KINDS = ["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"] as const;
const STATUSES = ["UNSET", "OK", "ERROR"] as const;
/** Nesting of one attribute value; deeper is cut, so that a hostile request cannot exhaust the stack. */
const VALUE_DEPTH_MAX = 16;

type Fields = Readonly<Record<string, unknown>>;

/** Reads an ExportTraceServiceRequest. Spans without valid ids, name or times are counted, the others kept. */
export function readTraceRequest(body: unknown): ReadRequest {
  if (!isFields(body)) return { ok: false, message: "the body is not a JSON object" };
  const groups = body["resourceSpans"] ?? [];
  if (!Array.isArray(groups)) return { ok: false, message: "resourceSpans is not an array" };
  const read = groups.filter(isFields).flatMap(readResourceSpans);
  const spans = read.filter((span) => typeof span !== "string");
  const wrong = read.filter((span) => typeof span === "string");
  const [unreadable] = wrong;
  return { ok: true, spans, rejected: wrong.length, ...(unreadable === undefined ? {} : { unreadable }) };
}

function readResourceSpans(group: Fields): readonly (OtlpSpan | string)[] {
  const resource = readAttributes(fieldsOf(group["resource"])["attributes"]);
  return listOf(group["scopeSpans"]).flatMap((scoped) => {
    const scope = textOf(fieldsOf(scoped["scope"])["name"]);
    return listOf(scoped["spans"]).map((span) => readSpan(span, { resource, scope }));
  });
}

/** A span, or the name of the field that makes it unreadable. */
function readSpan(
  span: Fields,
  { resource, scope }: { readonly resource: OtlpAttributes; readonly scope: string },
): OtlpSpan | string {
  const traceId = textOf(span["traceId"]).toLowerCase();
  const spanId = textOf(span["spanId"]).toLowerCase();
  const parentSpanId = textOf(span["parentSpanId"]).toLowerCase();
  const start = nanosecondsOf(span["startTimeUnixNano"]);
  const end = nanosecondsOf(span["endTimeUnixNano"]);
  if (!/^[0-9a-f]{32}$/.test(traceId)) return "traceId";
  if (!/^[0-9a-f]{16}$/.test(spanId)) return "spanId";
  if (typeof span["name"] !== "string") return "name";
  if (start === undefined) return "startTimeUnixNano";
  if (end === undefined) return "endTimeUnixNano";
  return {
    traceId,
    spanId,
    ...(/^[0-9a-f]{16}$/.test(parentSpanId) && !/^0+$/.test(parentSpanId) ? { parentSpanId } : {}),
    name: span["name"],
    kind: KINDS[enumOf(span["kind"])] ?? "UNSPECIFIED",
    startTimeUnixNano: String(start),
    endTimeUnixNano: String(end),
    durationMs: Number(end - start) / 1e6,
    status: readStatus(fieldsOf(span["status"])),
    attributes: readAttributes(span["attributes"]),
    events: listOf(span["events"]).map((event) => ({
      name: textOf(event["name"]),
      timeUnixNano: String(nanosecondsOf(event["timeUnixNano"]) ?? start),
      attributes: readAttributes(event["attributes"]),
    })),
    links: listOf(span["links"]).map((link) => ({
      traceId: textOf(link["traceId"]).toLowerCase(),
      spanId: textOf(link["spanId"]).toLowerCase(),
      attributes: readAttributes(link["attributes"]),
    })),
    resource,
    scope,
  };
}

function readStatus(status: Fields): OtlpSpan["status"] {
  const message = textOf(status["message"]);
  return { code: STATUSES[enumOf(status["code"])] ?? "UNSET", ...(message === "" ? {} : { message }) };
}

/** `Object.fromEntries` defines keys instead of assigning them, so a key named `__proto__` stays an ordinary one. */
function readAttributes(list: unknown): OtlpAttributes {
  return Object.fromEntries(listOf(list).map((pair) => [textOf(pair["key"]), readValue(pair["value"], 0)]));
}

/** The oneof of AnyValue. An empty AnyValue is a set but empty value, which JSON calls null. */
function readValue(value: unknown, depth: number): OtlpValue {
  const any = fieldsOf(value);
  if (typeof any["stringValue"] === "string") return any["stringValue"];
  if (typeof any["boolValue"] === "boolean") return any["boolValue"];
  if (any["intValue"] !== undefined) return readInteger(any["intValue"]);
  if (any["doubleValue"] !== undefined) return readDouble(any["doubleValue"]);
  if (typeof any["bytesValue"] === "string") return any["bytesValue"];
  if (depth >= VALUE_DEPTH_MAX) return null;
  if (any["arrayValue"] !== undefined) {
    return listOf(fieldsOf(any["arrayValue"])["values"]).map((item) => readValue(item, depth + 1));
  }
  if (any["kvlistValue"] !== undefined) {
    const pairs = listOf(fieldsOf(any["kvlistValue"])["values"]);
    return Object.fromEntries(pairs.map((pair) => [textOf(pair["key"]), readValue(pair["value"], depth + 1)]));
  }
  return null;
}

/** int64 travels as text or number: https://protobuf.dev/programming-guides/json/ */
function readInteger(value: unknown): OtlpValue {
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value !== "string" || !/^-?\d{1,20}$/.test(value)) return null;
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

/** NaN and the infinities travel as text, and JSON has no number for them: they stay text. */
function readDouble(value: unknown): OtlpValue {
  if (typeof value === "number") return value;
  if (typeof value !== "string") return null;
  const number = Number(value);
  return Number.isFinite(number) && value.trim() !== "" ? number : value;
}

/** OTLP/JSON enums are integers only. No `Number(value)`: for the object `{"toString":0}` that throws. */
function enumOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function nanosecondsOf(value: unknown): bigint | undefined {
  if (typeof value === "number" && Number.isInteger(value) && value >= 0) return BigInt(value);
  return typeof value === "string" && /^\d{1,20}$/.test(value) ? BigInt(value) : undefined;
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function fieldsOf(value: unknown): Fields {
  return isFields(value) ? value : {};
}

function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.filter(isFields) : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
