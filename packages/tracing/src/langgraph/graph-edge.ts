// The function of a conditional edge, hearing the models it calls. It gets no span: it is part of the step that ends with it.

import { Runnable, type RunnableConfig } from "@langchain/core/runnables";
import { PRODUCT } from "../product.ts";
import { hearingModels } from "./model-hearing.ts";

/** Stands where the edge's own Runnable stood (Branch.path, langgraph dist/graph/graph.js), which is looked up at each call. */
export class HearingEdge extends Runnable {
  override lc_namespace: string[] = [PRODUCT.name, "tracing"];
  readonly #inner: Runnable;

  constructor(inner: Runnable) {
    super();
    this.#inner = inner;
  }

  override invoke(input: unknown, config?: Partial<RunnableConfig>): Promise<unknown> {
    return hearingModels(config, (heard) => this.#inner.invoke(input, heard));
  }
}
