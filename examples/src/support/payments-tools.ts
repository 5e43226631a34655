// The tools of the billing agents: one read, one charge under the derived key, and the same charge done naively.
import { randomUUID } from "node:crypto";
import { tool } from "@langchain/core/tools";
import { defineTool, EffectFailed, type ProviderProfile, stripeProfile } from "@reprise/tools";
import { z } from "zod";
import { PAYMENTS_VARIABLE, readExampleEnvironment } from "./env.ts";
import type { Charge } from "./payments-charge.ts";

export const chargeSchema = z.object({
  customer: z.string().describe("customer id, like cus_8123"),
  amount_cents: z.number().int().positive().describe("amount in cents"),
  memo: z.string().optional(),
});
export type ChargeArguments = z.infer<typeof chargeSchema>;

/** Read when a tool runs, so that importing an agent needs no provider. */
function paymentsUrl(): string {
  const { paymentsUrl: url } = readExampleEnvironment();
  if (url === undefined) throw new EffectFailed(`${PAYMENTS_VARIABLE} is not set; nothing was sent`);
  return url;
}

function post(
  send: typeof fetch,
  args: ChargeArguments,
  options: { readonly key?: string; readonly signal: AbortSignal | undefined },
): Promise<Response> {
  return send(`${paymentsUrl()}/v1/charges`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(options.key === undefined ? {} : { "idempotency-key": options.key }),
    },
    body: JSON.stringify({
      customer: args.customer,
      amount: args.amount_cents,
      currency: "eur",
      memo: args.memo ?? null,
    }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
}

async function chargeOf(response: Response): Promise<Charge> {
  const text = await response.text();
  if (!response.ok) throw new Error(`the payment provider answered ${response.status}: ${text.slice(0, 200)}`);
  // The provider stands in this folder; its reply is a Charge.
  return JSON.parse(text) as Charge;
}

/** A read: no ledger, no key; repeating it changes nothing. */
export const getPlan = defineTool({
  name: "get_plan",
  description: "The plan and the price of a customer",
  schema: z.object({ customer: z.string() }),
  effect: "none",
  run: async ({ customer }) => ({ customer, plan: "pro", amount_cents: 4900 }),
});

/** What the provider beside this file promises: a key lives for 24 hours, and the first answer is given again. */
const paymentsProfile: ProviderProfile = { ...stripeProfile, source: "examples/src/support/payments-book.ts" };

/** The charge, once: the key is derived from the call, `fetch` puts it on the wire, the ledger keeps the outcome. */
export const chargeSubscription = defineTool({
  name: "charge_subscription",
  description: "Charge a customer for the subscription",
  schema: chargeSchema,
  effect: "keyed",
  profile: paymentsProfile,
  run: async (args, { fetch, signal }) => {
    const charge = await chargeOf(await post(fetch, args, { signal }));
    return { charge: charge.id, amount_cents: charge.amount };
  },
  effectRef: (value) => `charge=${z.object({ charge: z.string() }).parse(value).charge}`,
});

/** One charge under whatever key it is given, with nothing around it. */
export async function chargeUnderKey(
  args: ChargeArguments,
  key: string,
): Promise<{ readonly charge: string; readonly amount_cents: number }> {
  const charge = await chargeOf(await post(fetch, args, { key, signal: undefined }));
  return { charge: charge.id, amount_cents: charge.amount };
}

/** What the seed calls the failure mode dressed up as the fix: a key, made at the moment of the request. */
export const chargeNaively = tool(
  async (args: ChargeArguments) => JSON.stringify(await chargeUnderKey(args, randomUUID())),
  { name: "charge_subscription", description: "Charge a customer for the subscription", schema: chargeSchema },
);
