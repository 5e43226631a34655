// The one callback handler: events on the model span that is open, and a model span of its own where the graph calls models itself.

import { BaseCallbackHandler, type HandleLLMNewTokenCallbackFields } from "@langchain/core/callbacks/base";
import type { Serialized } from "@langchain/core/load/serializable";
import type { BaseMessage } from "@langchain/core/messages";
import type { LLMResult } from "@langchain/core/outputs";
import { context } from "@opentelemetry/api";
import { SPAN } from "../names.ts";
import { PRODUCT } from "../product.ts";
import { definedAttributes } from "../span.ts";
import {
  activeModelSpan,
  type ModelSpan,
  recordFirstChunk,
  recordToolCalls,
  requestAttributes,
  steadyNow,
} from "./model-call.ts";
import { messageOf, objectOf, responseAttributes, textOf } from "./model-response.ts";
import { ModelStream } from "./model-stream.ts";
import { openSpan } from "./open-span.ts";

export interface ModelSpanHandlerOptions {
  /** Model calls watched at once; past it the oldest is let go and counted. Default 1,000. */
  readonly openMax?: number;
  /** Epoch milliseconds. Default: the monotonic clock. */
  readonly now?: () => number;
}

/** What the handler's bounds and the callbacks' gaps cost. */
export interface ModelSpanCounters {
  /** Ends and errors of calls we never saw begin, or had let go. */
  readonly unmatchedEnds: number;
  /** Calls let go because too many were open. */
  readonly evicted: number;
  /** Calls that neither ended nor failed before the run around them did: a stream its reader left early. */
  readonly abandoned: number;
  /** Tool calls past the bound of one answer, without an event. */
  readonly toolCallsDropped: number;
}

/** The name by which a handler of ours is known among callbacks, also across two copies of this package. */
export const MODEL_SPAN_HANDLER = `${PRODUCT.name}_model_spans`;

/** One model call between its callbacks. */
interface Watched extends ModelSpan {
  readonly stream: ModelStream;
  readonly parentRunId: string | undefined;
  /** Ends the span if it is ours; a span of traceModelCall ends with its call. */
  readonly end: (failure?: { readonly error: unknown }) => Promise<void>;
}

/**
 * Makes the handler; pass it in `callbacks`, once for any number of runs. Its callbacks are awaited: LangChain's background queue
 * runs them in another run's context (126 of 144 measured; langchainjs#11657). It asks for no streaming: events appear when the
 * caller streams. A span it opens is a child of the span active at the call (the node) but is not active for the call's HTTP.
 */
export function modelSpanHandler(options: ModelSpanHandlerOptions = {}): ModelSpanHandler {
  return new ModelSpanHandler(options);
}

export class ModelSpanHandler extends BaseCallbackHandler {
  override name = MODEL_SPAN_HANDLER;
  readonly #open = new Map<string, Watched>();
  readonly #openMax: number;
  readonly #now: () => number;
  readonly #counters = { unmatchedEnds: 0, evicted: 0, abandoned: 0, toolCallsDropped: 0 };

  constructor(options: ModelSpanHandlerOptions = {}) {
    super({ _awaitHandler: true });
    this.#openMax = options.openMax ?? 1_000;
    this.#now = options.now ?? steadyNow;
  }

  get counters(): ModelSpanCounters {
    return { ...this.#counters };
  }

  /** Model calls that have begun and not ended. */
  get open(): number {
    return this.#open.size;
  }

  // LangChain passes eight positional arguments here; it calls, we only receive.
  override async handleChatModelStart(
    model: Serialized,
    _messages: BaseMessage[][],
    runId: string,
    parentRunId?: string,
    extraParams?: Record<string, unknown>,
    _tags?: string[],
    metadata?: Record<string, unknown>,
  ): Promise<void> {
    await this.#begin(modelName(model, extraParams, metadata), runId, parentRunId);
  }

  override async handleLLMStart(
    model: Serialized,
    _prompts: string[],
    runId: string,
    parentRunId?: string,
    extraParams?: Record<string, unknown>,
    _tags?: string[],
    metadata?: Record<string, unknown>,
  ): Promise<void> {
    await this.#begin(modelName(model, extraParams, metadata), runId, parentRunId);
  }

  override handleLLMNewToken(
    _token: string,
    _at: unknown,
    runId: string,
    _parentRunId?: string,
    _tags?: string[],
    fields?: HandleLLMNewTokenCallbackFields,
  ): void {
    const model = this.#open.get(runId);
    if (model === undefined) return;
    const at = this.#now();
    if (model.stream.add(fields?.chunk, at)) recordFirstChunk(model, at);
  }

  override handleChatModelStreamEvent(event: unknown, runId: string): void {
    const model = this.#open.get(runId);
    if (model === undefined) return;
    const at = this.#now();
    if (model.stream.addEvent(event, at)) recordFirstChunk(model, at);
  }

  override async handleLLMEnd(result: LLMResult, runId: string): Promise<void> {
    const model = this.#take(runId);
    if (model === undefined) return;
    model.span.setAttributes(definedAttributes(responseAttributes(messageOf(result))));
    await this.#close(model, "ended");
  }

  override async handleLLMError(error: unknown, runId: string): Promise<void> {
    const model = this.#take(runId);
    if (model !== undefined) await this.#close(model, "broken", { error });
  }

  override async handleChainEnd(_outputs: unknown, runId: string): Promise<void> {
    await this.#abandonUnder(runId);
  }

  override async handleChainError(_error: unknown, runId: string): Promise<void> {
    await this.#abandonUnder(runId);
  }

  async #begin(name: string, runId: string, parentRunId: string | undefined): Promise<void> {
    // The same handler given twice (to the model and to the run) hears everything twice.
    if (this.#open.has(runId)) return;
    await this.#makeRoom();
    const given = activeModelSpan();
    const startedAt = this.#now();
    const { span, end } = given
      ? { span: given.span, end: async () => {} }
      : openSpan(SPAN.model(name), { attributes: requestAttributes(name), parent: context.active() });
    // A span of traceModelCall began before this callback: its time to the first chunk counts from there.
    const model = { span, startedAt: given?.startedAt ?? startedAt, ended: false, parentRunId, end };
    this.#open.set(runId, { ...model, stream: new ModelStream() });
  }

  async #makeRoom(): Promise<void> {
    if (this.#open.size < this.#openMax) return;
    const [oldest] = this.#open;
    if (oldest === undefined) return;
    this.#open.delete(oldest[0]);
    this.#counters.evicted += 1;
    await this.#close(oldest[1], "broken");
  }

  #take(runId: string): Watched | undefined {
    const model = this.#open.get(runId);
    if (model === undefined) this.#counters.unmatchedEnds += 1;
    this.#open.delete(runId);
    return model;
  }

  async #close(model: Watched, answer: "ended" | "broken", failure?: { readonly error: unknown }): Promise<void> {
    recordToolCalls(model, model.stream, answer);
    this.#counters.toolCallsDropped += model.stream.dropped;
    await model.end(failure);
  }

  /** Ends what is still open when whoever lent the handler is done with it. */
  async abandonOpen(): Promise<void> {
    for (const [id, model] of this.#open) await this.#abandon(id, model);
  }

  // LangChain tells nobody when a stream is left before its end. The run around the call does end.
  async #abandonUnder(runId: string): Promise<void> {
    for (const [id, model] of this.#open) if (model.parentRunId === runId) await this.#abandon(id, model);
  }

  async #abandon(id: string, model: Watched): Promise<void> {
    this.#open.delete(id);
    this.#counters.abandoned += 1;
    await this.#close(model, "broken");
  }
}

/** The model's name as LangChain's own tracing parameters say it, else as the provider's request does, else the class. */
function modelName(
  model: Serialized,
  extraParams: Record<string, unknown> | undefined,
  metadata: Record<string, unknown> | undefined,
): string {
  const asked = objectOf(extraParams?.["invocation_params"]);
  return (
    textOf(metadata?.["ls_model_name"]) ??
    textOf(asked["model"]) ??
    textOf(asked["model_name"]) ??
    textOf(model.id?.at(-1)) ??
    "unknown"
  );
}
