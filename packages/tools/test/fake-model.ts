// A chat model that says what it is told, turn after turn.

import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage } from "@langchain/core/messages";
import type { ChatResult } from "@langchain/core/outputs";
import type { Turn } from "./agent.ts";

export class FakeToolCallingChatModel extends BaseChatModel {
  readonly #turns: readonly Turn[];
  turn = 0;

  constructor(turns: readonly Turn[]) {
    super({});
    this.#turns = turns;
  }

  _llmType(): string {
    return "fake";
  }

  override bindTools(): this {
    return this;
  }

  async _generate(): Promise<ChatResult> {
    const calls = (this.#turns[this.turn] ?? []).map((call) => ({ ...call, type: "tool_call" as const }));
    const message = new AIMessage({
      id: `run-${this.turn}`,
      content: calls.length === 0 ? "done" : "",
      tool_calls: calls,
    });
    this.turn += 1;
    return { generations: [{ text: "", message }] };
  }
}
