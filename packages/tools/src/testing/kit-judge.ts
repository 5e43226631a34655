// What a policy promises about a struck call, and whether one play kept it. Pure.
import type { EffectPolicy } from "../effect.ts";
import type { Played } from "./kit-lane.ts";

/** `none`, and tools that `defineTool` did not make, promise nothing: their row shows what happens without a ledger. */
export function promises(policy: EffectPolicy | undefined): boolean {
  return policy === "keyed" || policy === "lookup" || policy === "once";
}

/**
 * Sentences about broken promises, empty when all were kept. An unknown is never a broken promise of its own: where nobody can
 * know it is the right word, and where somebody could it costs a look, not a second payment.
 */
export function brokenBy(policy: EffectPolicy | undefined, played: Played): readonly string[] {
  if (!promises(policy)) return [];
  const { executions, told, error } = played;
  const checks: readonly (readonly [boolean, string])[] = [
    [executions > 1, `the effect happened ${executions} times`],
    [told === "done" && executions === 0, "the model was told done, and the effect never happened"],
    [told === "failed" && executions > 0, "the model was told failed, and the effect happened"],
    [told === "nothing", `the delivery that took over gave no reply${error === undefined ? "" : `: ${error}`}`],
  ];
  return checks.filter(([broken]) => broken).map(([, text]) => `${played.strike} ${played.point}: ${text}`);
}

/**
 * The deliberate retry of a keyed tool: a call whose provider had committed was sent again, and the provider must have seen
 * the same key twice. A proxy that swallows the header, an SDK that mints its own, show here and nowhere else.
 */
export function brokenByRetry(played: Played): readonly string[] {
  const { requests, keyed, executions } = played;
  if (requests < 2) return [`the retry: the provider saw ${requests} of 2 requests`];
  if (keyed < requests) return [`the retry: ${requests - keyed} of ${requests} requests came without the call's key`];
  if (executions > 1) return [`the retry: the provider saw the same key twice and did it ${executions} times`];
  return [];
}
