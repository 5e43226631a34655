// Channel versions: no two branches mint the same, every comparison LangGraph makes comes out right, old threads included.

import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { compareChannelVersions, MemorySaver, maxChannelVersion } from "@langchain/langgraph-checkpoint";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { nextUniqueVersion, nextVersionLike } from "../src/langgraph/channel-version.ts";
import { TracedSaver } from "../src/langgraph/index.ts";

const versions = fc.oneof(fc.integer({ min: 0, max: 1_000_000 }), fc.double({ min: 0, max: 1_000_000, noNaN: true }));

describe("a unique version", () => {
  it("is greater than the version before it in every comparison LangGraph makes, and not another whole number", () => {
    fc.assert(
      fc.property(versions, (current) => {
        const next = nextUniqueVersion(current);
        expect(next).toBeGreaterThan(current);
        expect(compareChannelVersions(next, current)).toBe(1);
        expect(maxChannelVersion(current, next)).toBe(next);
        expect(Number.isInteger(next)).toBe(false);
        expect(Math.floor(next)).toBe(Math.floor(current) + 1);
      }),
    );
  });

  it("survives JSON and the text form that keys a blob in Postgres", () => {
    fc.assert(
      fc.property(versions, (current) => {
        const next = nextUniqueVersion(current);
        expect(JSON.parse(JSON.stringify(next))).toBe(next);
        expect(next.toString()).toMatch(/^\d+\.\d+$/);
      }),
    );
  });

  it("differs between branches that start from the same version, at the ends of the random range too", () => {
    const minted = new Set(Array.from({ length: 1_000 }, () => nextUniqueVersion(4)));
    expect(minted.size).toBe(1_000);
    for (const random of [0, 1 - Number.EPSILON]) {
      expect(nextUniqueVersion(4, () => random)).toBeGreaterThan(5);
      expect(nextUniqueVersion(4, () => random)).toBeLessThan(6);
    }
    expect(Math.floor(nextUniqueVersion(undefined))).toBe(1);
  });

  it("is a number because padded strings beside old integers stop a run: their maximum is the old integer for ever", () => {
    const padded = `${"11".padStart(32, "0")}.5`;
    // LangGraph's own function says that 10 is newer than 11 when one is a string: the next step would mint 11 again.
    expect(maxChannelVersion(10, padded)).toBe(10);
  });

  it("continues a thread whose versions are padded strings in their own form, and leaves other strings to their saver", () => {
    const inner = new MemorySaver();
    const current = `${"9".padStart(32, "0")}.1`;
    const next = nextVersionLike(inner, current);
    expect(next).toMatch(/^0{30}10\.\d+$/);
    expect(compareChannelVersions(next, current)).toBe(1);
    // The stock saver has no strings and says so.
    expect(() => nextVersionLike(inner, "v7")).toThrow("override this method");
  });
});

describe("a thread of a stock saver", () => {
  const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

  /** The shape of an agent: two nodes that call each other, six times, with a pause for a human on the way. */
  function loop(checkpointer: MemorySaver | TracedSaver) {
    return new StateGraph(State)
      .addNode("agent", ({ log }) => {
        if (log.length === 6) interrupt("go on?");
        return { log: ["agent"] };
      })
      .addNode("tools", () => ({ log: ["tools"] }))
      .addEdge(START, "agent")
      .addConditionalEdges("agent", ({ log }) => (log.length < 12 ? "tools" : END))
      .addEdge("tools", "agent")
      .compile({ checkpointer });
  }
  const whole = [...Array.from({ length: 6 }, () => ["agent", "tools"]).flat(), "agent"];

  it.each(["stock first", "traced first"])("goes on in a loop to its end under the other saver: %s", async (order) => {
    // With padded strings each turn of the loop is a toss; eight rounds leave luck no chance.
    for (let round = 0; round < 8; round += 1) {
      const stock = new MemorySaver();
      const traced = new TracedSaver(stock);
      const [before, after] = order === "stock first" ? [stock, traced] : [traced, stock];
      const config = { configurable: { thread_id: "t" }, durability: "sync" as const };
      await loop(before).invoke({ log: [] }, config);
      const end = await loop(after).invoke(new Command({ resume: "yes" }), config);
      expect(end.log).toEqual(whole);
    }
  });
});
