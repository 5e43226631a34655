// Where a kill fell, read from PostgreSQL and the provider after the victim was struck: it changes nothing any more.
import type pg from "pg";
import type { PaymentsControl } from "../support/payments-client.ts";

export const KILL_PLACES = [
  "before the delivery was written",
  "admitted, before a checkpoint",
  "after a checkpoint, before the charge was claimed",
  "claimed, before the provider committed",
  "committed, before the completion was stored",
  "completed, before the run was marked",
  "after the run was finished",
] as const;
export type KillPlace = (typeof KILL_PLACES)[number];

type Parts = { readonly pool: pg.Pool; readonly payments: PaymentsControl };

export async function placeOf({ pool, payments }: Parts, runId: string, customer: string): Promise<KillPlace> {
  const { rows } = await pool.query<{
    status: string | null;
    step: number | null;
    effect: string | null;
    deliveries: number;
  }>(
    `select (select status from reprise.runs where run_id = $1) as status,
       (select latest_step from reprise.runs where run_id = $1) as step,
       (select state from reprise.effects where run_id = $1) as effect,
       (select count(*)::int from reprise.deliveries where run_id = $1) as deliveries`,
    [runId],
  );
  const row = rows[0];
  const charged = (await payments.charges(customer)).length > 0;
  if (row === undefined || row.deliveries === 0) return "before the delivery was written";
  if (row.status === "finished") return "after the run was finished";
  if (row.effect === "done") return "completed, before the run was marked";
  // A mutant has no ledger row: what the provider knows places it all the same.
  if (charged) return "committed, before the completion was stored";
  if (row.effect === "reserved") return "claimed, before the provider committed";
  return row.step === null ? "admitted, before a checkpoint" : "after a checkpoint, before the charge was claimed";
}
