// What @reprise/tools/testing offers: the conformance kit for tools, from the program that holds one to the printed table.

export {
  type CountedProvider,
  type CountingProvider,
  type CountingProviderOptions,
  type MadeEffect,
  startCountingProvider,
} from "./counting-provider.ts";
export { type HeldTool, type HeldTools, holdTools } from "./holder.ts";
export { type CheckToolsOptions, type ConformanceReport, checkTools } from "./kit.ts";
export type { Played } from "./kit-lane.ts";
export { crashTable } from "./kit-table.ts";
export { POINT_TITLES, POINTS, type Point, STRIKES, type Strike } from "./points.ts";
