// Marks a fresh call that repeats an earlier one on its thread: seen by people and the sampler, never suppressed (A16, B11).
import { diag } from "@opentelemetry/api";
import type { EffectCall } from "./dispatch.ts";
import type { EffectClaim } from "./effect.ts";
import { messageOf } from "./errors.ts";

/**
 * Runs the body beside the one look-up, so that the call does not wait for it. The look-up decides nothing: when it fails the span
 * is merely without the mark.
 */
export async function besideEcho<T>(
  call: EffectCall,
  claim: Pick<EffectClaim, "key" | "owner" | "argsFingerprint" | "identityFingerprint">,
  execute: () => Promise<T>,
): Promise<T> {
  const looking = mark(call, claim);
  try {
    return await execute();
  } finally {
    // Before the span ends: later attributes are lost.
    await looking;
  }
}

async function mark(
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
