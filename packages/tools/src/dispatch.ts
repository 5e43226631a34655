// Step 4 of 5 - tool: one call in, one reply out. Key, barrier, claim, then execute, replay, reconcile, wait or say unknown.
import { randomUUID } from "node:crypto";
import type { ToolMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import { ATTR, SPAN, withSpan } from "@reprise/tracing";
import { type Clock, systemClock } from "./dispatch-body.ts";
import type { ToolSpec } from "./dispatch-call.ts";
import { claimOrWait, type FinalDecision } from "./dispatch-claim.ts";
import { markEcho } from "./dispatch-echo.ts";
import { executeClaim } from "./dispatch-execute.ts";
import { dispatchRead } from "./dispatch-read.ts";
import { reconcileClaim, reviewUnknown } from "./dispatch-reconcile.ts";
import { type ToolSpan, toolSpan } from "./dispatch-span.ts";
import type { EffectClaim, RecordedPolicy } from "./effect.ts";
import { CallRefused, FenceLost, messageOf, RunAborted } from "./errors.ts";
import { deriveKey, fingerprintArgs } from "./key.ts";
import { type CallEvidence, passBarrier } from "./langgraph/barrier.ts";
import { type EffectScope, effectScope } from "./langgraph/scope.ts";
import { failedReply, type ReplyTo, replayReply, unknownReply } from "./reply.ts";

export interface ToolCallRequest {
  readonly id: string | undefined;
  /** As the model gave them. */
  readonly args: unknown;
  /** As the schema made them. */
  readonly parsed: unknown;
}

export interface DispatchRequest {
  readonly spec: ToolSpec;
  readonly call: ToolCallRequest;
  readonly config: RunnableConfig;
  readonly clock: Clock;
  readonly nodeAttempt: number;
  /** The graph's own signal and the scope's. */
  readonly runSignals: readonly AbortSignal[];
}

/** An effectful call that has passed the barrier, with everything its execution needs. */
export interface EffectCall extends DispatchRequest {
  readonly scope: EffectScope;
  readonly evidence: CallEvidence;
  readonly key: string;
  readonly say: ToolSpan;
  readonly replyTo: ReplyTo;
}

/** Others wait for a holder as long as its tool may take plus this: the body's grace and the settlement fit in. */
const LEASE_MARGIN_MS = 5_000;
const POLL_MS = 250;

/**
 * Never rejects for the tool's own failure: that is a reply. Rejects with CallRefused when the call cannot have a stable key,
 * with FenceLost or RunAborted when the run has to stop, and with whatever the ledger's store throws before the body ran.
 */
export function dispatch(
  request: Omit<DispatchRequest, "clock" | "nodeAttempt" | "runSignals"> & { readonly clock?: Clock },
): Promise<unknown> {
  const { spec, call, config } = request;
  const full: DispatchRequest = {
    spec,
    call,
    config,
    clock: request.clock ?? systemClock,
    nodeAttempt: nodeAttemptOf(config),
    runSignals: [config.signal, effectScope(config)?.signal].filter((signal) => signal !== undefined),
  };
  const attributes = {
    [ATTR.toolName]: spec.name,
    [ATTR.toolCallId]: call.id,
    [ATTR.toolPolicy]: spec.effect,
    [ATTR.nodeAttempt]: full.nodeAttempt,
  };
  return withSpan(SPAN.tool(spec.name), { attributes }, (span) => {
    const say = toolSpan(span, effectScope(config)?.gate);
    say.args(call.args);
    return spec.effect === "none" ? dispatchRead(full, say) : dispatchEffect(full, spec.effect, say);
  });
}

async function dispatchEffect(request: DispatchRequest, policy: RecordedPolicy, say: ToolSpan): Promise<ToolMessage> {
  const { spec, call, config } = request;
  const scope = requireScope(request);
  const waitMs = scope.barrierWaitMs;
  const evidence = await passBarrier(config, { id: call.id, tool: spec.name }, waitMs === undefined ? {} : { waitMs });
  say.callRef(evidence.source);
  const effectCall = effectCallOf(request, { scope, evidence, say });
  if (evidence.cut) {
    say.ended({ outcome: "failed", reason: "call_cut" });
    return failedReply(
      effectCall.replyTo,
      "The model's output ended inside this call, so its arguments are not whole. Nothing was done.",
    );
  }
  const check = (): void => assertLive(effectCall);
  const waitMaxMs = spec.timeoutMs + 2 * LEASE_MARGIN_MS;
  const claim = claimOf(effectCall, policy);
  const options = { clock: request.clock, waitMaxMs, pollMs: POLL_MS, check };
  const decision = await claimOrWait(scope.ledger, claim, options);
  say.decided(decision.kind, "seen" in decision ? decision.seen : undefined);
  // Only a key that nobody has seen before can be a call that repeats another. Looked up beside the body, which does not wait for it.
  const marking = decision.kind === "execute" ? markEcho(effectCall, claim) : undefined;
  try {
    return await follow(effectCall, decision);
  } finally {
    // Before the span ends: later attributes are lost.
    if (marking !== undefined) await marking;
  }
}

function follow(call: EffectCall, decision: FinalDecision): Promise<ToolMessage> | ToolMessage {
  const { say, replyTo } = call;
  switch (decision.kind) {
    case "execute":
    case "resend":
      assertLive(call);
      return executeClaim(call, decision);
    case "reconcile":
      assertLive(call);
      return reconcileClaim(call, decision);
    case "replay": {
      const { result, effectRef } = decision;
      const named = effectRef === undefined ? {} : { effectRef };
      say.done({ replayed: true, ...named, ...(result.kind === "value" ? { json: result.json } : {}) });
      return replayReply(replyTo, result, effectRef);
    }
    case "replay_failure":
      say.ended({ outcome: "failed", reason: "replayed_failure" });
      return failedReply(replyTo, decision.detail);
    case "unknown":
      return reviewUnknown(call, decision);
    case "still_running":
      say.ended({ outcome: "unknown", reason: "still_running" });
      return unknownReply(replyTo, `Another execution of this call, on ${decision.holder}, has not ended.`);
    case "mismatch":
      say.ended({ outcome: "failed", reason: `mismatch_${decision.differs}` });
      return failedReply(replyTo, mismatchDetail(decision.differs));
    case "fenced":
      throw new FenceLost(call.evidence.threadId, "the ledger refused the claim of an older fence");
    default:
      return decision satisfies never;
  }
}

function mismatchDetail(differs: "owner" | "arguments"): string {
  return differs === "arguments"
    ? "This call was begun with other arguments, so the changed call was not run. Changed arguments need a call of their own."
    : "The id of this call belongs to an earlier, different call on this thread, so this call was not run.";
}

function requireScope({ spec, config }: DispatchRequest): EffectScope {
  const scope = effectScope(config);
  if (scope !== undefined) return scope;
  throw new CallRefused(
    "NO_EFFECT_SCOPE",
    `Tool ${spec.name} has effects and its run lends it no ledger. Invoke the graph with withEffects({ ledger, ... }, config).`,
  );
}

function effectCallOf(
  request: DispatchRequest,
  { scope, evidence, say }: Pick<EffectCall, "scope" | "evidence" | "say">,
): EffectCall {
  const { spec, call, config, clock, nodeAttempt, runSignals } = request;
  const replyTo: ReplyTo = {
    toolCallId: evidence.id,
    tool: spec.name,
    ...(spec.statusTool === undefined ? {} : { statusTool: spec.statusTool }),
    ...(spec.message === undefined ? {} : { text: spec.message }),
  };
  // By name: an object of so many fields takes ten times as long to make by spreading another.
  return {
    spec,
    call,
    config,
    clock,
    nodeAttempt,
    runSignals,
    scope,
    evidence,
    say,
    replyTo,
    key: deriveKey(evidence.threadId, evidence.id, scope.forkId),
  };
}

function claimOf(call: EffectCall, policy: RecordedPolicy): EffectClaim {
  const { scope, evidence, spec } = call;
  const { id, threadId, assistantMessageId, position } = evidence;
  const retention = spec.profile?.retentionMs;
  return {
    key: call.key,
    owner: {
      threadId,
      toolCallId: id,
      tool: spec.name,
      ...(assistantMessageId === undefined ? {} : { assistantMessageId }),
      ...(position === undefined ? {} : { position }),
    },
    argsFingerprint: fingerprintArgs(evidence.args),
    ...identityOf(call),
    policy,
    ...(typeof retention === "number" ? { retentionMs: retention } : {}),
    leaseMs: spec.timeoutMs + LEASE_MARGIN_MS,
    nonce: randomUUID(),
    holder: scope.holder,
    execution: {
      runId: scope.runId,
      deliveryId: scope.deliveryId,
      nodeAttempt: call.nodeAttempt,
      ...(scope.receiveCount === undefined ? {} : { receiveCount: scope.receiveCount }),
      ...(scope.threadFence === undefined ? {} : { threadFence: scope.threadFence }),
      ...(scope.threadId === undefined ? {} : { fencedThreadId: scope.threadId }),
    },
  };
}

function identityOf({ spec, call }: EffectCall): { identityFingerprint?: string } {
  if (spec.identity === undefined) return {};
  try {
    return { identityFingerprint: fingerprintArgs(spec.identity(call.parsed)) };
  } catch (error) {
    // Evidence for people; it must not cost the call.
    spec.warnOnce("faulty_identity", `its identity threw, so all its arguments count: ${messageOf(error)}`);
    return {};
  }
}

/** Asked right before each effect: after it, only the provider can still stop a holder that lost its thread. */
function assertLive(call: EffectCall): void {
  const { threadId } = call.evidence;
  if (call.runSignals.some((signal) => signal.aborted)) throw new RunAborted(threadId, call.spec.name);
  if (call.scope.isLeaseLive?.() === false) throw new FenceLost(threadId, "the lease ran out before the effect");
}

// LangGraph puts it beside the configurable; a tool that was called by hand inside a node may not see it.
function nodeAttemptOf(config: RunnableConfig): number {
  const info: unknown = "executionInfo" in config ? config.executionInfo : undefined;
  if (typeof info !== "object" || info === null || !("nodeAttempt" in info)) return 1;
  return typeof info.nodeAttempt === "number" ? info.nodeAttempt : 1;
}
