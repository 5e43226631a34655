// Tracing for LangGraph, in the order a run meets it: checkpoints, nodes, models.

export type { CheckpointOrigin } from "./checkpoint-metadata.ts";
export { countingSerde } from "./counting-serde.ts";
export { NODE_BODIES, type OnNodeBody } from "./graph-node.ts";
export { type ModelCallOptions, traceModelCall } from "./model-call.ts";
export {
  type ModelSpanCounters,
  type ModelSpanHandler,
  type ModelSpanHandlerOptions,
  modelSpanHandler,
} from "./model-handler.ts";
export { hearingModels, MODEL_SPANS, selfHearing } from "./model-hearing.ts";
export { traceGraph } from "./traced-graph.ts";
export { TracedSaver, type TracedSaverOptions } from "./traced-saver.ts";
