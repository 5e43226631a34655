// Holds the tools of testing-kit.real.test.ts, sound ones and one for each way to get the key wrong.
import { randomUUID } from "node:crypto";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { z } from "zod";
import { defineTool } from "../src/define-tool.ts";
import { stripeProfile } from "../src/profiles.ts";
import { holdTools } from "../src/testing/holder.ts";

const url = process.env["PROVIDER_URL"] ?? "";
const schema = z.object({ order: z.string() });
const common = { description: "Ships an order.", schema };

const ship = defineTool({
  ...common,
  name: "ship",
  effect: "keyed",
  profile: stripeProfile,
  run: async ({ order }, { fetch }) => (await fetch(`${url}/orders/${order}`, { method: "POST" })).json(),
});

/** What several SDKs do when nobody hands them the key. */
const mintsItsOwn = defineTool({
  ...common,
  name: "mints_its_own",
  effect: "keyed",
  profile: stripeProfile,
  run: async ({ order }, { fetch }) => {
    const headers = { "idempotency-key": randomUUID() };
    return (await fetch(`${url}/orders/${order}`, { method: "POST", headers })).json();
  },
});

/** Its requests never pass the gateway. */
const elsewhere = defineTool({ ...common, name: "elsewhere", effect: "once", run: async () => "shipped" });

const lookup = defineTool({
  ...common,
  name: "ship_and_look",
  effect: "lookup",
  lookup: async ({ key, fetch }) => {
    const answer = z.object({ made: z.array(z.object({ id: z.string() })) });
    const { made } = answer.parse(await (await fetch(`${url}/orders?contains=${key}`)).json());
    return made[0] === undefined ? { status: "absent" } : { status: "found", value: made[0] };
  },
  run: async ({ order }, { fetch, key }) =>
    (await fetch(`${url}/orders/${order}`, { method: "POST", body: JSON.stringify({ marker: key }) })).json(),
});

holdTools({
  tools: [ship, mintsItsOwn, elsewhere, lookup].map((tool) => ({ tool, args: (mark) => ({ order: mark }) })),
  saver: (pool) => new PostgresSaver(pool),
});
