// The whole path on a real server: fenced PostgresSaver, Postgres ledger, barrier. A run that dies or loses its thread mid-effect.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { PRODUCT } from "@reprise/tracing";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool, type EffectTool, toolsOf } from "../src/define-tool.ts";
import type { LookupResult, ToolContext } from "../src/dispatch-call.ts";
import type { EffectPolicy } from "../src/effect.ts";
import { PostgresLedger } from "../src/effect-postgres.ts";
import { acquireFence } from "../src/fence.ts";
import { fencedPool } from "../src/fence-pool.ts";
import { deriveKey } from "../src/key.ts";
import { BarrierSaver } from "../src/langgraph/barrier-saver.ts";
import { withEffects } from "../src/langgraph/scope.ts";
import { stripeProfile } from "../src/profiles.ts";
import { buildAgent, input, replies } from "./agent.ts";
import { openDatabase, type TestDatabase } from "./database.ts";

let database: TestDatabase;
let threadId: string;
/** What the provider did, by key: its own ledger, on nobody's transaction. */
let charged: Map<string, number>;
beforeAll(async () => {
  database = await openDatabase();
  await new PostgresSaver(database.pool).setup();
});
afterAll(() => database.close());
beforeEach(() => {
  threadId = randomUUID();
  charged = new Map();
});

type Body = (context: ToolContext) => Promise<unknown>;

function chargeTool(effect: EffectPolicy, body: Body): EffectTool {
  const lookup = async ({ key }: { readonly key: string }): Promise<LookupResult> =>
    charged.has(key) ? { status: "found", value: { id: "ch_found" } } : { status: "absent" };
  return defineTool({
    name: "charge",
    description: "Charges.",
    schema: z.object({}),
    effect,
    profile: stripeProfile,
    ...(effect === "lookup" ? { lookup } : {}),
    run: (_, context) => body(context),
  });
}

/** A provider that honours keys when `keyed`; else every request is an execution. */
const charge = (key: string, keyed: boolean): void => {
  charged.set(key, keyed ? 1 : (charged.get(key) ?? 0) + 1);
};

async function delivery(tool: EffectTool, leaseMs = 60_000) {
  const deliveryId = randomUUID();
  const answer = await acquireFence(database.pool, { threadId, runId: "run-1", deliveryId, owner: "o", leaseMs });
  if (!("fence" in answer)) throw new Error("held");
  const saver = new BarrierSaver(new PostgresSaver(fencedPool(database.pool, { threadId, fence: answer.fence })));
  const agent = buildAgent({ tools: toolsOf(tool), turns: [[{ name: "charge", id: "toolu_abc1", args: {} }]], saver });
  const ledger = new PostgresLedger(database.pool);
  const scope = { ledger, runId: "run-1", deliveryId, holder: "h", threadFence: answer.fence };
  const config = withEffects(scope, { configurable: { thread_id: threadId }, durability: "sync" as const });
  return { agent, config, ledger, deliveryId };
}

const loseLease = () =>
  database.pool.query(
    `update ${PRODUCT.schema}.thread_leases set expires_at = now() - interval '1 second' where thread_id = $1`,
    [threadId],
  );
/** Nothing that the present holder writes from here on is stored; whoever comes next gets the thread. */
const stealThread = async (): Promise<void> => {
  await loseLease();
  await acquireFence(database.pool, { threadId, runId: "x", deliveryId: "x", owner: "x", leaseMs: 0 });
};
const loseEffectLease = () =>
  database.pool.query(
    `update ${PRODUCT.schema}.effects set lease_until = now() - interval '1 second' where thread_id = $1`,
    [threadId],
  );
function signal(): { readonly fired: Promise<void>; readonly fire: () => void } {
  let fire: () => void = () => undefined;
  const fired = new Promise<void>((resolve) => {
    fire = resolve;
  });
  return { fired, fire: () => fire() };
}
const key = (): string => deriveKey(threadId, "toolu_abc1");

describe("a holder that loses its thread mid-effect", () => {
  it("keyed: the next delivery sends the same key at once, the provider executes once, the loser is proven late", async () => {
    const sent = signal();
    const go = signal();
    const first = await delivery(
      chargeTool("keyed", async (context) => {
        charge(context.key, true);
        sent.fire();
        await go.fired;
        return { id: "ch_1" };
      }),
    );
    // Outside the body: a graph that is invoked inside a task would become its subgraph.
    const losing = first.agent.invoke(input, first.config).catch((error: unknown) => error);
    await sent.fired;
    await loseLease();
    const body: Body = async (context) => {
      charge(context.key, true);
      return { id: "ch_1" };
    };
    const next = await delivery(chargeTool("keyed", body));
    expect(replies(await next.agent.invoke(null, next.config))).toEqual([{ id: "ch_1" }]);
    go.fire();
    expect(await losing).toMatchObject({ code: "FENCE_LOST" });
    expect([...charged]).toEqual([[key(), 1]]);
    expect(await first.ledger.find(key())).toMatchObject({ state: "done", executions: 2, seen: 2 });
    const executions = await database.pool.query(
      `select late, delivery_id from ${PRODUCT.schema}.effect_executions where key = $1 order by fence`,
      [key()],
    );
    expect(executions.rows).toMatchObject([{ late: true, delivery_id: first.deliveryId }, { late: false }]);
  });

  it.each([
    ["lookup, after the provider's commit", "lookup", true, [{ id: "ch_found" }]],
    ["lookup, before it: not found is unknown", "lookup", false, [{ status: "unknown" }]],
    ["once", "once", true, [{ status: "unknown" }]],
  ] as const)("%s: nothing is sent again", async (_name, effect, sent, expected) => {
    const first = await delivery(
      chargeTool(effect, async (context) => {
        if (sent) charge(context.key, false);
        await stealThread();
        throw new Error("the process died here");
      }),
    );
    // The error is the death: its settlement never reaches the ledger.
    first.ledger.settle = () => Promise.reject(new Error("dead"));
    await first.agent.invoke(input, first.config).catch(() => undefined);
    await loseEffectLease();
    const next = await delivery(chargeTool(effect, async (context) => charge(context.key, false)));
    expect(replies(await next.agent.invoke(null, next.config))).toMatchObject(expected);
    expect(charged.get(key()) ?? 0).toBe(sent ? 1 : 0);
  });
});

describe("a run that dies after the effect was recorded", () => {
  it("is answered from the ledger by the next delivery, whatever the policy (A13, B14)", async () => {
    for (const effect of ["keyed", "lookup", "once"] as const) {
      threadId = randomUUID();
      const body: Body = async (context) => {
        charge(context.key, false);
        return { id: "ch_1" };
      };
      const first = await delivery(chargeTool(effect, body));
      const settle = first.ledger.settle.bind(first.ledger);
      first.ledger.settle = async (settlement) => {
        const answer = await settle(settlement);
        // Recorded, and then the thread is gone: the reply never reaches a checkpoint.
        await stealThread();
        return answer;
      };
      await expect(first.agent.invoke(input, first.config)).rejects.toMatchObject({ code: "FENCE_LOST" });
      const next = await delivery(chargeTool(effect, body));
      expect(replies(await next.agent.invoke(null, next.config))).toEqual([{ id: "ch_1" }]);
      expect(charged.get(key())).toBe(1);
    }
  });
});

describe("a keyed call whose first request is still running at the provider (B11, G09)", () => {
  it("waits and sends again under the same key, in the same execution, until the provider answers", async () => {
    const keys: unknown[] = [];
    const server = createServer((request, response) => {
      keys.push(request.headers["idempotency-key"]);
      request.resume();
      response.writeHead(keys.length < 3 ? 409 : 200, { "request-id": `req_${keys.length}` }).end('{"id":"ch_1"}');
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const { agent, config, ledger } = await delivery(
      chargeTool("keyed", async ({ fetch }) => {
        const response = await fetch(`http://127.0.0.1:${port}/v1/charges`, { method: "POST", body: "amount=12" });
        if (!response.ok) throw new Error(`answered ${response.status}`);
        return response.json();
      }),
    );
    expect(replies(await agent.invoke(input, config))).toEqual([{ id: "ch_1" }]);
    server.close();
    expect(keys).toEqual([key(), key(), key()]);
    expect(await ledger.find(key())).toMatchObject({ state: "done", executions: 1, providerRequestId: "req_3" });
  });
});
