// Preflight of the process: its stop budget, its clock against the others', and where its spans go.
import type { CheckedConfig, CheckLine, Probe } from "./check.ts";
import { STOP_MARGIN_SECONDS, VISIBILITY_WALL_SECONDS } from "./config.ts";

export interface ProcessFacts {
  readonly tracing:
    | { readonly state: "off"; readonly why: string }
    | { readonly state: "asked"; readonly url: string; readonly configured: boolean; readonly answer: Probe<number> };
  /** SQS's clock less ours, to the second, where the endpoint said its date. */
  readonly queueSkewMs: Probe<number>;
}

/** SQS refuses requests signed more than five minutes off (SigV4); long before that, deadlines are wrong. */
const QUEUE_SKEW = { warnedAboveMs: 5_000, failedAboveMs: 300_000 } as const;

export function processLines(facts: ProcessFacts, config: CheckedConfig): readonly CheckLine[] {
  const skew = facts.queueSkewMs;
  return [
    // An endpoint that was not reached has its line already.
    ...(skew.state === "read" ? [skewLine("queue clock", skew.value, QUEUE_SKEW)] : []),
    tracingLine(facts.tracing),
    stopLine(config),
    wallLine(config),
  ];
}

export function skewLine(
  what: string,
  skewMs: number,
  limits: { readonly warnedAboveMs: number; readonly failedAboveMs: number },
): CheckLine {
  const off = Math.abs(skewMs);
  const found = off < 100 ? "together" : `${(off / 1000).toFixed(1)} s ${skewMs > 0 ? "ahead of" : "behind"} this host`;
  const line = { what, found, needed: `less than ${limits.warnedAboveMs / 1000} s apart` };
  const fix = "synchronise the clocks (NTP)";
  if (off > limits.failedAboveMs) return { ...line, verdict: "fail", fix };
  return off > limits.warnedAboveMs ? { ...line, verdict: "warn", fix } : { ...line, verdict: "ok" };
}

/** An address that somebody wrote down and that does not answer is a mistake; the standard one is a guess. */
function tracingLine(tracing: ProcessFacts["tracing"]): CheckLine {
  const what = "traces";
  if (tracing.state === "off")
    return { what, found: `off (${tracing.why})`, needed: "whatever you decide", verdict: "ok" };
  const { url, configured, answer } = tracing;
  const needed = `an OTLP/HTTP receiver at ${url}`;
  const bad = configured ? "fail" : "warn";
  if (answer.state === "unread") {
    const fix = "start the collector, correct OTEL_EXPORTER_OTLP_ENDPOINT, or set OTEL_TRACES_EXPORTER=none";
    return { what, found: answer.error, needed, verdict: bad, fix };
  }
  const found = `status ${answer.value}`;
  if (answer.value >= 200 && answer.value < 300) return { what, found, needed, verdict: "ok" };
  const fix = "check the path and OTEL_EXPORTER_OTLP_HEADERS; spans would be refused";
  return { what, found, needed, verdict: bad, fix };
}

/** Case D02: a drain that cannot end before SIGKILL turns each deploy into redeliveries. */
function stopLine({ drainSeconds, flushSeconds, stopGraceSeconds }: CheckedConfig): CheckLine {
  const neededSeconds = drainSeconds + flushSeconds + STOP_MARGIN_SECONDS;
  const line = {
    what: "stop budget",
    found: `drain ${drainSeconds} s + flush ${flushSeconds} s + margin ${STOP_MARGIN_SECONDS} s = ${neededSeconds} s`,
    needed: `at most the stop grace, ${stopGraceSeconds} s`,
  };
  return neededSeconds <= stopGraceSeconds
    ? { ...line, verdict: "ok" }
    : { ...line, verdict: "fail", fix: "raise the platform's stop grace and its variable here, or lower the drain" };
}

function wallLine({ runDeadlineSeconds, visibilitySeconds }: CheckedConfig): CheckLine {
  const line = {
    what: "run deadline",
    found: `${runDeadlineSeconds} s + visibility ${visibilitySeconds} s`,
    needed: `at most ${VISIBILITY_WALL_SECONDS} s, SQS's twelve hours`,
  };
  return runDeadlineSeconds + visibilitySeconds <= VISIBILITY_WALL_SECONDS
    ? { ...line, verdict: "ok" }
    : { ...line, verdict: "fail", fix: "lower the deadline: a run goes on from its checkpoint" };
}
