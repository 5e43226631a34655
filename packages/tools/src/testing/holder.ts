// The program the kit kills: loads your tools, waits to be told, makes one call at a time in a real graph on a real ledger.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { type BaseMessage, ToolMessage } from "@langchain/core/messages";
import type { StructuredToolInterface } from "@langchain/core/tools";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type pg from "pg";
import { EffectTool } from "../define-tool.ts";
import type { EffectPolicy } from "../effect.ts";
import { PostgresLedger } from "../effect-postgres.ts";
import { messageOf, ToolsError } from "../errors.ts";
import { BarrierSaver } from "../langgraph/barrier-saver.ts";
import { withEffects } from "../langgraph/scope.ts";
import { oneCallGraph } from "./holder-graph.ts";
import { type StopAt, stoppingLedger } from "./holder-ledger.ts";
import type { Delivery, DeliveryEnd, FromHolder, ToHolder } from "./holder-messages.ts";
import { openKitPool } from "./pool.ts";

export interface HeldTool {
  /** Any LangChain tool. One that `defineTool` made is held to its policy; any other to nothing, and the table shows why. */
  readonly tool: StructuredToolInterface;
  /** The model's arguments. `mark` must come through to the provider, in the body or the URL: it counts by it. */
  readonly args: (mark: string) => Readonly<Record<string, unknown>>;
}

export interface HeldTools {
  /** The kit asks for them by name, so their names differ. */
  readonly tools: readonly HeldTool[];
  /** Your checkpointer: `(pool) => new PostgresSaver(pool)`. If it has a `setup`, it is called once before the first play. */
  readonly saver: (pool: pg.Pool) => BaseCheckpointSaver & { setup?(): Promise<unknown> };
}

/**
 * Call it in a module of its own and give that module's path to `checkTools`. Throws KIT_FAILED when the module was not started by
 * the kit.
 */
export function holdTools(held: HeldTools): void {
  if (process.send === undefined) {
    throw new ToolsError(
      "KIT_FAILED",
      "This program holds tools for the conformance kit: give its path to checkTools.",
    );
  }
  let pool: pg.Pool | undefined;
  let goOn: (() => void) | undefined;
  const stand = (point: FromHolder & { readonly kind: "at" }): Promise<void> =>
    new Promise((resolve) => {
      goOn = resolve;
      say(point);
    });
  const obey = async (order: ToHolder): Promise<void> => {
    switch (order.kind) {
      case "prepare":
        pool = openKitPool(order.databaseUrl, 4);
        if (order.setup) await held.saver(pool).setup?.();
        return say({ kind: "prepared" });
      case "deliver":
        if (pool === undefined) throw new ToolsError("KIT_FAILED", "The holder was not prepared.");
        return say({ kind: "ended", ...(await deliver({ held, pool, delivery: order.delivery, stand })) });
      case "go":
        return goOn?.();
      default:
        return order satisfies never;
    }
  };
  process.on("message", (order) => {
    // Only the kit has the other end of the channel.
    obey(order as ToHolder).catch((error: unknown) => say({ kind: "ended", error: messageOf(error) }));
  });
  // Nobody is left to kill it.
  process.on("disconnect", () => process.exit(0));
  say({ kind: "loaded", tools: held.tools.map(({ tool }) => ({ name: tool.name, ...policyOf(tool) })) });
}

// With a callback a closed channel is an answer; without one it would be an error event. The disconnect ends the process.
function say(message: FromHolder): void {
  process.send?.(message, () => undefined);
}

function policyOf(tool: StructuredToolInterface): { readonly policy?: EffectPolicy } {
  return tool instanceof EffectTool ? { policy: tool.effect } : {};
}

interface DeliverParts {
  readonly held: HeldTools;
  readonly pool: pg.Pool;
  readonly delivery: Delivery;
  readonly stand: (at: { readonly kind: "at"; readonly point: NonNullable<Delivery["stopAt"]> }) => Promise<void>;
}

async function deliver({ held, pool, delivery, stand }: DeliverParts): Promise<DeliveryEnd> {
  const { mark } = delivery;
  const called = held.tools.find(({ tool }) => tool.name === delivery.tool);
  if (called === undefined) throw new ToolsError("KIT_FAILED", `The holder has no tool ${delivery.tool}.`);
  let armed = delivery.stopAt;
  const stop: StopAt = async (point) => {
    if (point !== armed) return;
    armed = undefined;
    await stand({ kind: "at", point });
  };
  const { policy } = policyOf(called.tool);
  const claims = policy !== undefined && policy !== "none";
  const graph = oneCallGraph({
    tool: called.tool,
    args: called.args(mark),
    checkpointer: new BarrierSaver(held.saver(pool)),
    ...(claims ? {} : { stopAround: stop }),
  });
  const scope = {
    ledger: stoppingLedger(new PostgresLedger(pool), delivery, stop),
    runId: `run_${mark}`,
    deliveryId: randomUUID(),
    holder: `${hostname()}:${process.pid}`,
  };
  const config = withEffects(scope, { configurable: { thread_id: mark }, durability: "sync" as const });
  try {
    return endOf(await graph.drive(config));
  } catch (error) {
    return { error: messageOf(error) };
  }
}

function endOf(messages: readonly BaseMessage[]): DeliveryEnd {
  const reply = messages.findLast((message) => ToolMessage.isInstance(message));
  if (reply === undefined) return {};
  return { callId: reply.tool_call_id, told: toldBy(reply) };
}

function toldBy(reply: ToolMessage): "done" | "failed" | "unknown" {
  if (reply.status === "error") return "failed";
  try {
    const said: unknown = JSON.parse(String(reply.content));
    const status = typeof said === "object" && said !== null && "status" in said ? said.status : undefined;
    return status === "unknown" || status === "failed" ? status : "done";
  } catch {
    return "done";
  }
}
