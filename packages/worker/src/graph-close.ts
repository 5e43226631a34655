// Before new input enters a thread: tool calls that an earlier run left unanswered are answered from the ledger.
import type { BaseMessage } from "@langchain/core/messages";
import { closeCalls } from "@reprise/tools/langgraph";
import type { RunContext } from "./delivery-run.ts";
import { deliverySaver } from "./delivery-saver.ts";
import { LENT_SAVER, type ThreadState } from "./graph-state.ts";

/**
 * Without this a model is told by the next request, or by a repair in some middleware, that a paid charge "was cancelled"
 * (facts/users, fact 8). The closing checkpoint is the earlier run's, not ours: our run has not begun, and a crash right
 * after it must find it so. Hence a saver of the same fence that binds no run.
 */
export async function closeOpenCalls(context: RunContext, state: ThreadState): Promise<void> {
  const { parts, delivery, request, fence, agent } = context;
  const messages = messagesOf(state.values);
  const answers = await closeCalls({ threadId: request.threadId, messages, ledger: parts.ledger });
  if (answers.length === 0) return;
  const { saver } = deliverySaver({
    pool: parts.pool,
    schema: parts.config.checkpointSchema,
    threadId: request.threadId,
    fence,
    metadata: {},
  });
  const config = { configurable: { thread_id: request.threadId, [LENT_SAVER]: saver } };
  await agent.graph.updateState(config, { messages: answers }, state.snapshot.tasks[0]?.name);
  delivery.log.info({ calls: answers.length }, "unanswered tool calls of an earlier run were answered from the ledger");
}

function messagesOf(values: unknown): readonly BaseMessage[] {
  if (typeof values !== "object" || values === null || !("messages" in values)) return [];
  // The channel of this name holds messages in every LangGraph agent; another value there is no list of tool calls.
  return Array.isArray(values.messages) ? (values.messages as BaseMessage[]) : [];
}
