// Answers a thread's unanswered tool calls from the ledger, before new input enters it: the history stays true.
import { type AIMessage, type BaseMessage, isAIMessage, ToolMessage } from "@langchain/core/messages";
import type { EffectRow, Ledger } from "../effect.ts";
import { deriveKey } from "../key.ts";
import { failedReply, type ReplyTo, replayReply, statusToolName, unknownReply } from "../reply.ts";

export interface CloseCallsRequest {
  readonly threadId: string;
  /** The thread's messages, from its latest state. */
  readonly messages: readonly BaseMessage[];
  readonly ledger: Ledger;
  /** Of the run that left the calls, if it had one. */
  readonly forkId?: string;
  /** Names of tools with a lookup; the reply for an unknown call then names their status tool. */
  readonly lookupTools?: ReadonlySet<string>;
}

interface OpenCall {
  readonly id: string;
  readonly tool: string;
  readonly assistantMessageId: string | undefined;
}

/**
 * One message per unanswered call, in the order of the calls, with ids that are the same each time: adding them twice is adding
 * them once. Servers that skip this tell the model that a paid charge "was cancelled". Hold the thread's fence while you do it.
 */
export async function closeCalls(request: CloseCallsRequest): Promise<readonly ToolMessage[]> {
  const replies: ToolMessage[] = [];
  for (const call of openCalls(request.messages)) {
    const key = deriveKey(request.threadId, call.id, request.forkId);
    const reply = replyFor(call, await request.ledger.find(key), request.lookupTools);
    reply.id = `closed_${key}`;
    replies.push(reply);
  }
  return replies;
}

function openCalls(messages: readonly BaseMessage[]): readonly OpenCall[] {
  const answered = new Set(
    messages.filter((message) => ToolMessage.isInstance(message)).map((message) => message.tool_call_id),
  );
  return messages
    .filter(isAIMessage)
    .flatMap((message: AIMessage) =>
      (message.tool_calls ?? []).flatMap((call) =>
        call.id === undefined || call.id === "" || answered.has(call.id)
          ? []
          : [{ id: call.id, tool: call.name, assistantMessageId: message.id }],
      ),
    );
}

function replyFor(
  call: OpenCall,
  row: EffectRow | undefined,
  lookupTools: ReadonlySet<string> | undefined,
): ToolMessage {
  const to: ReplyTo = {
    toolCallId: call.id,
    tool: call.tool,
    ...(lookupTools?.has(call.tool) === true ? { statusTool: statusToolName(call.tool) } : {}),
  };
  if (row === undefined || !owns(row, call))
    return failedReply(to, "The run was stopped before this call was carried out.");
  switch (row.state) {
    case "done":
      return replayReply(to, row.result ?? { kind: "value", json: "null" }, row.effectRef);
    case "failed":
      return failedReply(to, row.detail ?? "The call failed.");
    case "unknown":
      return unknownReply(to, row.detail ?? "No outcome was recorded.");
    case "reserved":
      return unknownReply(to, "The run was stopped while this call was carried out.");
    default:
      return row.state satisfies never;
  }
}

function owns(row: EffectRow, call: OpenCall): boolean {
  const { tool, assistantMessageId } = row.owner;
  if (tool !== call.tool) return false;
  return (
    assistantMessageId === undefined ||
    call.assistantMessageId === undefined ||
    assistantMessageId === call.assistantMessageId
  );
}
