// Finds a tool call in the input of its task: among messages, or as the payload of a Send. Pure.
import { type AIMessage, isAIMessage, isBaseMessage } from "@langchain/core/messages";
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
  return inMessages(messagesOf(input), call) ?? inPayload(input, call);
}

function messagesOf(input: unknown): readonly unknown[] {
  if (Array.isArray(input)) return input;
  if (typeof input !== "object" || input === null || !("messages" in input)) return [];
  return Array.isArray(input.messages) ? input.messages : [];
}

interface Hit {
  readonly message: AIMessage;
  readonly position: number;
  readonly args: unknown;
}

// Every call of a long thread passes here, for each call that is dispatched: nothing is made for those that are not it.
function inMessages(
  messages: readonly unknown[],
  call: { readonly id: string; readonly tool: string },
): FoundCall | undefined {
  let last: Hit | undefined;
  let hits = 0;
  for (const message of messages) {
    if (!isBaseMessage(message) || !isAIMessage(message)) continue;
    const calls = message.tool_calls ?? [];
    for (let position = 0; position < calls.length; position += 1) {
      const candidate = calls[position];
      if (candidate?.id !== call.id) continue;
      hits += 1;
      if (candidate.name === call.tool) last = { message, position, args: candidate.args };
    }
  }
  return last && foundIn(last, call.id, hits > 1);
}

function foundIn({ message, position, args }: Hit, id: string, repeated: boolean): FoundCall {
  const record = callRecords(message)[id];
  // Named fields first: a literal that begins with a spread takes forty times as long to make.
  return {
    position,
    args,
    cut: record?.cut === true,
    repeated,
    ...(message.id === undefined ? {} : { assistantMessageId: message.id }),
    ...(record === undefined ? {} : { source: record.source }),
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
