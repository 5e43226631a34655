// Marks a fresh call that repeats an earlier one on its thread: seen by people and the sampler, never suppressed (A16, B11).
import { diag } from "@opentelemetry/api";
import type { EffectCall } from "./dispatch.ts";
import type { EffectClaim } from "./effect.ts";
import { messageOf } from "./errors.ts";

/** Decides nothing: when the look-up fails the span is merely without the mark. */
export async function markEcho(
  call: EffectCall,
  claim: Pick<EffectClaim, "key" | "owner" | "argsFingerprint" | "identityFingerprint">,
): Promise<void> {
  const { owner } = claim;
  try {
    const echo = await call.scope.ledger.findEcho(claim);
    if (echo !== undefined) call.say.echo(echo);
  } catch (error) {
    diag.debug(`whether ${owner.tool} repeats an earlier call could not be looked up: ${messageOf(error)}`);
  }
}
