// What @reprise/tools offers, in the order a call meets it.

export { defineTool, type EffectOptions, EffectTool, type ToolDefinition, toolsOf } from "./define-tool.ts";
export { type WrapOptions, wrappedContext, wrapTool } from "./define-tool-wrap.ts";
export type { Lookup, LookupResult, ToolContext } from "./dispatch-call.ts";
export type {
  ClaimDecision,
  Echo,
  EchoQuery,
  EffectClaim,
  EffectOwner,
  EffectPolicy,
  EffectRow,
  EffectState,
  ExecutionEvidence,
  Fence,
  Ledger,
  OpenExecution,
  RecordedPolicy,
  SettleAnswer,
  Settlement,
  StoredResult,
  WonDecision,
} from "./effect.ts";
export { type EffectSelection, type ListedEffect, listEffects } from "./effect-list.ts";
export { MemoryLedger, type MemoryLedgerOptions } from "./effect-memory.ts";
export { PostgresLedger, type PostgresLedgerOptions } from "./effect-postgres.ts";
export { RESULT_BYTES_MAX, storeResult } from "./effect-result.ts";
export type { ResultStore } from "./effect-result-store.ts";
export { type ManualAnswer, type ManualSettlement, settleManually } from "./effect-settle-manual.ts";
export {
  CallRefused,
  EffectFailed,
  EffectUnknown,
  ERROR_CODES,
  FenceLost,
  InvalidKeyPart,
  type RefusalCode,
  RunAborted,
  ToolsError,
  type ToolsErrorCode,
} from "./errors.ts";
export {
  ASSERT_FENCE_SQL,
  acquireFence,
  FENCE_LOST_SQLSTATE,
  type FenceAnswer,
  type FenceRef,
  type FenceRequest,
  isFenceLostError,
  type Queryable,
  releaseFence,
  renewFence,
} from "./fence.ts";
export type { FencedStatement } from "./fence-client.ts";
export { type FencedPoolOptions, fencedPool } from "./fence-pool.ts";
export { deriveKey, fingerprintArgs, keyUuid, subKey } from "./key.ts";
export { type MigrateOptions, type Migration, migrate } from "./migrate.ts";
export { toolsMigrations } from "./migrate-tools.ts";
export { ietfProfile, type ProviderProfile, resendDeadlineOf, stripeProfile } from "./profiles.ts";
export {
  adyenProfile,
  checkoutComProfile,
  googleProfile,
  type PayPalEndpoint,
  paypalProfile,
  qontoProfile,
  resendProfile,
  shopifyProfile,
  squareProfile,
  telnyxProfile,
  trueLayerProfile,
} from "./profiles-providers.ts";
export { doneReply, failedReply, type ReplyTo, replayReply, statusToolName, unknownReply } from "./reply.ts";
