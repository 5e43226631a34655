// What @reprise/tracing offers, in the order a run meets it.

export {
  type ExtractedTrace,
  extractTrace,
  injectTrace,
  type MessageAttribute,
  type TraceAttribute,
} from "./carrier.ts";
export { ExportFailedError, OptionInvalidError, TracingError, type TracingErrorCode } from "./errors.ts";
// reading
export { FILTER_DEPTH_MAX, FILTER_LENGTH_MAX, type ParsedFilter, parseFilter } from "./filter.ts";
// the way out
export { createGate, type Gate, type GatedError, type GatedValue, type GateOptions } from "./gate.ts";
// set-up
export { registerLoader } from "./loader.ts";
export { type ObservedTail, observeTail } from "./metrics.ts";
export { ATTR, EVENT, METRIC, type SamplingReason, SPAN } from "./names.ts";
export { type LostCheckpoint, type LostDelivery, type OpenExecution, obituarySpans } from "./obituary.ts";
// spans as OTLP carries them: read, put in order, printed
export { readSpans } from "./otlp-line.ts";
export { renderResiduals, tellingResiduals } from "./otlp-residual.ts";
export {
  type OtlpAttributes,
  type OtlpEvent,
  type OtlpLink,
  type OtlpSpan,
  type OtlpSpanKind,
  type OtlpValue,
  type ReadRequest,
  readTraceRequest,
} from "./otlp-span.ts";
export { type OtlpTrace, traceOf } from "./otlp-trace.ts";
export { type RenderOptions, renderTrace, residualMs, showDuration } from "./otlp-tree.ts";
export { PRODUCT } from "./product.ts";
// time that no child covers
export {
  type ConfiguredConstant,
  constantsMatching,
  type Interval,
  type IntervalPosition,
  type Residual,
  type ResidualOptions,
  type ResidualSpan,
  residuals,
  type UncoveredInterval,
  uncovered,
} from "./residual.ts";
export type { IntervalKind } from "./residual-kind.ts";
// verdicts
export { KeepRecordingSampler } from "./sampler.ts";
export { startTracing, type Tracing, type TracingOptions } from "./setup.ts";
// spans
export { definedAttributes, isControlFlow, recordError, SCOPE, type SpanOptions, tracer, withSpan } from "./span.ts";
export { withoutSpans } from "./span-quiet.ts";
export type { TailPolicy, TailVerdict } from "./tail-decision.ts";
export { TailSamplingProcessor } from "./tail-sampler.ts";
export type { DecisionListener, TailClock, TailOptions } from "./tail-sampler-options.ts";
export type { CapKind, DropCause, TailStats } from "./tail-sampler-stats.ts";
