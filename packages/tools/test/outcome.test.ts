// What errors prove: failed only where nothing can have happened.

import { describe, expect, it } from "vitest";
import { EffectFailed, EffectUnknown } from "../src/errors.ts";
import type { WireEvidence, WireRequest } from "../src/fetch.ts";
import { classifyFailure, type FailureEvidence } from "../src/outcome.ts";
import { stripeProfile } from "../src/profiles.ts";

const wire = (...requests: readonly WireRequest[]): WireEvidence => ({ requests, inFlight: 0, dropped: 0 });
const answered = (status: number, read = false): WireRequest => ({
  end: "answered",
  status,
  read,
  keySent: true,
  requestId: undefined,
});
const notSent: WireRequest = { end: "not_sent", code: "ECONNREFUSED", read: false, keySent: false };
const noAnswer: WireRequest = { end: "no_answer", code: "ECONNRESET", read: false, keySent: true };
const { inFlightStatus: _unsaid, ...silent } = stripeProfile;
const judge = (changes: Partial<FailureEvidence>) => {
  const { outcome, reason } = classifyFailure({ error: new Error("boom"), policy: "keyed", wire: wire(), ...changes });
  return `${outcome} ${reason}`;
};

describe("classifyFailure", () => {
  it.each([
    ["nothing was sent: DNS or ECONNREFUSED", { wire: wire(notSent) }, "failed nothing_sent"],
    ["402, a definite decline (G02)", { wire: wire(answered(402)) }, "failed refused"],
    ["404 on a read and no write", { wire: wire(answered(404, true)) }, "failed nothing_sent"],
    ["429: refused before any work", { wire: wire(answered(429)) }, "failed rate_limited"],
    ["425: refused before any work", { wire: wire(answered(425)) }, "failed too_early"],
    ["408: it may have been passed on", { wire: wire(answered(408)) }, "unknown request_timeout"],
    ["409 with a key: our own request may be running", { wire: wire(answered(409)) }, "unknown in_flight"],
    [
      "409 with a key, from a provider that does not say how it tells so",
      { wire: wire(answered(409)), profile: silent },
      "unknown in_flight",
    ],
    [
      "another status that the profile gives to a running request",
      { wire: wire(answered(425)), profile: { ...stripeProfile, inFlightStatus: 425 } },
      "unknown in_flight",
    ],
    ["409 without a key: a plain refusal", { policy: "once", wire: wire(answered(409)) }, "failed refused"],
    [
      "500, not final by the profile (G09)",
      { wire: wire(answered(500)), profile: stripeProfile },
      "unknown server_error",
    ],
    [
      "500, final by the profile (G09)",
      { wire: wire(answered(500)), profile: { ...stripeProfile, serverErrors: "final" } },
      "failed server_error_final",
    ],
    ["a reset after the write", { wire: wire(noAnswer) }, "unknown no_answer"],
    ["a timeout after the write (B11)", { wire: wire(noAnswer), stoppedBy: "timeout" }, "unknown timed_out"],
    ["an abort of the run", { stoppedBy: "run" }, "unknown aborted"],
    ["a success and then a throw", { wire: wire(answered(201)) }, "unknown answered_then_threw"],
    ["one refused and one lost", { wire: wire(noAnswer, answered(402)) }, "unknown no_answer"],
    ["one lost, one refused connection after it", { wire: wire(noAnswer, notSent) }, "unknown no_answer"],
    ["an odd redirect", { wire: wire(answered(302)) }, "unknown odd_status"],
    ["no request through our fetch", {}, "unknown no_evidence"],
    [
      "a request still in flight",
      { wire: { requests: [answered(402)], inFlight: 1, dropped: 0 } },
      "unknown no_answer",
    ],
    [
      "more requests than were kept",
      { wire: { requests: [answered(402)], inFlight: 0, dropped: 1 } },
      "unknown no_answer",
    ],
    [
      "the tool's own proof",
      { error: new EffectFailed("no such customer"), wire: wire(noAnswer) },
      "failed tool_said_failed",
    ],
    ["the tool's own doubt", { error: new EffectUnknown("odd"), wire: wire(notSent) }, "unknown tool_said_unknown"],
    ["a read that timed out", { policy: "none", stoppedBy: "timeout" }, "failed no_effect"],
  ] satisfies readonly (readonly [string, Partial<FailureEvidence>, string])[])("%s", (_name, evidence, expected) => {
    expect(judge(evidence)).toBe(expected);
  });
});
