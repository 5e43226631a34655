// The sampler in front of the tail sampler: everything is recorded, because the verdict comes later.

import { type Context, isSpanContextValid, TraceFlags, trace } from "@opentelemetry/api";
import { type Sampler, SamplingDecision, type SamplingResult } from "@opentelemetry/sdk-trace-base";

/**
 * Never below RECORD: under the stock parent-based sampler an unsampled remote parent gives a span that no processor ever
 * sees (facts/tracing section 0.2). What is passed on to called services stays the sender's choice: a sampled parent and a
 * new trace are sampled, an unsampled parent stays unsampled on the wire while we record. The tail sampler sets the flag on what it exports.
 */
export class KeepRecordingSampler implements Sampler {
  shouldSample(parent: Context): SamplingResult {
    const parentContext = trace.getSpanContext(parent);
    if (parentContext === undefined || !isSpanContextValid(parentContext)) {
      return { decision: SamplingDecision.RECORD_AND_SAMPLED };
    }
    const sampled = (parentContext.traceFlags & TraceFlags.SAMPLED) !== 0;
    const decision = sampled ? SamplingDecision.RECORD_AND_SAMPLED : SamplingDecision.RECORD;
    return parentContext.traceState === undefined ? { decision } : { decision, traceState: parentContext.traceState };
  }

  toString(): string {
    return "KeepRecordingSampler";
  }
}
