// OTLP spans for tests that read, keep or print them: one trace, times in milliseconds from its begin.
import type { OtlpSpan } from "../src/otlp-span.ts";

export const TRACE = "4f9c1d2e000000000000000000000001";

/** A span that starts and lasts so many milliseconds after the trace's begin. */
export const span = (id: number, from: number, lasts: number, more: Partial<OtlpSpan> = {}): OtlpSpan => ({
  traceId: TRACE,
  spanId: id.toString(16).padStart(16, "0"),
  name: `span ${id}`,
  kind: "INTERNAL",
  startTimeUnixNano: String(1_700_000_000_000_000_000n + BigInt(Math.round(from * 1e6))),
  endTimeUnixNano: String(1_700_000_000_000_000_000n + BigInt(Math.round((from + lasts) * 1e6))),
  durationMs: lasts,
  status: { code: "UNSET" },
  attributes: {},
  events: [],
  links: [],
  resource: {},
  scope: "",
  ...more,
});
