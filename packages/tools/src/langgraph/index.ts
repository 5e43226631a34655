// What @reprise/tools/langgraph offers: the scope of a run, the model boundary, the barrier, and closing what a stopped run left.

export { type CallEvidence, type CallToCheck, passBarrier } from "./barrier.ts";
export { type FoundCall, findCall, type SendPayload } from "./barrier-input.ts";
export { BarrierSaver, type BarrierSaverOptions, type CheckpointRef, isBarrierSaver } from "./barrier-saver.ts";
export { restoreProviderIds, stampCalls } from "./boundary.ts";
export { type CallRecord, type CallRefSource, callRecords } from "./boundary-ids.ts";
export {
  type ModelBoundary,
  type ModelBoundaryOptions,
  type ModelRequestLike,
  modelBoundary,
  type ToolRequestLike,
  type WithReprise,
  type WithRepriseParts,
  withReprise,
} from "./boundary-middleware.ts";
export { type CloseCallsRequest, closeCalls } from "./close-calls.ts";
export { type EffectScope, effectScope, withEffects } from "./scope.ts";
