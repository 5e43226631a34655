// Finds out what became of an execution whose holder is gone, through the tool's own lookup. Sends nothing again.
import type { ToolMessage } from "@langchain/core/messages";
import type { EffectCall } from "./dispatch.ts";
import { type BodyStop, runBody } from "./dispatch-body.ts";
import { type Lookup, type LookupResult, toolContext } from "./dispatch-call.ts";
import { afterLosing } from "./dispatch-execute.ts";
import { settle } from "./dispatch-settle.ts";
import type { ClaimDecision, Fence, Settlement, WonDecision } from "./effect.ts";
import { storeResult } from "./effect-result.ts";
import { messageOf, RunAborted } from "./errors.ts";
import { createWire } from "./fetch.ts";
import { replayReply, unknownReply } from "./reply.ts";

export async function reconcileClaim(call: EffectCall, won: WonDecision): Promise<ToolMessage> {
  return record(call, won.fence, await lookUp(call, won.firstClaimAtMs));
}

/** A call that is on record as unknown: looked up once more where it can be, since that sends nothing (Q19). */
export async function reviewUnknown(
  call: EffectCall,
  known: Extract<ClaimDecision, { readonly kind: "unknown" }>,
): Promise<ToolMessage> {
  const row = call.spec.lookup === undefined ? undefined : await call.scope.ledger.find(call.key);
  if (row !== undefined) {
    const found = await lookUp(call, known.firstClaimAtMs);
    if (found.status === "found") return record(call, row.fence, found);
  }
  call.say.ended({ outcome: "unknown", reason: "recorded_unknown" });
  return unknownReply(call.replyTo, known.detail);
}

async function record(call: EffectCall, fence: Fence, found: LookupResult): Promise<ToolMessage> {
  const settlement = settlementOf(found, { key: call.key, fence });
  const answer = await settle(call.scope.ledger, settlement, call.clock);
  if (answer !== "unrecorded" && !answer.recorded) return afterLosing(call);
  if (settlement.outcome === "done") {
    const { result, effectRef } = settlement;
    const named = effectRef === undefined ? {} : { effectRef };
    call.say.done({ replayed: true, ...named, ...(result.kind === "value" ? { json: result.json } : {}) });
    return replayReply(call.replyTo, result, effectRef);
  }
  call.say.ended({ outcome: "unknown", reason: `lookup_${found.status}` });
  return unknownReply(call.replyTo, settlement.detail);
}

async function lookUp(call: EffectCall, firstClaimAtMs: number): Promise<LookupResult> {
  const { lookup } = call.spec;
  if (lookup === undefined) return { status: "unclear", detail: "The tool no longer has a lookup." };
  const result = await runBody({
    timeoutMs: call.spec.timeoutMs,
    graceMs: 0,
    clock: call.clock,
    runSignals: call.runSignals,
    run: (stop) => lookup(lookupContext({ key: call.key, stop, firstClaimAtMs })),
  });
  if (result.stoppedBy === "run") throw new RunAborted(call.evidence.threadId, call.spec.name);
  // runBody passes on what the lookup returned, whose type is LookupResult.
  if (result.kind === "returned") return result.value as LookupResult;
  return {
    status: "unclear",
    detail: result.kind === "threw" ? messageOf(result.error) : "The lookup did not end in time.",
  };
}

/** What a lookup is given, by dispatch and by the status tool alike. */
export function lookupContext(parts: {
  readonly key: string;
  readonly stop: BodyStop;
  readonly firstClaimAtMs: number;
}): Parameters<Lookup>[0] {
  const { key, stop, firstClaimAtMs } = parts;
  const { fetch } = createWire({ key: () => key, stop });
  const context = toolContext({
    key: () => key,
    stop,
    fetch,
    threadId: undefined,
    toolCallId: undefined,
    nodeAttempt: 1,
  });
  return {
    key: context.key,
    keyUuid: context.keyUuid,
    subKey: context.subKey,
    signal: context.signal,
    fetch,
    firstClaimAtMs,
  };
}

export function settlementOf(
  found: LookupResult,
  claim: { readonly key: string; readonly fence: string },
): Extract<Settlement, { readonly outcome: "done" }> | Extract<Settlement, { readonly outcome: "failed" | "unknown" }> {
  switch (found.status) {
    case "found":
      return {
        ...claim,
        outcome: "done",
        result: storeResult(found.value),
        evidence: "found by the tool's lookup",
        ...(found.effectRef === undefined ? {} : { effectRef: found.effectRef }),
      };
    case "absent":
      // The first holder may still be on its way to the provider: a frozen one sent after such a look in 12 of 12 runs.
      return { ...claim, outcome: "unknown", detail: "The lookup did not find it. It may still arrive." };
    case "unclear":
      return { ...claim, outcome: "unknown", detail: `The lookup could not tell: ${found.detail}` };
    default:
      return found satisfies never;
  }
}
