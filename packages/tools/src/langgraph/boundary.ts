// The model boundary: every call gets an id that is unique on the thread, before the model node returns; the model keeps its own.
import { randomUUID } from "node:crypto";
import { AIMessage, type BaseMessage, isAIMessage, type ToolCall, ToolMessage } from "@langchain/core/messages";
import { cutPositions, isCutAnswer } from "./boundary-cut.ts";
import { type CallRecord, type CallRefSource, callRecords, withRecords } from "./boundary-ids.ts";
import { isWeakId } from "./boundary-weak.ts";

/**
 * The assistant message as it must enter the state. It gets an id when it has none or one that is in `history`; a call whose
 * id is missing, repeated or weak becomes `<assistant message id>#<position>`, with the provider's id kept in
 * additional_kwargs. Call it inside the model node, so that the ids are part of the stored writes (A13).
 */
export function stampCalls(message: AIMessage, history: readonly BaseMessage[]): AIMessage {
  const id = freshMessageId(message.id, history);
  const calls = [...(message.tool_calls ?? []), ...recoverCalls(message)];
  const cut = cutPositions(message);
  const taken = idsIn(history);
  const records: Record<string, CallRecord> = {};
  const stamped = calls.map((call, position): ToolCall => {
    const source = sourceOf(call, taken);
    const stateId = source === "provider" && call.id !== undefined ? call.id : `${id}#${position}`;
    if (call.id !== undefined && call.id !== "") taken.add(call.id);
    const isCut = cut.has(position);
    if (source !== "provider" || isCut) {
      records[stateId] = { id: call.id === "" ? null : (call.id ?? null), source, ...(isCut ? { cut: true } : {}) };
    }
    return { ...call, id: stateId };
  });
  const left = (message.invalid_tool_calls ?? []).filter((call) => recovered(message, call) === undefined);
  return copyMessage(message, { id, calls: stamped, invalid: left, records });
}

/**
 * The messages as the model knows them: its own ids on calls and results. Where it had given none, ours stay. The inverse of
 * `stampCalls` for any number of turns, so a model that demands its own format gets it byte for byte (A10, A11).
 */
export function restoreProviderIds(messages: readonly BaseMessage[]): BaseMessage[] {
  const own = new Map<string, string>();
  for (const message of messages) {
    if (!isAIMessage(message)) continue;
    for (const [stateId, record] of Object.entries(callRecords(message)))
      if (record.id !== null) own.set(stateId, record.id);
  }
  return messages.map((message) => {
    if (isAIMessage(message) && Object.keys(callRecords(message)).length > 0) return restoreCalls(message, own);
    if (ToolMessage.isInstance(message) && own.has(message.tool_call_id)) return restoreResult(message, own);
    return message;
  });
}

function sourceOf(call: ToolCall, taken: ReadonlySet<string>): CallRefSource {
  if (call.id === undefined || call.id === "") return "missing";
  if (taken.has(call.id)) return "repeated";
  return isWeakId(call.id, call.name) ? "weak" : "provider";
}

function freshMessageId(id: string | undefined, history: readonly BaseMessage[]): string {
  const usable = id !== undefined && id !== "" && !history.some((message) => message.id === id);
  return usable ? id : `msg_${randomUUID()}`;
}

// Everything a later id could be confused with: calls, results, and the provider's ids behind our own.
function idsIn(history: readonly BaseMessage[]): Set<string> {
  const ids = new Set<string>();
  for (const message of history) {
    if (ToolMessage.isInstance(message)) ids.add(message.tool_call_id);
    if (!isAIMessage(message)) continue;
    for (const call of message.tool_calls ?? []) if (call.id !== undefined) ids.add(call.id);
    for (const record of Object.values(callRecords(message))) if (record.id !== null) ids.add(record.id);
  }
  return ids;
}

type InvalidCall = NonNullable<AIMessage["invalid_tool_calls"]>[number];

// A streamed call without an id lands among the invalid ones although its arguments are whole; dropped there, the chat hangs (A06).
function recoverCalls(message: AIMessage): ToolCall[] {
  return (message.invalid_tool_calls ?? []).flatMap((call) => recovered(message, call) ?? []);
}

function recovered(message: AIMessage, call: InvalidCall): ToolCall | undefined {
  if (call.id !== undefined && call.id !== "") return undefined;
  if (call.name === undefined || call.name === "" || isCutAnswer(message)) return undefined;
  try {
    const args: unknown = JSON.parse(call.args ?? "");
    if (typeof args !== "object" || args === null || Array.isArray(args)) return undefined;
    // JSON.parse of an object text gives a plain object.
    return { type: "tool_call", name: call.name, args: args as Record<string, unknown> };
  } catch {
    return undefined;
  }
}

function restoreCalls(message: AIMessage, own: ReadonlyMap<string, string>): AIMessage {
  const calls = (message.tool_calls ?? []).map((call): ToolCall => {
    const id = call.id === undefined ? undefined : own.get(call.id);
    return id === undefined ? call : { ...call, id };
  });
  return copyMessage(message, { id: message.id, calls, invalid: message.invalid_tool_calls ?? [], records: {} });
}

function restoreResult(message: ToolMessage, own: ReadonlyMap<string, string>): ToolMessage {
  return new ToolMessage({
    content: message.content,
    tool_call_id: own.get(message.tool_call_id) ?? message.tool_call_id,
    ...(message.name === undefined ? {} : { name: message.name }),
    ...(message.id === undefined ? {} : { id: message.id }),
    ...(message.status === undefined ? {} : { status: message.status }),
    ...(message.artifact === undefined ? {} : { artifact: message.artifact }),
    additional_kwargs: message.additional_kwargs,
    response_metadata: message.response_metadata,
  });
}

interface Changes {
  readonly id: string | undefined;
  readonly calls: ToolCall[];
  readonly invalid: InvalidCall[];
  readonly records: Readonly<Record<string, CallRecord>>;
}

function copyMessage(message: AIMessage, changes: Changes): AIMessage {
  return new AIMessage({
    content: contentWithIds(message, changes.calls),
    tool_calls: changes.calls,
    invalid_tool_calls: changes.invalid,
    additional_kwargs: withRecords(message.additional_kwargs, changes.records),
    response_metadata: message.response_metadata,
    ...(changes.id === undefined ? {} : { id: changes.id }),
    ...(message.name === undefined ? {} : { name: message.name }),
    ...(message.usage_metadata === undefined ? {} : { usage_metadata: message.usage_metadata }),
  });
}

// LangChain's standard content repeats the calls as blocks and adds a block for each call it does not find by id.
function contentWithIds(message: AIMessage, calls: readonly ToolCall[]): AIMessage["content"] {
  const { content } = message;
  if (typeof content === "string") return content;
  const blocks = content.filter((block) => block.type === "tool_call");
  if (blocks.length === 0 || blocks.length !== calls.length) return content;
  let next = 0;
  return content.map((block) => {
    if (block.type !== "tool_call") return block;
    const id = calls[next]?.id;
    next += 1;
    return id === undefined ? block : { ...block, id };
  });
}
