// Calls that the end of the model's output cut short. LangChain completes partial JSON, so they look whole (G07).
import { type AIMessage, AIMessageChunk, type ToolCall } from "@langchain/core/messages";

const CUT_REASONS: ReadonlySet<string> = new Set(["length", "max_tokens", "model_length", "max_output_tokens"]);

/** Positions of calls whose arguments are not what the model meant: the last one of a cut answer, and any whose text is broken. */
export function cutPositions(message: AIMessage): ReadonlySet<number> {
  const calls = message.tool_calls ?? [];
  const cut = new Set<number>();
  calls.forEach((call, position) => {
    const raw = rawArgs(message, call, position);
    if (raw !== undefined && raw !== "" && !isJson(raw)) cut.add(position);
  });
  if (calls.length > 0 && isCutAnswer(message)) cut.add(calls.length - 1);
  return cut;
}

export function isCutAnswer(message: AIMessage): boolean {
  const metadata: Record<string, unknown> = message.response_metadata;
  const reason = metadata["finish_reason"] ?? metadata["stop_reason"] ?? metadata["finishReason"];
  return typeof reason === "string" && CUT_REASONS.has(reason.toLowerCase());
}

// The argument text as it came over the wire, where the message still has it.
function rawArgs(message: AIMessage, call: ToolCall, position: number): string | undefined {
  if (message instanceof AIMessageChunk) {
    const chunks = message.tool_call_chunks ?? [];
    const chunk = chunks.length === (message.tool_calls ?? []).length ? chunks[position] : undefined;
    return chunk?.name === call.name ? chunk.args : undefined;
  }
  const raw = message.additional_kwargs.tool_calls?.[position];
  return raw !== undefined && raw.function.name === call.name ? raw.function.arguments : undefined;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
