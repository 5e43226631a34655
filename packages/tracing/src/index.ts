// What @reprise/tracing offers, in the order a run meets it.

export {
  type ExtractedTrace,
  extractTrace,
  injectTrace,
  type MessageAttribute,
  type TraceAttribute,
} from "./carrier.ts";
export { ExportFailedError, OptionInvalidError, TracingError, type TracingErrorCode } from "./errors.ts";
export { FILTER_DEPTH_MAX, FILTER_LENGTH_MAX, type ParsedFilter, parseFilter } from "./filter.ts";
export { createGate, type Gate, type GatedError, type GatedValue, type GateOptions } from "./gate.ts";
export { ATTR, EVENT, type SamplingReason, SPAN } from "./names.ts";
export { PRODUCT } from "./product.ts";
export { definedAttributes, isControlFlow, recordError, SCOPE, type SpanOptions, tracer, withSpan } from "./span.ts";
