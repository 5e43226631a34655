// tools.dispatch_us: what a keyed tool adds to a plain LangChain tool around its body, with its span, the ledger aside.

import type { RunnableConfig } from "@langchain/core/runnables";
import { type StructuredToolInterface, tool } from "@langchain/core/tools";
import { MemorySaver } from "@langchain/langgraph";
import { defineTool, type Ledger } from "@reprise/tools";
import { withSpan } from "@reprise/tracing";
import { z } from "zod";
import { type Benchmark, extraFigure } from "./benchmark.ts";
import { cpuUs } from "./cpu-time.ts";
import { requireWork } from "./errors.ts";
import { type Arm, median, pairedRounds } from "./statistics.ts";
import { withTelemetry } from "./telemetry-scene.ts";
import { type ModelCall, modelCalls, openToolScene } from "./tool-scene.ts";

const CALLS_PER_RUN = 10;
const schema = z.object({ customer: z.string(), amount: z.number().int(), currency: z.string(), memo: z.string() });
const about = { name: "create_charge", description: "Charges a customer.", schema };

export const toolsDispatch: Benchmark = {
  name: "tools.dispatch_us",
  unit: "us",
  what: "what a keyed tool with an empty body (key, checks, span, reply) adds to the invoke of a plain LangChain tool, with a stand-in for the ledger that keeps nothing; CPU time",
  run: (options) =>
    withTelemetry(async () => {
      let bodies = 0;
      const ledger = standIn();
      const run = async () => {
        bodies += 1;
        return { id: "ch_1" };
      };
      const keyed = defineTool({ ...about, effect: "keyed", run });
      const plain = (): StructuredToolInterface => tool(async () => ({ id: "ch_1" }), about);
      // 500 calls a round, as the first figure was taken.
      const runsPerRound = options.once ? 1 : 50;
      const arms = {
        baseline: armOf(plain(), ledger, runsPerRound),
        candidate: armOf(keyed, ledger, runsPerRound),
        control: armOf(plain(), ledger, runsPerRound),
      };
      const rounds = options.once ? { rounds: 2, warmupRounds: 1 } : { rounds: 30, warmupRounds: 4 };
      const paired = await pairedRounds(arms, "difference", { ...rounds, noiseMax: 10 });
      const expected = (rounds.rounds + rounds.warmupRounds) * runsPerRound * CALLS_PER_RUN;
      requireWork(bodies === expected, `${bodies} of ${expected} bodies ran`);
      const { claimed, settled } = ledger;
      requireWork(
        claimed === expected && settled === expected,
        `${claimed} claimed, ${settled} settled of ${expected}`,
      );
      return extraFigure(toolsDispatch, paired, options);
    }),
};

interface StandIn extends Ledger {
  claimed: number;
  settled: number;
}

/**
 * Answers each call as one that nobody has made before, and keeps nothing: what a ledger takes is the figure of
 * `tools.claim_complete_vs_bare`.
 */
function standIn(): StandIn {
  const ledger: StandIn = {
    claimed: 0,
    settled: 0,
    claim: async () => {
      ledger.claimed += 1;
      return { kind: "execute", fence: String(ledger.claimed), seen: 1, firstClaimAtMs: Date.now() };
    },
    settle: async () => {
      ledger.settled += 1;
      return { recorded: true };
    },
    release: async () => ({ released: false }),
    find: async () => undefined,
    findEcho: async () => undefined,
    openExecutions: async () => [],
  };
  return ledger;
}

/** A round: the median of its runs, microseconds a call. The graph around them is not measured. */
function armOf(measured: StructuredToolInterface, ledger: Ledger, runsPerRound: number): Arm {
  const scene = openToolScene(new MemorySaver(), ledger);
  let calls = 0;
  return async () => {
    const costs: number[] = [];
    for (let run = 0; run < runsPerRound; run += 1) {
      const asked = modelCalls(CALLS_PER_RUN, measured.name, calls);
      calls += CALLS_PER_RUN;
      costs.push(await scene.play(asked, (found, config) => invokeAll(measured, found, config)));
    }
    return median(costs);
  };
}

function invokeAll(
  measured: StructuredToolInterface,
  calls: readonly ModelCall[],
  config: RunnableConfig,
): Promise<number> {
  // One trace a run, so that the spans of the calls have a parent and the sampler a verdict.
  return withSpan("bench", { root: true }, async () => {
    const startedUs = cpuUs();
    for (const call of calls) await measured.invoke(call, config);
    return (cpuUs() - startedUs) / calls.length;
  });
}
