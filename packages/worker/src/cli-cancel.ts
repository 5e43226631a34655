// `reprise cancel <run>`: ends a run that nobody drives, asks the worker of one that is driven, and can wait for the end.
import { PRODUCT } from "@reprise/tracing";
import type pg from "pg";
import { withDatabase } from "./cli-database.ts";
import { wholeOption } from "./cli-options.ts";
import { unknownRun } from "./cli-run.ts";
import { WorkerError } from "./errors.ts";
import { pause } from "./intake-pause.ts";
import { type CancelAnswer, requestCancel } from "./run-cancel.ts";

const ASK_AGAIN_MS = 500;
const WAIT_SECONDS_MAX = 86_400;

export interface CancelOptions {
  readonly reason?: string;
  readonly wait: string;
  readonly json?: true;
}

/** @throws WorkerError RUN_UNKNOWN, RUN_ENDED */
export async function cancel(runId: string, options: CancelOptions): Promise<void> {
  const waitSeconds = wholeOption("--wait", options.wait, { min: 0, max: WAIT_SECONDS_MAX });
  await withDatabase("cancel", async (pool) => {
    const answer = await askUntilEnded(pool, runId, {
      reason: options.reason,
      untilMs: Date.now() + waitSeconds * 1000,
    });
    const line = options.json === true ? JSON.stringify({ run_id: runId, ...answer }) : sentence(runId, answer);
    process.stdout.write(`${line}\n`);
  });
}

type Cancelled = Extract<CancelAnswer, { state: "ended" | "asked" }> | { readonly state: "ended_before" };

async function askUntilEnded(
  pool: pg.Pool,
  runId: string,
  { reason, untilMs }: { readonly reason: string | undefined; readonly untilMs: number },
): Promise<Cancelled> {
  let asked = false;
  for (;;) {
    // The statement itself ends what a worker has let go meanwhile, so asking again is waiting.
    const answer = await requestCancel(pool, runId, reason);
    switch (answer.state) {
      case "unknown":
        throw await unknownRun(pool, runId);
      case "too_late":
        // By its worker while this waited, or by an earlier cancel: what was wished for is so.
        if (answer.status === "cancelled") return { state: "ended_before" };
        throw tooLate(runId, answer.status, asked);
      case "ended":
        return answer;
      case "asked":
        if (Date.now() >= untilMs) return answer;
        asked = true;
        await pause(ASK_AGAIN_MS, undefined);
        break;
      default:
        answer satisfies never;
    }
  }
}

function tooLate(runId: string, status: string, asked: boolean): WorkerError {
  const what = asked ? `ended as ${status} before the request reached it` : `is ${status} already`;
  const next = `what it did stands; \`${PRODUCT.name} run ${runId}\` shows it, with its effects`;
  return new WorkerError("RUN_ENDED", `run ${runId} ${what}, so there is nothing to cancel; ${next}`);
}

function sentence(runId: string, answer: Cancelled): string {
  switch (answer.state) {
    case "ended": {
      const unknown = answer.effectsLeftUnknown;
      const calls =
        unknown === 0 ? "" : `; ${unknown} of its calls are now unknown (\`${PRODUCT.name} effects --unknown\`)`;
      return `run ${runId} is cancelled; it was ${answer.before}${calls}`;
    }
    case "ended_before":
      return `run ${runId} is cancelled (\`${PRODUCT.name} run ${runId}\` shows its effects)`;
    case "asked":
      return `run ${runId} is asked to end; ${answer.worker} drives it and learns it with its next beat or step. --wait <seconds> waits for that`;
    default:
      return answer satisfies never;
  }
}
