// `reprise settle <call>`: a person's word on a call whose outcome nobody knows, with how they know it.
import { type ListedEffect, listEffects, RESULT_BYTES_MAX, settleManually } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import type pg from "pg";
import { operatorName } from "./cli-by.ts";
import { placeOf, withDatabase } from "./cli-database.ts";
import { invalid, jsonOption } from "./cli-options.ts";
import { stateOf } from "./cli-run.ts";
import { WorkerError } from "./errors.ts";

/** Calls of one id; more than one thread may have given it. */
const FOUND_MAX = 20;
const EVIDENCE_MAX = 2_000;

export interface SettleOptions {
  readonly succeeded?: true;
  readonly failed?: true;
  readonly evidence?: string;
  readonly result?: string;
  readonly effect?: string;
  readonly thread?: string;
  readonly by?: string;
  readonly json?: true;
}

/** @throws WorkerError CALL_UNKNOWN, CALL_AMBIGUOUS, SETTLE_REFUSED, CONFIG_INVALID */
export async function settle(call: string, options: SettleOptions): Promise<void> {
  const word = wordOf(options);
  await withDatabase("settle", async (pool) => {
    const effect = await theCall(pool, call, options.thread);
    requireOpen(effect);
    const { key, fence } = effect;
    const answer = await settleManually(pool, { key, fence, by: options.by ?? operatorName(), ...word });
    if (answer.state === "refused") throw refused(effect, "it was claimed or settled by somebody else just now");
    const settled = {
      call: effect.tool_call_id,
      tool: effect.tool,
      thread_id: effect.thread_id,
      was: effect.state,
      state: word.outcome,
    };
    process.stdout.write(options.json === true ? `${JSON.stringify(settled)}\n` : sentence(effect, word.outcome));
  });
}

type Word =
  | { readonly outcome: "done"; readonly evidence: string; readonly resultJson?: string; readonly effectRef?: string }
  | { readonly outcome: "failed"; readonly evidence: string };

function wordOf(options: SettleOptions): Word {
  if ((options.succeeded === true) === (options.failed === true))
    throw invalid("say what happened: --succeeded or --failed");
  const evidence = options.evidence?.trim() ?? "";
  if (evidence === "" || evidence.length > EVIDENCE_MAX) {
    throw invalid(
      `--evidence must say how you know, in 1 to ${EVIDENCE_MAX} characters: a link, a ticket, what the provider's log shows`,
    );
  }
  if (options.failed === true) {
    if (options.result !== undefined || options.effect !== undefined)
      throw invalid("--result and --effect belong to --succeeded");
    return { outcome: "failed", evidence };
  }
  if (options.result !== undefined && Buffer.byteLength(options.result) > RESULT_BYTES_MAX) {
    throw invalid(`--result has more than ${RESULT_BYTES_MAX} bytes; it is what the model reads`);
  }
  return {
    outcome: "done",
    evidence,
    ...(options.result === undefined ? {} : { resultJson: jsonOption("--result", options.result) }),
    ...(options.effect === undefined ? {} : { effectRef: options.effect }),
  };
}

async function theCall(pool: pg.Pool, call: string, threadId: string | undefined): Promise<ListedEffect> {
  const found = await listEffects(pool, { call, max: FOUND_MAX, ...(threadId === undefined ? {} : { threadId }) });
  const [first] = found;
  if (first === undefined) {
    const where = threadId === undefined ? placeOf() : `thread ${threadId} of ${placeOf()}`;
    const text = `no call "${call}" in ${where}; \`${PRODUCT.name} effects --unknown\` lists the calls that wait for a person`;
    throw new WorkerError("CALL_UNKNOWN", text);
  }
  if (found.length > 1) {
    const list = found.map((effect) => `${effect.thread_id} (${effect.tool}, ${stateOf(effect)})`).join(", ");
    throw new WorkerError(
      "CALL_AMBIGUOUS",
      `${found.length} threads have a call "${call}": ${list}. Name one with --thread`,
    );
  }
  return first;
}

function requireOpen(effect: ListedEffect): void {
  switch (effect.state) {
    case "unknown":
      return;
    case "reserved":
      if (effect.lease_over) return;
      throw refused(effect, `${effect.holder} is at it, under a lease that still runs: wait for its end`);
    case "done":
    case "failed":
      throw refused(effect, `it is ${effect.state} already (${effect.evidence ?? "by its own execution"})`);
    default:
      effect.state satisfies never;
  }
}

function refused(effect: ListedEffect, why: string): WorkerError {
  const next = `\`${PRODUCT.name} run ${effect.run_id}\` shows how it stands`;
  return new WorkerError(
    "SETTLE_REFUSED",
    `call ${effect.tool_call_id} (${effect.tool}) was not settled: ${why}; ${next}`,
  );
}

function sentence(effect: ListedEffect, outcome: Word["outcome"]): string {
  const then =
    outcome === "done"
      ? "the next delivery of the call replays this result and sends nothing"
      : "the next delivery of the call tells the model that it failed, and sends nothing; what to do then is the model's choice";
  return `call ${effect.tool_call_id} (${effect.tool}) is ${outcome}; it was ${stateOf(effect)}. ${then[0]?.toUpperCase()}${then.slice(1)}.\n`;
}
