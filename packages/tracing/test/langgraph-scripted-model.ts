// A chat model that plays a script: chunks, each after telling the test's clock what time it is, or an error.

import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";

export interface ScriptedChunk {
  readonly at: number;
  readonly text?: string;
  readonly piece?: { readonly index?: number; readonly id?: string; readonly name?: string; readonly args?: string };
  readonly fails?: Error;
}

export class ScriptedModel extends BaseChatModel {
  /** The test's clock, in epoch milliseconds. */
  time = 1_000;
  readonly chunks: readonly ScriptedChunk[];
  /** Called while the request is under way, where a provider's HTTP would be. */
  readonly onRequest: () => void;

  constructor(chunks: readonly ScriptedChunk[], onRequest: () => void = () => {}) {
    super({});
    this.chunks = chunks;
    this.onRequest = onRequest;
  }

  override _llmType(): string {
    return "scripted";
  }

  override getLsParams(): { ls_model_type: "chat"; ls_model_name: string; ls_provider: string } {
    return { ls_model_type: "chat", ls_model_name: "scripted-1", ls_provider: "test" };
  }

  override async _generate(): Promise<ChatResult> {
    this.onRequest();
    for (const chunk of this.chunks) if (chunk.fails) throw chunk.fails;
    const text = this.chunks.map((chunk) => chunk.text ?? "").join("");
    return { generations: [{ text, message: Object.assign(new AIMessage({ content: text, id: answer.id }), answer) }] };
  }

  override async *_streamResponseChunks(
    _messages: BaseMessage[],
    _options: this["ParsedCallOptions"],
    run?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    this.onRequest();
    for (const [n, { at, text = "", piece, fails }] of this.chunks.entries()) {
      this.time = at;
      if (fails) throw fails;
      const pieces = piece ? [{ type: "tool_call_chunk" as const, ...piece }] : [];
      const message = new AIMessageChunk({ content: text, id: answer.id, tool_call_chunks: pieces });
      // A provider says what it used with its last chunk.
      if (n === this.chunks.length - 1) Object.assign(message, answer);
      const chunk = new ChatGenerationChunk({ text, message });
      yield chunk;
      await run?.handleLLMNewToken(text, undefined, undefined, undefined, undefined, { chunk });
    }
  }
}

const answer = {
  id: "msg_1",
  usage_metadata: { input_tokens: 11, output_tokens: 7, total_tokens: 18 },
  response_metadata: { model_name: "scripted-1-2026", finish_reason: "tool_calls" },
};
