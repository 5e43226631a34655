// A chat model that follows a script: no network, the same answers in every process, streamed as a provider streams.
import { setTimeout as wait } from "node:timers/promises";
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import {
  BaseChatModel,
  type BaseChatModelCallOptions,
  type BindToolsInput,
  type LangSmithParams,
} from "@langchain/core/language_models/chat_models";
import { AIMessage, type BaseMessage, type StandardMessageStructure } from "@langchain/core/messages";
import type { ChatGenerationChunk, ChatResult } from "@langchain/core/outputs";
import { chunkTurn } from "./scripted-model-chunks.ts";
import { answerTurn, type IdStyle, type ScriptedStep, type TurnAnswer } from "./scripted-model-turn.ts";

export type ScriptedModelFields = {
  /** Turn 0 answers a human message, turn 1 the tool results of turn 0, and so on; the next human message starts at 0 again. */
  readonly turns: readonly ScriptedStep[];
  /** Time to the first token. Default 0. */
  readonly latencyMs?: number;
  /** What the ids of tool calls look like when a call names none. Default `unique`. */
  readonly idStyle?: IdStyle;
  /** The model's name in traces. Default `scripted`. */
  readonly modelName?: string;
  /** How it waits; a test injects its own. Default the system timer, cut short by the signal. */
  readonly sleep?: (waitMs: number, signal: AbortSignal | undefined) => Promise<void>;
};

/**
 * Follows the script by what is in the history, never by what it remembers: a process that resumes a run after a kill gets the
 * turn that the dead one would have given. Ids are drawn anew on each call, as a provider's are, so a turn that is asked twice
 * gives other ids: the mistake a derived key must survive.
 *
 * Throws SupportError `SCRIPT_TURN_MISSING` when the history asks for a turn past the end of the script.
 */
export class ScriptedModel extends BaseChatModel {
  readonly turns: readonly ScriptedStep[];
  readonly latencyMs: number;
  readonly idStyle: IdStyle;
  readonly modelName: string;
  /** What `bindTools` was given last, for inspection; the script does not look at it. */
  boundTools: readonly BindToolsInput[] = [];
  readonly #sleep: (waitMs: number, signal: AbortSignal | undefined) => Promise<void>;
  #calls = 0;

  constructor(fields: ScriptedModelFields) {
    super({});
    this.turns = fields.turns;
    this.latencyMs = fields.latencyMs ?? 0;
    this.idStyle = fields.idStyle ?? "unique";
    this.modelName = fields.modelName ?? "scripted";
    this.#sleep = fields.sleep ?? systemSleep;
  }

  static override lc_name(): string {
    return "ScriptedModel";
  }

  /** How often this object was asked, failed calls included. */
  get calls(): number {
    return this.#calls;
  }

  override _llmType(): string {
    return "scripted";
  }

  override getLsParams(options: this["ParsedCallOptions"]): LangSmithParams {
    return { ...super.getLsParams(options), ls_provider: "scripted", ls_model_name: this.modelName };
  }

  /** Returns this very object: the script is the same with and without tools. */
  override bindTools(tools: BindToolsInput[], _kwargs?: Partial<BaseChatModelCallOptions>): this {
    this.boundTools = [...tools];
    return this;
  }

  override async _generate(messages: BaseMessage[], options: this["ParsedCallOptions"]): Promise<ChatResult> {
    const answer = await this.#answer(messages, options.signal);
    const { text, toolCalls, messageId, usage, finishReason } = answer;
    const message = new AIMessage<StandardMessageStructure>({
      id: messageId,
      content: text,
      tool_calls: [...toolCalls],
      usage_metadata: usage,
      response_metadata: { model_name: this.modelName, finish_reason: finishReason },
    });
    return { generations: [{ text, message }] };
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this["ParsedCallOptions"],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const answer = await this.#answer(messages, options.signal);
    let first = true;
    for (const chunk of chunkTurn(answer, this.modelName)) {
      if (!first) await this.#pause(answer.chunkMs, options.signal);
      first = false;
      yield chunk;
      // Tool-call chunks carry the text "": a listener that wants the first token must look at the chunk.
      await runManager?.handleLLMNewToken(chunk.text, undefined, undefined, undefined, undefined, { chunk });
    }
  }

  async #answer(messages: readonly BaseMessage[], signal: AbortSignal | undefined): Promise<TurnAnswer> {
    this.#calls += 1;
    await this.#pause(this.latencyMs, signal);
    return answerTurn(messages, { turns: this.turns, idStyle: this.idStyle });
  }

  async #pause(waitMs: number, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    if (waitMs > 0) await this.#sleep(waitMs, signal);
  }
}

async function systemSleep(waitMs: number, signal: AbortSignal | undefined): Promise<void> {
  await wait(waitMs, undefined, signal === undefined ? {} : { signal });
}
