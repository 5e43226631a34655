// A process that runs one wiring of the tool on Postgres, and dies inside the tool's body, after the provider was asked, when told so.
import { HumanMessage } from "@langchain/core/messages";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { openPool } from "@reprise/dev-stack";
import { z } from "zod";
import { defineTool } from "../src/define-tool.ts";
import { PostgresLedger } from "../src/effect-postgres.ts";
import { BarrierSaver } from "../src/langgraph/barrier-saver.ts";
import { withEffects } from "../src/langgraph/scope.ts";
import { stripeProfile } from "../src/profiles.ts";
import { stoppingLedger } from "../src/testing/holder-ledger.ts";
import { buildShape, type Shape } from "./fit-agents.ts";

export interface FitOrder {
  readonly shape: Shape;
  readonly durability: "sync" | "async" | "exit";
  readonly threadId: string;
  /** How long each put takes more: the window in which async has not stored what the tool stands on. */
  readonly putMs: number;
  readonly dies: boolean;
}

export type FitAnswer = { readonly ended: true } | { readonly code: string; readonly message: string };

const [databaseUrl = "", providerUrl = ""] = process.argv.slice(2);
const pool = openPool(databaseUrl, { max: 5 });

class SlowSaver extends PostgresSaver {
  putMs = 0;

  override async put(...args: Parameters<PostgresSaver["put"]>): ReturnType<PostgresSaver["put"]> {
    await new Promise((resolve) => setTimeout(resolve, this.putMs));
    return super.put(...args);
  }
}

async function play(order: FitOrder): Promise<FitAnswer> {
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    schema: z.object({ order: z.string() }),
    effect: "keyed",
    profile: stripeProfile,
    run: async (args, { fetch }) => {
      const answer = await fetch(`${providerUrl}/${args.order}`, { method: "POST" });
      if (order.dies) process.kill(process.pid, "SIGKILL");
      return answer.json();
    },
  });
  const saver = new SlowSaver(pool);
  saver.putMs = order.putMs;
  const agent = buildShape(order.shape, {
    pay,
    args: { order: order.threadId },
    saver: new BarrierSaver(saver),
  });
  const { threadId, durability } = order;
  const delivery = { tool: "pay", mark: threadId, leaseMs: 200 };
  const ledger = stoppingLedger(new PostgresLedger(pool), delivery, async () => undefined);
  const scope = { ledger, runId: threadId, deliveryId: `${threadId}_${process.pid}`, holder: String(process.pid) };
  const config = withEffects(scope, { configurable: { thread_id: threadId }, durability });
  const begun = await saver.getTuple({ configurable: { thread_id: threadId } });
  try {
    await agent.invoke(begun === undefined ? { messages: [new HumanMessage("Pay.")] } : null, config);
    return { ended: true };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "none";
    return { code, message: String(error) };
  }
}

process.on("message", (order) => {
  // Only fit.real.test.ts has the other end.
  void play(order as FitOrder).then((answer) => process.send?.(answer));
});
process.on("disconnect", () => process.exit(0));
process.send?.("loaded");
