// What an error of a tool's body proves: that nothing happened (failed), or nothing at all (unknown). Pure.
import type { EffectPolicy } from "./effect.ts";
import { EffectFailed, EffectUnknown, messageOf } from "./errors.ts";
import type { WireEvidence, WireRequest } from "./fetch.ts";
import type { ProviderProfile } from "./profiles.ts";

/** Why the outcome is what it is; a stable word for spans and tests. */
export type OutcomeReason =
  | "tool_said_failed"
  | "tool_said_unknown"
  | "no_effect"
  | "nothing_sent"
  | "refused"
  | "rate_limited"
  | "too_early"
  | "server_error_final"
  | "timed_out"
  | "aborted"
  | "no_answer"
  | "no_evidence"
  | "answered_then_threw"
  | "request_timeout"
  | "in_flight"
  | "server_error"
  | "odd_status";

export interface Outcome {
  readonly outcome: "failed" | "unknown";
  readonly reason: OutcomeReason;
  readonly detail: string;
}

export interface FailureEvidence {
  readonly error: unknown;
  readonly policy: EffectPolicy;
  readonly wire: WireEvidence;
  /** Whose signal fired before the body ended, if any. */
  readonly stoppedBy?: "timeout" | "run";
  readonly profile?: ProviderProfile;
}

export function classifyFailure(evidence: FailureEvidence): Outcome {
  const { error, policy } = evidence;
  const detail = messageOf(error);
  if (error instanceof EffectFailed) return { outcome: "failed", reason: "tool_said_failed", detail };
  if (error instanceof EffectUnknown) return { outcome: "unknown", reason: "tool_said_unknown", detail };
  // A read has no effect that could have happened: whatever went wrong, nothing changed outside.
  if (policy === "none") return { outcome: "failed", reason: "no_effect", detail };
  return { ...judgeWire(evidence), detail };
}

type Judgement = Pick<Outcome, "outcome" | "reason">;

const unknown = (reason: OutcomeReason): Judgement => ({ outcome: "unknown", reason });
const failed = (reason: OutcomeReason): Judgement => ({ outcome: "failed", reason });

/** The worst request decides: one write that may have landed outweighs any number that were refused. */
function judgeWire(evidence: FailureEvidence): Judgement {
  const { wire, stoppedBy } = evidence;
  const stopped = stoppedBy === "timeout" ? unknown("timed_out") : unknown("aborted");
  // Nothing went through our fetch: the tool may have used a client of its own, so nothing is proven either way.
  if (wire.requests.length === 0) return stoppedBy === undefined ? unknown("no_evidence") : stopped;
  if (wire.inFlight > 0 || wire.dropped > 0) return stoppedBy === undefined ? unknown("no_answer") : stopped;
  const judgements = wire.requests.filter(counts).map((request) => judge(request, evidence));
  const worst = judgements.find((judgement) => judgement.outcome === "unknown");
  if (worst !== undefined) return worst.reason === "no_answer" && stoppedBy !== undefined ? stopped : worst;
  return judgements.at(-1) ?? failed("nothing_sent");
}

function counts(request: WireRequest): boolean {
  return !request.read && !(request.end === "answered" && request.overtaken === true);
}

function judge(request: WireRequest, { policy, profile }: FailureEvidence): Judgement {
  if (request.end === "not_sent") return failed("nothing_sent");
  if (request.end === "no_answer") return unknown("no_answer");
  const { status } = request;
  // The provider took it, and the tool stumbled afterwards: the effect most likely stands.
  if (status >= 200 && status < 300) return unknown("answered_then_threw");
  if (policy === "keyed" && status === inFlightStatus(profile)) return unknown("in_flight");
  // Servers and proxies also give 408 after having passed a request on.
  if (status === 408) return unknown("request_timeout");
  if (status === 425) return failed("too_early");
  if (status === 429) return failed("rate_limited");
  if (status >= 400 && status < 500) return failed("refused");
  if (status >= 500) return profile?.serverErrors === "final" ? failed("server_error_final") : unknown("server_error");
  return unknown("odd_status");
}

// With a key on the wire a 409 may be our own earlier request, still running, also where the provider does not say how it tells
// so; without a key it is a plain refusal.
function inFlightStatus(profile: ProviderProfile | undefined): number {
  return profile?.inFlightStatus ?? 409;
}
