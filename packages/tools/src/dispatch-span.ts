// What a tool's span says: arguments and result through the gate, the decision, the outcome. Never the key: it is recomputable.
import { type AttributeValue, type Span, SpanStatusCode } from "@opentelemetry/api";
import { ATTR, createGate, type Gate } from "@reprise/tracing";
import type { Echo } from "./effect.ts";
import { keySentOf, type WireEvidence } from "./fetch.ts";

const defaultGate = createGate();

export interface ToolSpan {
  args(args: unknown): void;
  /** How the ledger decided, and how often the key has been seen. */
  decided(decision: string, seen?: number): void;
  /** An earlier call that this one repeats. */
  echo(echo: Echo): void;
  wire(evidence: WireEvidence, keyExpected: boolean): void;
  done(end: { readonly json?: string; readonly effectRef?: string; readonly replayed: boolean }): void;
  /** The body, or what stood before it, did not end well. An error that was thrown is recorded, cleaned. */
  ended(end: { readonly outcome: "failed" | "unknown"; readonly reason: string; readonly error?: unknown }): void;
  callRef(source: string): void;
}

/** The gate is the run's own, from its scope: what it holds back never gets onto a span that somebody else exports. */
export function toolSpan(span: Span, gate: Gate = defaultGate): ToolSpan {
  // One at a time: a few to a call, and an object for each few would be made, copied and thrown away.
  const set = (name: string, value: AttributeValue | undefined): void => {
    if (value !== undefined) span.setAttribute(name, value);
  };
  return {
    args(args) {
      const gated = gate.value(args);
      set(ATTR.toolArgs, gated.text);
      set(ATTR.toolArgsBytes, gated.bytes);
    },
    callRef: (source) => set(ATTR.toolCallRefSource, source),
    decided(decision, seen) {
      set(ATTR.toolDecision, decision);
      set(ATTR.toolEffectSeen, seen);
    },
    // Not `tool.echo_of`: the sampler keeps every trace with an echo, and an equal call after a success is mostly a second wish.
    echo: ({ toolCallId, after }) =>
      set(after === "unknown" ? ATTR.toolEchoOf : ATTR.toolRepeatAfterSuccess, toolCallId),
    wire(evidence, keyExpected) {
      const made = evidence.requests.length + evidence.dropped + evidence.inFlight;
      set(ATTR.toolHttpRequests, made);
      // Said only where a key was due and something was sent: false is then worth a look at the tool.
      set(ATTR.toolKeySent, keyExpected ? keySentOf(evidence) : undefined);
    },
    done({ json, effectRef, replayed }) {
      set(ATTR.toolOutcome, "done");
      set(ATTR.toolReplayed, replayed);
      set(ATTR.toolEffectRef, effectRef);
      if (json === undefined) return;
      const gated = gate.value(JSON.parse(json));
      set(ATTR.toolResult, gated.text);
      set(ATTR.toolResultBytes, gated.bytes);
    },
    ended({ outcome, reason, error }) {
      set(ATTR.toolOutcome, outcome);
      set(ATTR.toolErrorCode, reason);
      if (error === undefined) return;
      set(ATTR.toolAttemptFailed, true);
      recordGated(span, gate.error(error));
    },
  };
}

// `recordError` of @reprise/tracing knows no gate but its own, and an error's message may repeat what the model wrote.
function recordGated(span: Span, cleaned: ReturnType<Gate["error"]>): void {
  span.setAttribute(ATTR.errorType, cleaned.name);
  span.recordException(cleaned);
  span.setStatus({ code: SpanStatusCode.ERROR, message: cleaned.message });
}
