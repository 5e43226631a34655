// Where the OpenTelemetry SDK will send spans, by its own variables, and whether something takes them there.
import type { Environment } from "./config.ts";

export type OtlpTarget =
  | { readonly state: "off"; readonly why: string }
  | {
      readonly state: "asked";
      readonly url: string;
      /** Somebody named the endpoint; otherwise it is the SDK's default. */
      readonly configured: boolean;
      readonly headers: Readonly<Record<string, string>>;
    };

/** OpenTelemetry specification, "OTLP Exporter Configuration": the signal's own variable is the whole address, the general one its base. */
const DEFAULT_ENDPOINT = "http://localhost:4318";

export function otlpTarget(environment: Environment): OtlpTarget {
  const value = (name: string): string | undefined => environment[name]?.trim() || undefined;
  if (value("OTEL_SDK_DISABLED")?.toLowerCase() === "true") return { state: "off", why: "OTEL_SDK_DISABLED" };
  const exporter = value("OTEL_TRACES_EXPORTER");
  if (exporter === "none" || exporter === "console") return { state: "off", why: `OTEL_TRACES_EXPORTER=${exporter}` };
  const own = value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  const base = value("OTEL_EXPORTER_OTLP_ENDPOINT");
  return {
    state: "asked",
    url: own ?? `${(base ?? DEFAULT_ENDPOINT).replace(/\/+$/, "")}/v1/traces`,
    configured: own !== undefined || base !== undefined,
    headers: {
      ...headersOf(value("OTEL_EXPORTER_OTLP_HEADERS")),
      ...headersOf(value("OTEL_EXPORTER_OTLP_TRACES_HEADERS")),
    },
  };
}

/** `key=value,key2=value2`, percent-encoded as in W3C baggage. */
function headersOf(text: string | undefined): Record<string, string> {
  const pairs = (text ?? "").split(",").flatMap((pair): [string, string][] => {
    const at = pair.indexOf("=");
    const name = pair.slice(0, at).trim();
    return at < 1 || name === "" ? [] : [[name, decoded(pair.slice(at + 1).trim())]];
  });
  return Object.fromEntries(pairs);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Sends no spans, in the way spans are sent. @returns the HTTP status */
export async function askOtlp(target: Extract<OtlpTarget, { state: "asked" }>, signal: AbortSignal): Promise<number> {
  const response = await fetch(target.url, {
    method: "POST",
    headers: { ...target.headers, "content-type": "application/json" },
    body: JSON.stringify({ resourceSpans: [] }),
    signal,
  });
  await response.body?.cancel();
  return response.status;
}
