// The key NODE_BODIES: whoever drives a graph learns of each node body, those of subgraphs too, and when it has really ended.

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { describe, expect, it } from "vitest";
import { NODE_BODIES, traceGraph } from "../src/langgraph/index.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});

/** A node `work` inside a graph that is the node `sub` of another. */
function nested(work: () => Promise<{ log: string[] }>) {
  const inner = new StateGraph(State).addNode("work", work).addEdge(START, "work").addEdge("work", END).compile();
  return traceGraph(new StateGraph(State).addNode("sub", inner).addEdge(START, "sub").addEdge("sub", END).compile());
}

function watch() {
  const ended: string[] = [];
  let began = 0;
  const onBody = (body: Promise<unknown>): void => {
    began += 1;
    body.then(
      () => ended.push("done"),
      () => ended.push("failed"),
    );
  };
  return { onBody, ended, began: () => began };
}

describe("node bodies", () => {
  it("are told of as they begin, in subgraphs too", async () => {
    const seen = watch();
    const graph = nested(async () => ({ log: ["x"] }));
    await graph.invoke({ log: [] }, { configurable: { [NODE_BODIES]: seen.onBody } });
    expect(seen.began()).toBe(2);
    expect(seen.ended).toEqual(["done", "done"]);
  });

  it("are still running when LangGraph has given them up after an abort (Q04)", async () => {
    const seen = watch();
    const stop = new AbortController();
    let end = (): void => {};
    const held = new Promise<void>((resolve) => {
      end = resolve;
    });
    const graph = nested(async () => {
      stop.abort(new Error("stopped"));
      await held;
      return { log: ["late"] };
    });
    const config = { signal: stop.signal, configurable: { [NODE_BODIES]: seen.onBody } };
    await expect(graph.invoke({ log: [] }, config)).rejects.toThrow();
    // The subgraph's call was given up with the rest; the body of its node goes on.
    expect(seen.began()).toBe(2);
    expect(seen.ended.filter((how) => how === "done")).toEqual([]);
    end();
    await new Promise((resolve) => setImmediate(resolve));
    expect(seen.ended).toContain("done");
  });
});
