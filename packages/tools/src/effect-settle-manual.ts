// An operator's word on a call whose outcome nobody knows: fenced like an execution's own, and kept with its evidence.
import { PRODUCT } from "@reprise/tracing";
import type { Fence } from "./effect.ts";
import type { Queryable } from "./fence.ts";

const EFFECTS = `${PRODUCT.schema}.effects`;

/** What a person found out, and how. */
export type ManualSettlement = {
  readonly key: string;
  /** Of the row that the person looked at: whoever has claimed since makes this word outdated. */
  readonly fence: Fence;
  /** Who says so. */
  readonly by: string;
  /** How they know: a link, a ticket, what the provider's log shows. */
  readonly evidence: string;
} & (
  | {
      readonly outcome: "done";
      /** What the model is told on replay, as JSON of at most `RESULT_BYTES_MAX`; PostgreSQL refuses more. Default: that a person found the call done, and how. */
      readonly resultJson?: string;
      readonly effectRef?: string;
    }
  | { readonly outcome: "failed" }
);

/** `refused`: it is settled, its holder's lease runs, or another execution has claimed it since it was looked at. */
export type ManualAnswer = { readonly state: "settled" } | { readonly state: "refused" };

/*
 * Only what nobody can be at any more: unknown, or reserved under a lease that is over. The fence stays as it is: a holder
 * that wakes and says the same is believed, one that says the opposite is kept as late (SETTLE of the ledger). The executions
 * stay open: when they ended is still not known. $1 key $2 fence $3 outcome $4 result $5 reference $6 detail $7 evidence
 */
const SETTLE_MANUALLY = `
  update ${EFFECTS} e set state = $3, settled_at = clock_timestamp(), unknown_at = null, result = $4, result_sha256 = null,
    result_bytes = null, result_ref = null, effect_ref = coalesce($5, e.effect_ref), detail = $6,
    evidence = concat_ws('; ', e.evidence, $7::text)
  where e.key = $1 and e.fence = $2::bigint
    and (e.state = 'unknown' or (e.state = 'reserved' and e.lease_until <= clock_timestamp()))
  returning e.key`;

/** The next delivery of the call replays it: `replay` with the result, or `replay_failure` with the evidence. */
export async function settleManually(db: Queryable, settlement: ManualSettlement): Promise<ManualAnswer> {
  const { key, fence, outcome } = settlement;
  const by = textOf(settlement.by);
  const evidence = textOf(settlement.evidence);
  const detail = `A person found that this call did not take effect: ${evidence}`;
  const values = [
    key,
    fence,
    outcome,
    outcome === "done" ? resultOf(settlement.resultJson, evidence) : null,
    outcome === "done" && settlement.effectRef !== undefined ? textOf(settlement.effectRef) : null,
    outcome === "failed" ? detail : null,
    `${by}: ${evidence}`,
  ];
  const { rows } = await db.query(SETTLE_MANUALLY, values);
  return { state: rows.length === 1 ? "settled" : "refused" };
}

function resultOf(json: string | undefined, evidence: string): string {
  return json ?? JSON.stringify({ status: "done", detail: `A person found that this call took effect: ${evidence}` });
}

/** PostgreSQL's text holds no NUL (E01). */
function textOf(text: string): string {
  return text.replaceAll("\0", "\uFFFD");
}
