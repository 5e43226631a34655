// Finds a tool call in the input of its task: among messages, or as the payload of a Send. Pure.
import { type BaseMessage, isAIMessage, isBaseMessage } from "@langchain/core/messages";
import { type CallRefSource, callRecords } from "./boundary-ids.ts";

export interface FoundCall {
  readonly assistantMessageId?: string;
  readonly position?: number;
  readonly args: unknown;
  /** Absent when the boundary left no word about this call. */
  readonly source?: CallRefSource;
  readonly cut: boolean;
  /** Another call in the input goes by the same id. */
  readonly repeated: boolean;
}

export function findCall(input: unknown, call: { readonly id: string; readonly tool: string }): FoundCall | undefined {
  const messages = messagesOf(input);
  return inMessages(messages, call) ?? inPayload(input, call);
}

function messagesOf(input: unknown): readonly BaseMessage[] {
  if (Array.isArray(input)) return input.filter(isBaseMessage);
  if (typeof input !== "object" || input === null || !("messages" in input)) return [];
  return Array.isArray(input.messages) ? input.messages.filter(isBaseMessage) : [];
}

function inMessages(
  messages: readonly BaseMessage[],
  call: { readonly id: string; readonly tool: string },
): FoundCall | undefined {
  const hits = messages.flatMap((message) => {
    if (!isAIMessage(message)) return [];
    return (message.tool_calls ?? []).flatMap((candidate, position) =>
      candidate.id === call.id ? [{ message, candidate, position }] : [],
    );
  });
  const hit = hits.findLast(({ candidate }) => candidate.name === call.tool);
  if (hit === undefined) return undefined;
  const record = callRecords(hit.message)[call.id];
  return {
    ...(hit.message.id === undefined ? {} : { assistantMessageId: hit.message.id }),
    position: hit.position,
    args: hit.candidate.args,
    ...(record === undefined ? {} : { source: record.source }),
    cut: record?.cut === true,
    repeated: hits.length > 1,
  };
}

/** A Send carries only the call, and beside it, if the graph is ours, where it came from. */
export interface SendPayload {
  readonly call: { readonly id?: string; readonly name: string; readonly args: unknown };
  readonly assistantMessageId?: string;
  readonly position?: number;
  readonly source?: CallRefSource;
  readonly cut?: true;
}

function inPayload(input: unknown, call: { readonly id: string; readonly tool: string }): FoundCall | undefined {
  if (typeof input !== "object" || input === null) return undefined;
  const candidates: readonly unknown[] = [input, ...Object.values(input)];
  const hit = candidates.find((value) => isCall(value, call));
  if (hit === undefined) return undefined;
  // isCall has checked the shape; the fields beside the call are our own graph's, or absent.
  const { args } = hit as SendPayload["call"];
  const { assistantMessageId, position, source, cut } = input as Partial<SendPayload>;
  return {
    ...(typeof assistantMessageId === "string" ? { assistantMessageId } : {}),
    ...(typeof position === "number" ? { position } : {}),
    args,
    ...(typeof source === "string" ? { source } : {}),
    cut: cut === true,
    repeated: false,
  };
}

function isCall(value: unknown, call: { readonly id: string; readonly tool: string }): boolean {
  if (typeof value !== "object" || value === null) return false;
  return "id" in value && value.id === call.id && "name" in value && value.name === call.tool && "args" in value;
}
