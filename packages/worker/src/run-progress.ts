// Whether a run gets anywhere: the deliveries it lost in, how its next one may work out. Pure; the rows come from delivery-rows.ts.

/** A lost delivery that counts against the run, as its row tells it. */
export interface LostWork {
  /** The run's latest checkpoint when the delivery began; undefined before the first. */
  readonly checkpointAtBegin: string | undefined;
  /** It had its worker to itself. */
  readonly alone: boolean;
}

/** Where the run stands now. Steps are LangGraph's numbers on the thread, which an earlier run may have moved on. */
export interface Standing {
  readonly firstStep: number | undefined;
  readonly latestStep: number | undefined;
  readonly latestCheckpointId: string | undefined;
}

export interface LostDelivery {
  readonly progressed: boolean;
  readonly alone: boolean;
}

export type Progress =
  | { readonly state: "together" }
  | { readonly state: "alone"; readonly reason: string }
  | { readonly state: "parked"; readonly code: "NO_PROGRESS"; readonly reason: string };

/** LangGraph writes its input and its start before any node of the graph ran: the first work is this many steps later. */
const STEPS_BEFORE_WORK = 2;

/** A delivery progressed when the run's latest checkpoint is another one than at its begin, and some node's work stands in it. */
export function progressOf(lost: LostWork, run: Standing): LostDelivery {
  const worked =
    run.firstStep !== undefined && run.latestStep !== undefined && run.latestStep >= run.firstStep + STEPS_BEFORE_WORK;
  return { progressed: worked && run.latestCheckpointId !== lost.checkpointAtBegin, alone: lost.alone };
}

/**
 * Lost once without progress, a run may have been a neighbour's victim or the one that kills: alone, only it can be. Lost
 * alone without progress, it is parked (cases B09, C18). Deliveries that died before they had the worker to themselves prove
 * nothing more; the fault limit ends a row of them.
 *
 * @param lost most recent first; hand-backs, deferrals and failed deliveries are not among them
 */
export function decideProgress(lost: readonly LostDelivery[]): Progress {
  const lastProgress = lost.findIndex((delivery) => delivery.progressed);
  const stuck = lastProgress === -1 ? lost : lost.slice(0, lastProgress);
  if (stuck.length === 0) return { state: "together" };
  if (stuck.some((delivery) => delivery.alone)) {
    const reason = `${stuck.length} lost deliveries without a new checkpoint, one of them alone on its worker`;
    return { state: "parked", code: "NO_PROGRESS", reason };
  }
  const deliveries = stuck.length === 1 ? "a lost delivery" : `${stuck.length} lost deliveries`;
  return { state: "alone", reason: `alone on this worker after ${deliveries} without a new checkpoint` };
}
