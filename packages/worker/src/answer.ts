// Human answers: recorded before use, so that the same answer again is recognised and another one refused.
import type { Queryable } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { z } from "zod";
import type { AnswerEvidence } from "./graph-resume.ts";
import type { ThreadState } from "./graph-state.ts";
import type { AnswerRequest } from "./message.ts";

const s = PRODUCT.schema;

/**
 * Looks the answer up, and records it when its interrupt is pending now. Killed after this and before the resume, the next
 * delivery finds it recorded with the same value and the interrupt still pending, and uses it then. An answer to an
 * interrupt that is not pending is not recorded: nobody may reserve the answer of a later question.
 */
export async function recordAnswer(
  db: Queryable,
  request: AnswerRequest,
  { state, deliveryId }: { readonly state: ThreadState; readonly deliveryId: string },
): Promise<AnswerEvidence> {
  const { interruptId, valueHash, runId } = request;
  const pending = state.head?.runId === runId && state.head.pendingInterruptIds.includes(interruptId);
  const { rows } = await db.query(
    `with found as (select value_hash from ${s}.answers where interrupt_id = $1 and run_id = $2),
     added as (
       insert into ${s}.answers (interrupt_id, run_id, value_hash, delivery_id)
       select $1, $2, $3, $4 where $5 and not exists (select 1 from found)
       on conflict (interrupt_id) do nothing returning value_hash
     )
     select (select value_hash from found) as found, (select value_hash from added) as added`,
    [interruptId, runId, valueHash, deliveryId, pending],
  );
  const { found, added } = z.object({ found: z.string().nullable(), added: z.string().nullable() }).parse(rows[0]);
  if (added !== null) return { interruptId, recorded: "no" };
  if (found === null) return { interruptId, recorded: "no" };
  return { interruptId, recorded: found === valueHash ? "same" : "other" };
}

/** Notes the use; written under the thread's lease, right before the graph is resumed with it. */
export async function useAnswer(db: Queryable, interruptId: string): Promise<void> {
  await db.query(`update ${s}.answers set used_at = coalesce(used_at, clock_timestamp()) where interrupt_id = $1`, [
    interruptId,
  ]);
}
