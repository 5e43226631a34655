// The companion of a tool with a lookup: get_<name>_status({ call }) says what became of an earlier call.
import { z } from "zod";
import type { Lookup, ToolContext, ToolSpec } from "./dispatch-call.ts";
import { lookupContext, settlementOf } from "./dispatch-reconcile.ts";
import type { EffectRow } from "./effect.ts";
import { CallRefused } from "./errors.ts";
import { deriveKey } from "./key.ts";
import { type EffectScope, effectScope } from "./langgraph/scope.ts";
import { statusToolName } from "./reply.ts";

export const statusSchema = z.object({
  call: z.string().min(1).describe("The call to look up, as given in the reply that said unknown."),
});

/** Reads, but may settle an unknown row with what it found: the earlier call's row, under that row's own fence. */
export function statusSpec(
  tool: string,
  parts: Pick<ToolSpec, "timeoutMs" | "warnOnce"> & { readonly lookup: Lookup },
): ToolSpec {
  const { timeoutMs, warnOnce, lookup } = parts;
  return {
    name: statusToolName(tool),
    effect: "none",
    timeoutMs,
    warnOnce,
    takes: "parsed",
    run: async (args, context, config) => {
      const { call } = statusSchema.parse(args);
      return statusOf({ tool, call, lookup, context, scope: effectScope(config) });
    },
  };
}

interface StatusRequest {
  readonly tool: string;
  readonly call: string;
  readonly lookup: Lookup;
  readonly context: ToolContext;
  readonly scope: EffectScope | undefined;
}

async function statusOf(request: StatusRequest): Promise<unknown> {
  const { tool, call, context, scope } = request;
  if (scope === undefined || context.threadId === undefined) {
    throw new CallRefused(
      "NO_EFFECT_SCOPE",
      `${statusToolName(tool)} needs the run's ledger. Invoke the graph with withEffects.`,
    );
  }
  // The earlier call's key, not this call's own.
  const key = deriveKey(context.threadId, call, scope.forkId);
  const row = await scope.ledger.find(key);
  if (row === undefined || row.owner.tool !== tool) {
    return { status: "not_sent", call, detail: `No ${tool} with this call was ever begun on this thread.` };
  }
  return settledStatus(row, call) ?? lookUp(request, { row, scope });
}

function settledStatus(row: EffectRow, call: string): unknown {
  if (row.state === "failed") return { status: "failed", call, detail: row.detail };
  if (row.state !== "done") return undefined;
  const result: unknown = row.result?.kind === "value" ? JSON.parse(row.result.json) : undefined;
  return { status: "done", call, result, effect: row.effectRef };
}

async function lookUp(
  request: StatusRequest,
  at: { readonly row: EffectRow; readonly scope: EffectScope },
): Promise<unknown> {
  const { call, lookup, context } = request;
  const { key, fence, firstClaimAtMs, state } = at.row;
  const found = await lookup(lookupContext({ key, stop: context, firstClaimAtMs }));
  const settlement = settlementOf(found, { key, fence });
  if (settlement.outcome !== "done") return { status: "unknown", call, detail: settlement.detail };
  // A reserved row still has its holder, who settles it; what was found is told all the same.
  if (state === "unknown") await at.scope.ledger.settle(settlement);
  return {
    status: "done",
    call,
    result: found.status === "found" ? found.value : undefined,
    effect: settlement.effectRef,
  };
}
