// What the kit and a holder say to each other over the process's channel.
import type { EffectPolicy } from "../effect.ts";
import type { Point } from "./points.ts";

export type ToHolder =
  | { readonly kind: "prepare"; readonly databaseUrl: string; readonly setup: boolean }
  | { readonly kind: "deliver"; readonly delivery: Delivery }
  /** Leave the point at which it stands. */
  | { readonly kind: "go" };

/** One delivery of the run that makes the call: the first starts it, later ones resume it. */
export interface Delivery {
  /** Name of the tool that is called. */
  readonly tool: string;
  /** Names the thread, and stands in the tool's arguments so that the provider can count by it. */
  readonly mark: string;
  readonly stopAt?: Point;
  /** The ledger's lease in this play; a table of 30-second leases would take hours. */
  readonly leaseMs: number;
  /** Overrides the profile's retention: the deliberate retry wants the call sent again. */
  readonly retentionMs?: number;
}

export interface LoadedTool {
  readonly name: string;
  /** Absent for a tool that `defineTool` did not make. */
  readonly policy?: EffectPolicy;
}

export type FromHolder =
  | { readonly kind: "loaded"; readonly tools: readonly LoadedTool[] }
  | { readonly kind: "prepared" }
  | { readonly kind: "at"; readonly point: Point }
  | ({ readonly kind: "ended" } & DeliveryEnd);

export interface DeliveryEnd {
  /** What the model reads about the call; absent when the delivery ended before there was a reply. */
  readonly told?: "done" | "failed" | "unknown";
  readonly callId?: string;
  /** The error with which the graph ended, as text. */
  readonly error?: string;
}
