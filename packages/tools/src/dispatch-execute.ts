// Executes a claim that was won: body once, outcome judged, settled under the claim's fence, told to the model.
import { ToolMessage } from "@langchain/core/messages";
import { isCommand } from "@langchain/langgraph";
import { diag } from "@opentelemetry/api";
import { isControlFlow } from "@reprise/tracing";
import type { EffectCall } from "./dispatch.ts";
import { type BodyEnd, type BodyResult, type BodyStop, runBody } from "./dispatch-body.ts";
import { bodyArgs, type ToolContext, toolContext } from "./dispatch-call.ts";
import { settle } from "./dispatch-settle.ts";
import type { Settlement, WonDecision } from "./effect.ts";
import { storeResult, toJson } from "./effect-result.ts";
import { FenceLost, RunAborted } from "./errors.ts";
import { createWire, keySentOf, type Wire, type WireEvidence, type WireOptions } from "./fetch.ts";
import { classifyFailure, type Outcome } from "./outcome.ts";
import { ietfProfile, type ProviderProfile, resendDeadlineOf } from "./profiles.ts";
import { doneReply, failedReply, replayReply, unknownReply } from "./reply.ts";

/** How long a body may go on after its signal. With the settlement it fits into the lease's margin. */
const GRACE_MS = 3_000;
const NO_WIRE: WireEvidence = { requests: [], inFlight: 0, dropped: 0 };

export async function executeClaim(call: EffectCall, won: WonDecision): Promise<ToolMessage> {
  const profile = call.spec.profile ?? (call.spec.effect === "keyed" ? ietfProfile : undefined);
  let wire: Wire | undefined;
  const result = await runBody({
    timeoutMs: call.spec.timeoutMs,
    graceMs: GRACE_MS,
    clock: call.clock,
    runSignals: call.runSignals,
    run: (stop) => {
      const subKeys = new Set<string>();
      wire = createWire({ key: () => call.key, subKeys, stop, ...wireOptions(call, profile) });
      return call.spec.run(bodyArgs(call), contextOf(call, { stop, wire, subKeys }), call.config);
    },
  });
  // Dying here leaves the row reserved: the next claim follows the policy (test/dispatch.real.test.ts, crash points).
  const evidence = wire?.evidence() ?? NO_WIRE;
  call.say.wire(evidence, call.spec.effect === "keyed");
  if (call.spec.effect === "keyed" && keySentOf(evidence) === false) {
    call.spec.warnOnce(
      "key_not_sent",
      `it is keyed, and a request of it left without the key (tool.key_sent=false): sent again, it would be another effect to the provider. Send through the context's fetch without a key of your own, or give the SDK \`key\` and switch off the tokens it mints.`,
    );
  }
  if (result.kind === "abandoned") return leaveBehind(call, won, { result, evidence, profile });
  if (result.kind === "threw" && isControlFlow(result.error))
    return pause(call, won, { error: result.error, evidence });
  if (result.kind === "threw") return concludeFailed(call, won, { result, evidence, profile });
  const reply = await recordDone(call, won, { value: result.value, evidence });
  if (result.stoppedBy === "run") throw aborted(call);
  return reply;
}

// Only a keyed call may wait for its own key: under another policy the same status is a refusal, and sending again is ruled out.
function wireOptions(
  call: EffectCall,
  profile: ProviderProfile | undefined,
): Pick<WireOptions, "profile" | "inFlightWait"> {
  if (profile === undefined) return {};
  if (call.spec.effect !== "keyed") return { profile };
  return { profile, inFlightWait: { clock: call.clock, untilMs: call.clock.now() + call.spec.timeoutMs } };
}

interface Concluding<Result> {
  readonly result: Result;
  readonly evidence: WireEvidence;
  readonly profile: ProviderProfile | undefined;
}

async function concludeFailed(
  call: EffectCall,
  won: WonDecision,
  at: Concluding<Extract<BodyEnd, { readonly kind: "threw" }>>,
): Promise<ToolMessage> {
  const { result } = at;
  const outcome = outcomeOf(call, at);
  call.say.ended({ ...outcome, error: result.error });
  // A stopped run proves nothing about its effect. The row stays reserved, for the next delivery to take by its policy.
  if (result.stoppedBy === "run" && outcome.outcome === "unknown") throw aborted(call, result.error);
  const reply = await recordOther(call, won, { outcome, evidence: at.evidence });
  if (result.stoppedBy === "run") throw aborted(call, result.error);
  return reply;
}

/** The body ignores its signal. Its end is still recorded when it comes, as long as nobody has taken the row over. */
async function leaveBehind(
  call: EffectCall,
  won: WonDecision,
  at: Concluding<Extract<BodyResult, { readonly kind: "abandoned" }>>,
): Promise<ToolMessage> {
  const { result } = at;
  void result.later.then((end) =>
    end.kind === "returned"
      ? settle(call.scope.ledger, doneSettlement(call, won, { value: end.value, evidence: at.evidence }), call.clock)
      : undefined,
  );
  if (result.stoppedBy === "run") throw aborted(call);
  const error = new Error(`The tool did not end within ${call.spec.timeoutMs} ms, nor after its signal.`);
  const outcome: Outcome = { outcome: "unknown", reason: "timed_out", detail: error.message };
  call.say.ended({ ...outcome, error });
  return recordOther(call, won, { outcome, evidence: at.evidence });
}

/**
 * An interrupt inside the body: LangGraph runs the body again from its start when the answer comes. Nothing may have been done
 * before it, and where our fetch shows that nothing was, the claim is withdrawn; else the row stays for its policy.
 */
async function pause(
  call: EffectCall,
  won: WonDecision,
  at: { readonly error: unknown; readonly evidence: WireEvidence },
): Promise<never> {
  const wrote =
    at.evidence.inFlight > 0 || at.evidence.requests.some((request) => !request.read && request.end !== "not_sent");
  if (!wrote) await call.scope.ledger.release({ key: call.key, fence: won.fence });
  else warnOfLateAnswer(call, won);
  throw at.error;
}

// The key has been used, so its retention runs while a person thinks.
function warnOfLateAnswer({ spec, evidence }: EffectCall, won: WonDecision): void {
  const deadline = resendDeadlineOf(spec.effect, spec.profile, won.firstClaimAtMs);
  const what = `tool ${spec.name}: call ${evidence.id} on thread ${evidence.threadId} waits for a person after it had sent a request`;
  if (deadline === "never") {
    diag.warn(`${what}, and nothing allows sending it again: whatever the answer, it ends unknown.`);
    return;
  }
  const until = new Date(deadline).toISOString();
  diag.warn(
    `${what}: with an answer after ${until}, past the provider's retention, it is not sent again and ends unknown.`,
  );
}

function outcomeOf(call: EffectCall, at: Concluding<Extract<BodyEnd, { readonly kind: "threw" }>>): Outcome {
  const end = at.result;
  return classifyFailure({
    error: end.error,
    policy: call.spec.effect,
    wire: at.evidence,
    ...(end.stoppedBy === undefined ? {} : { stoppedBy: end.stoppedBy }),
    ...(at.profile === undefined ? {} : { profile: at.profile }),
  });
}

interface DoneValue {
  readonly value: unknown;
  readonly evidence: WireEvidence;
}

async function recordDone(call: EffectCall, won: WonDecision, done: DoneValue): Promise<ToolMessage> {
  if (isCommand(done.value)) {
    call.spec.warnOnce(
      "command_refused",
      "it returned a Command, which only a tool without effects may: a replay cannot repeat what a Command does to the graph. Return a value, and route in the graph.",
    );
  }
  const settlement = doneSettlement(call, won, done);
  const answer = await settle(call.scope.ledger, settlement, call.clock);
  if (answer !== "unrecorded" && !answer.recorded) return afterLosing(call);
  const { result, effectRef } = settlement;
  const named = effectRef === undefined ? {} : { effectRef };
  call.say.done({ replayed: false, ...named, ...(result.kind === "value" ? { json: result.json } : {}) });
  // A large result is too large for the ledger only: this reply, the first, still carries it whole.
  return doneReply(call.replyTo, result.json ?? toJson(plainValue(done.value)));
}

function doneSettlement(
  call: EffectCall,
  won: WonDecision,
  done: DoneValue,
): Extract<Settlement, { readonly outcome: "done" }> {
  const value = plainValue(done.value);
  const effectRef = effectRefOf(call, value);
  return {
    key: call.key,
    fence: won.fence,
    outcome: "done",
    result: storeResult(value),
    ...(effectRef === undefined ? {} : { effectRef }),
    ...providerRequestId(done.evidence),
  };
}

async function recordOther(
  call: EffectCall,
  won: WonDecision,
  at: { readonly outcome: Outcome; readonly evidence: WireEvidence },
): Promise<ToolMessage> {
  const { outcome, detail } = at.outcome;
  const settlement: Settlement = {
    key: call.key,
    fence: won.fence,
    outcome,
    detail,
    ...providerRequestId(at.evidence),
  };
  const answer = await settle(call.scope.ledger, settlement, call.clock);
  if (answer !== "unrecorded" && !answer.recorded) return afterLosing(call);
  return outcome === "failed" ? failedReply(call.replyTo, detail) : unknownReply(call.replyTo, detail);
}

/** Another execution took the row over while this one ran. Its word counts; ours is kept as proof. */
export async function afterLosing(call: EffectCall): Promise<ToolMessage> {
  if (call.scope.threadFence !== undefined)
    throw new FenceLost(call.evidence.threadId, "another holder settled its effect");
  const row = await call.scope.ledger.find(call.key);
  if (row?.state === "done" && row.result !== undefined) return replayReply(call.replyTo, row.result, row.effectRef);
  if (row?.state === "failed") return failedReply(call.replyTo, row.detail ?? "The call failed.");
  return unknownReply(call.replyTo, "Two executions of this call overlapped and the other one has not ended.");
}

interface BodyParts {
  readonly stop: BodyStop;
  readonly wire: Wire;
  readonly subKeys: Set<string>;
}

function contextOf(call: EffectCall, { stop, wire, subKeys }: BodyParts): ToolContext {
  return toolContext({
    key: () => call.key,
    subKeys,
    stop,
    fetch: wire.fetch,
    threadId: call.evidence.threadId,
    toolCallId: call.evidence.id,
    nodeAttempt: call.nodeAttempt,
  });
}

// The effect happened: a value of the wrong kind is replaced, never thrown at.
function plainValue(value: unknown): unknown {
  if (ToolMessage.isInstance(value)) return value.content;
  if (isCommand(value)) return { note: "Done. This tool has effects, so the Command it returned was refused." };
  return typeof value === "bigint" ? value.toString() : value;
}

function effectRefOf(call: EffectCall, value: unknown): string | undefined {
  try {
    return call.spec.effectRef?.(value);
  } catch {
    // A faulty accessor must not turn an effect that happened into a failure.
    return undefined;
  }
}

function providerRequestId(evidence: WireEvidence): { providerRequestId?: string } {
  const last = evidence.requests.findLast((request) => !request.read && request.end === "answered");
  return last?.end === "answered" && last.requestId !== undefined ? { providerRequestId: last.requestId } : {};
}

function aborted(call: EffectCall, cause?: unknown): RunAborted {
  return new RunAborted(call.evidence.threadId, call.spec.name, cause === undefined ? {} : { cause });
}
