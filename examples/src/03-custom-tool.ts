// Example 3 - a tool of your own whose provider knows no idempotency keys: once, or honestly unknown, and then looked up.
import { ToolMessage } from "@langchain/core/messages";
import { defineTool } from "@reprise/tools";
import { defineAgent, toolAgent } from "@reprise/worker";
import { z } from "zod";
import { connectPayments } from "./support/payments-client.ts";
import { spawnPayments } from "./support/payments-process.ts";
import { check, withScene } from "./support/scene.ts";
import { ScriptedModel } from "./support/scripted-model.ts";

const provider = await spawnPayments();
const payments = connectPayments(provider.url);

// The refund is marked with the call's key in its memo, so that it can be found again. The provider itself ignores the memo.
const refund = defineTool({
  name: "refund",
  description: "Refund an order of a customer",
  schema: z.object({ customer: z.string(), amount_cents: z.number().int().positive() }),
  effect: "lookup",
  lookup: async ({ key }) => {
    const made = (await payments.charges()).find((charge) => charge.memo === key);
    return made === undefined
      ? { status: "absent" }
      : { status: "found", value: { refund: made.id }, effectRef: made.id };
  },
  run: async ({ customer, amount_cents }, { key, fetch, signal }) => {
    const body = JSON.stringify({ customer, amount: amount_cents, currency: "eur", memo: key });
    const response = await fetch(`${provider.url}/v1/charges`, { method: "POST", body, signal });
    if (!response.ok) throw new Error(`the provider answered ${response.status}`);
    return response.json();
  },
});

/** The model does what a good model does with the reply it gets: it looks the call up instead of asking again. */
const model = new ScriptedModel({
  turns: [
    { calls: [{ name: "refund", args: { customer: "cus_1", amount_cents: 1200 } }] },
    (messages) => {
      const reply: { call: string } = JSON.parse(
        String(messages.findLast((message) => message instanceof ToolMessage)?.text),
      );
      return { calls: [{ name: "get_refund_status", args: { call: reply.call } }] };
    },
    (messages) => ({ text: messages.at(-1)?.text ?? "" }),
  ],
});
const agent = defineAgent({ name: "refunds", graph: toolAgent({ model, tools: [refund] }) });

try {
  await withScene([agent], async ({ ask, pool }) => {
    // The refund happens, and its answer is lost on the way.
    await payments.arm({ kind: "commit_then_reset", times: 1 });
    const run = await ask("refunds", "Refund cus_1.");
    process.stdout.write(`${String(run.result)}\n`);
    check(run.status === "finished", "the run finished although its tool's outcome was unknown at first");
    check((await payments.charges("cus_1")).length === 1, "the provider refunded once");
    const { rows } = await pool.query("select state, policy, evidence from reprise.effects");
    check(
      rows.length === 1 && rows[0].state === "done",
      "the ledger's row was settled by the lookup, not by a second try",
    );
  });
} finally {
  await provider.stop();
}
