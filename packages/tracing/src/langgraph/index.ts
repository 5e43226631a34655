// Tracing for LangGraph, in the order a run meets it: checkpoints, nodes, models.

export type { CheckpointOrigin } from "./checkpoint-metadata.ts";
export { countingSerde } from "./counting-serde.ts";
export { TracedSaver, type TracedSaverOptions } from "./traced-saver.ts";
