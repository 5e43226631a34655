// The effect scope: what a run lends its tools (ledger, evidence, fence, stop signal), carried in LangGraph's configurable.
import { type Gate, PRODUCT } from "@reprise/tracing";
import type { Fence, Ledger } from "../effect.ts";

export interface EffectScope {
  readonly ledger: Ledger;
  readonly runId: string;
  readonly deliveryId: string;
  /** Host and process, for people. */
  readonly holder: string;
  readonly receiveCount?: number;
  /** The run's fence on its thread. With it, a claim of a run that lost the thread is refused. */
  readonly threadFence?: bigint | Fence;
  /** The thread of that fence. Needed only when subagents work on threads of their own. */
  readonly threadId?: string;
  /**
   * Only for a run that goes back in time and shall have its effects again: keys of its own. Without it a call that is made
   * again from an old checkpoint replays what is recorded. The same in every delivery of the run.
   */
  readonly forkId?: string;
  /** Stops the run. A tool that is dispatched then throws RUN_ABORTED; the model is told nothing. */
  readonly signal?: AbortSignal;
  /** Whether the lease still holds, by the local deadline. Asked right before each effect. */
  readonly isLeaseLive?: () => boolean;
  /** How long a call waits for its checkpoint to be durable. Default 1,000 ms. */
  readonly barrierWaitMs?: number;
  /** What of arguments and results reaches the spans. Default `createGate()`; with `content: "none"` sizes only. */
  readonly gate?: Gate;
}

// LangGraph copies scalars of the configurable into checkpoint metadata; an object stays out of it.
const SCOPE_KEY = `__${PRODUCT.name}_effects`;

/** A config for `graph.invoke` under which tools of `defineTool` may have effects. Reaches subgraphs and subagents. */
export function withEffects<Config extends { readonly configurable?: Readonly<Record<string, unknown>> }>(
  scope: EffectScope,
  config: Config,
): Config & { readonly configurable: Record<string, unknown> } {
  return { ...config, configurable: { ...config.configurable, [SCOPE_KEY]: scope } };
}

export function effectScope(config: {
  readonly configurable?: Readonly<Record<string, unknown>>;
}): EffectScope | undefined {
  // Only withEffects writes this key, so the value is a scope or nothing.
  return config.configurable?.[SCOPE_KEY] as EffectScope | undefined;
}
