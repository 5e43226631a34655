// Cuts an answer into the chunks a provider would stream: words of text, then each call's name and id, then its arguments in pieces.
import { AIMessageChunk, type StandardMessageStructure } from "@langchain/core/messages";
import { ChatGenerationChunk } from "@langchain/core/outputs";
import type { TurnAnswer } from "./scripted-model-turn.ts";

const ARGS_PIECE_CHARACTERS = 12;

/** The chunks in order; concatenated they are the whole answer. The last one carries usage and the reason to stop, once. */
export function* chunkTurn(answer: TurnAnswer, modelName: string): Generator<ChatGenerationChunk> {
  const { messageId } = answer;
  for (const text of answer.text.match(/\S+\s*|\s+/g) ?? []) {
    yield new ChatGenerationChunk({ text, message: new AIMessageChunk({ id: messageId, content: text }) });
  }
  for (const [index, call] of answer.toolCalls.entries()) {
    const { name, id } = call;
    // A provider that gives no id streams none: the field is absent, not undefined.
    yield callChunk(messageId, { name, args: "", index, ...(id === undefined ? {} : { id }) });
    for (const args of cut(JSON.stringify(call.args))) yield callChunk(messageId, { args, index });
  }
  // The structure is named because the default one types usage_metadata as undefined under exactOptionalPropertyTypes.
  const message = new AIMessageChunk<StandardMessageStructure>({
    id: messageId,
    content: "",
    usage_metadata: answer.usage,
    response_metadata: { model_name: modelName, finish_reason: answer.finishReason },
  });
  yield new ChatGenerationChunk({ text: "", message });
}

function callChunk(
  messageId: string,
  piece: { readonly name?: string; readonly id?: string; readonly args: string; readonly index: number },
): ChatGenerationChunk {
  const message = new AIMessageChunk({
    id: messageId,
    content: "",
    tool_call_chunks: [{ type: "tool_call_chunk", ...piece }],
  });
  return new ChatGenerationChunk({ text: "", message });
}

/** Pieces of whole characters: a surrogate pair is never split. */
function cut(json: string): readonly string[] {
  const characters = [...json];
  const pieces: string[] = [];
  for (let start = 0; start < characters.length; start += ARGS_PIECE_CHARACTERS) {
    pieces.push(characters.slice(start, start + ARGS_PIECE_CHARACTERS).join(""));
  }
  return pieces;
}
