// The same charge under each policy, and without any: what the crash table strikes.
import { randomUUID } from "node:crypto";
import { tool } from "@langchain/core/tools";
import { defineTool, type EffectPolicy } from "@reprise/tools";
import type { HeldTool } from "@reprise/tools/testing";
import { readExampleEnvironment } from "../support/env.ts";
import type { Charge } from "../support/payments-charge.ts";
import { connectPayments } from "../support/payments-client.ts";
import { type ChargeArguments, chargeSchema, chargeSubscription, chargeUnderKey } from "../support/payments-tools.ts";

/** In the order of the table's rows. */
export const SUBJECTS = ["no ledger", "none", "keyed", "lookup", "once"] as const satisfies readonly (
  | EffectPolicy
  | "no ledger"
)[];
export type Subject = (typeof SUBJECTS)[number];

function providerUrl(): string {
  return readExampleEnvironment().paymentsUrl ?? "";
}

/** A charge without a key; `memo` is what a lookup finds it by. */
async function charge(send: typeof fetch, args: ChargeArguments, memo: string | null): Promise<{ charge: string }> {
  const body = JSON.stringify({ customer: args.customer, amount: args.amount_cents, currency: "eur", memo });
  const response = await send(`${providerUrl()}/v1/charges`, { method: "POST", body });
  if (!response.ok) throw new Error(`the payment provider answered ${response.status}`);
  // The provider stands in this folder's neighbour; its reply is a Charge.
  return { charge: ((await response.json()) as Charge).id };
}

const common = { description: "Charge a customer", schema: chargeSchema };

/** A LangChain tool as most are: it makes a key at the moment of the request. */
const bare = tool(async (args: ChargeArguments) => JSON.stringify(await chargeUnderKey(args, randomUUID())), {
  ...common,
  name: "charge_bare",
});

const once = defineTool({
  ...common,
  name: "charge_once",
  effect: "once",
  run: (args, { fetch }) => charge(fetch, args, null),
});

/** The wrong policy for a charge, to show what it does not promise. */
const none = defineTool({
  ...common,
  name: "charge_as_read",
  effect: "none",
  run: (args, { fetch }) => charge(fetch, args, null),
});

const lookup = defineTool({
  ...common,
  name: "charge_and_look",
  effect: "lookup",
  lookup: async ({ key }) => {
    const made = (await connectPayments(providerUrl()).charges()).find(({ memo }) => memo === key);
    return made === undefined ? { status: "absent" } : { status: "found", value: { charge: made.id } };
  },
  run: (args, { fetch, key }) => charge(fetch, args, key),
});

export function toolOf(subject: Subject): HeldTool["tool"] {
  switch (subject) {
    case "no ledger":
      return bare;
    case "none":
      return none;
    case "keyed":
      return chargeSubscription;
    case "lookup":
      return lookup;
    case "once":
      return once;
    default:
      return subject satisfies never;
  }
}
