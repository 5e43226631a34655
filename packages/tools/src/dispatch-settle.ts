// Records how an execution ended, and keeps trying for a moment: the gap between effect and record is the one nothing closes.
import { diag } from "@opentelemetry/api";
import type { Clock } from "./dispatch-body.ts";
import type { Ledger, SettleAnswer, Settlement } from "./effect.ts";
import { messageOf } from "./errors.ts";

const PAUSES_MS = [50, 250] as const;

/**
 * `unrecorded` when the ledger could not be reached. The caller still tells the model what it saw, for that is true; the row
 * stays reserved, and whoever claims next treats it by its policy (B13).
 */
export async function settle(
  ledger: Ledger,
  settlement: Settlement,
  clock: Clock,
): Promise<SettleAnswer | "unrecorded"> {
  for (const pauseMs of [...PAUSES_MS, undefined]) {
    try {
      return await ledger.settle(settlement);
    } catch (error) {
      if (pauseMs !== undefined) {
        await clock.sleep(pauseMs);
        continue;
      }
      diag.error(
        `an effect ended ${settlement.outcome} and could not be recorded; its row stays reserved: ${messageOf(error)}`,
      );
    }
  }
  return "unrecorded";
}
