// A call without effect: no ledger, no barrier; its failures are told, its control flow passes.

import { isControlFlow } from "@reprise/tracing";
import type { DispatchRequest } from "./dispatch.ts";
import type { BodyResult } from "./dispatch-body.ts";
import { runBody } from "./dispatch-body.ts";
import { bodyArgs, toolContext } from "./dispatch-call.ts";
import type { ToolSpan } from "./dispatch-span.ts";
import { storeResult } from "./effect-result.ts";
import { RunAborted } from "./errors.ts";
import { createWire, type Wire } from "./fetch.ts";
import { deriveKey } from "./key.ts";
import { effectScope } from "./langgraph/scope.ts";
import { classifyFailure } from "./outcome.ts";
import { failedReply } from "./reply.ts";

/** Resolves to the tool's own value, as LangChain would have it, or to the reply for a failure. */
export async function dispatchRead(request: DispatchRequest, say: ToolSpan): Promise<unknown> {
  const { spec, call, config } = request;
  const threadId = threadOf(request);
  const key = (): string => deriveKey(threadId ?? "", call.id ?? "", effectScope(config)?.forkId);
  const lazyKey = (): string | undefined => (threadId === undefined || call.id === undefined ? undefined : key());
  let wire: Wire | undefined;
  const end = await runBody({
    timeoutMs: spec.timeoutMs,
    graceMs: 0,
    clock: request.clock,
    runSignals: request.runSignals,
    run: (stop) => {
      wire = createWire({ key: lazyKey, stop, ...(spec.profile === undefined ? {} : { profile: spec.profile }) });
      const context = toolContext({
        key,
        stop,
        fetch: wire.fetch,
        threadId,
        toolCallId: call.id,
        nodeAttempt: request.nodeAttempt,
      });
      return spec.run(bodyArgs(request), context, config);
    },
  });
  if (wire !== undefined) say.wire(wire.evidence(), false);
  if (end.kind === "returned") {
    const stored = storeResult(end.value);
    say.done({ replayed: false, ...(stored.kind === "value" ? { json: stored.json } : {}) });
    return end.value;
  }
  return failed(request, end, say);
}

function failed(request: DispatchRequest, end: Exclude<BodyResult, { kind: "returned" }>, say: ToolSpan): unknown {
  const { spec, call } = request;
  const error = end.kind === "threw" ? end.error : new Error(`The tool did not end within ${spec.timeoutMs} ms.`);
  if (isControlFlow(error)) throw error;
  if (end.stoppedBy === "run") throw new RunAborted(threadOf(request) ?? "", spec.name, { cause: error });
  const none = { requests: [], inFlight: 0, dropped: 0 };
  const outcome = classifyFailure({ error, policy: "none", wire: none });
  say.ended({ outcome: "failed", reason: outcome.reason, error });
  // Without a call there is nothing to reply to: a direct `tool.invoke(args)` gets the error itself.
  if (call.id === undefined) throw error;
  return failedReply({ toolCallId: call.id, tool: spec.name }, outcome.detail);
}

function threadOf(request: DispatchRequest): string | undefined {
  const threadId: unknown = request.config.configurable?.["thread_id"];
  return typeof threadId === "string" && threadId !== "" ? threadId : undefined;
}
