// traceGraph: every try of every node has its span, and everything LangGraph does with nodes goes on working.

import { type AIMessageChunk, HumanMessage } from "@langchain/core/messages";
import { RunnableLambda, RunnableSequence } from "@langchain/core/runnables";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import {
  Annotation,
  Command,
  END,
  entrypoint,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  Send,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { type Span, SpanStatusCode, trace } from "@opentelemetry/api";
import { describe, expect, it } from "vitest";
import { TracedNode } from "../src/langgraph/graph-node.ts";
import { traceGraph } from "../src/langgraph/index.ts";
import { withSpan } from "../src/span.ts";
import { parentId, recordTelemetry } from "./langgraph-telemetry.ts";

const telemetry = recordTelemetry();

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }),
});
const thread = (id: string) => ({ configurable: { thread_id: id } });
const quick = { initialInterval: 1, jitter: false, logWarning: false };
const nodeNames = () => telemetry.spans().map((span) => span.name);

/** One node `work` between start and end. */
function oneNode(run: (state: typeof State.State, config: never) => unknown, options: object = {}) {
  return new StateGraph(State)
    .addNode("work", run as never, options)
    .addEdge(START, "work")
    .addEdge("work", END)
    .compile({ checkpointer: new MemorySaver() });
}

describe("the span of a node", () => {
  it("says thread, step, node, task and try, is a child of graph.invoke and the parent of what the node does", async () => {
    let inside: Span | undefined;
    let task: string | undefined;
    const graph = traceGraph(
      oneNode(async (_, config: { executionInfo?: { taskId: string } }) => {
        task = config.executionInfo?.taskId;
        inside = trace.getActiveSpan();
        return withSpan("http", {}, () => ({ log: ["done"] }));
      }),
    );
    const result = await withSpan("graph.invoke", {}, () => graph.invoke({ log: [] }, thread("t1")));
    expect(result.log).toEqual(["done"]);
    const node = telemetry.only("node:work");
    expect(node.attributes).toEqual({
      "agent.thread_id": "t1",
      "agent.step": 1,
      "agent.node": "work",
      "agent.task_id": task,
      "agent.node_attempt": 1,
    });
    expect(task).toMatch(/^[0-9a-f-]{36}$/);
    expect(parentId(node)).toBe(telemetry.only("graph.invoke").spanContext().spanId);
    expect(inside?.spanContext().spanId).toBe(node.spanContext().spanId);
    expect(parentId(telemetry.only("http"))).toBe(node.spanContext().spanId);
  });

  it("is absent for what is no node of the user's: start, branches, writers", async () => {
    const graph = traceGraph(
      new StateGraph(State)
        .addNode("a", () => ({ log: ["a"] }))
        .addNode("b", () => ({ log: ["b"] }))
        .addEdge(START, "a")
        .addConditionalEdges("a", () => "b")
        .addEdge("b", END)
        .compile(),
    );
    expect((await graph.invoke({ log: [] })).log).toEqual(["a", "b"]);
    expect(nodeNames()).toEqual(["node:a", "node:b"]);
  });

  it("appears once when the graph is traced twice, also as a copy with other config", async () => {
    const graph = oneNode(() => ({ log: ["x"] }));
    expect(traceGraph(traceGraph(graph))).toBe(graph);
    await traceGraph(graph.withConfig({ tags: ["copy"] })).invoke({ log: [] }, thread("t"));
    expect(nodeNames()).toEqual(["node:work"]);
  });

  it("refuses what is no compiled graph, and says what to pass", () => {
    expect(() => traceGraph(new StateGraph(State))).toThrow(/compile\(\)/);
    expect(() => traceGraph(undefined)).toThrow(/compile\(\)/);
  });
});

describe("retries, errors and pauses", () => {
  it("gives every try its own span with the same task id and its number; failed tries are errors", async () => {
    let tries = 0;
    const graph = traceGraph(
      oneNode(
        () => {
          tries += 1;
          if (tries < 3) throw new Error(`try ${tries}`);
          return { log: ["done"] };
        },
        { retryPolicy: { ...quick, maxAttempts: 3 } },
      ),
    );
    expect((await graph.invoke({ log: [] }, thread("t"))).log).toEqual(["done"]);
    const spans = telemetry.spans("node:work");
    expect(spans.map((span) => span.attributes["agent.node_attempt"])).toEqual([1, 2, 3]);
    expect(new Set(spans.map((span) => span.attributes["agent.task_id"])).size).toBe(1);
    expect(spans.map((span) => span.status.message)).toEqual(["try 1", "try 2", undefined]);
  });

  it("rethrows the very error when no try is left", async () => {
    const failure = new TypeError("broken");
    const graph = traceGraph(
      oneNode(() => {
        throw failure;
      }),
    );
    await expect(graph.invoke({ log: [] }, thread("t"))).rejects.toBe(failure);
    const span = telemetry.only("node:work");
    expect(span.status.code).toBe(SpanStatusCode.ERROR);
    expect(span.attributes["error.type"]).toBe("TypeError");
  });

  it("records a pause for a human as no error, and the node after the answer in a span of its own", async () => {
    const graph = traceGraph(oneNode(() => ({ log: [interrupt("sure?") as string] })));
    const paused = await graph.invoke({ log: [] }, thread("t"));
    expect(paused).toHaveProperty("__interrupt__");
    expect((await graph.invoke(new Command({ resume: "yes" }), thread("t"))).log).toEqual(["yes"]);
    const spans = telemetry.spans("node:work");
    expect(spans.map((span) => span.status.code)).toEqual([SpanStatusCode.UNSET, SpanStatusCode.UNSET]);
    expect(spans.flatMap((span) => span.events)).toEqual([]);
    expect(new Set(spans.map((span) => span.attributes["agent.task_id"])).size).toBe(1);
  });

  it("ends the span when LangGraph gives a try up by timeout, though the body goes on, and the next try has its own", async () => {
    let tries = 0;
    let zombieEnds = (): void => {};
    const zombie = new Promise<void>((resolve) => {
      zombieEnds = resolve;
    });
    const graph = traceGraph(
      oneNode(
        async () => {
          tries += 1;
          if (tries === 1) await zombie;
          return { log: [`try ${tries}`] };
        },
        { timeout: 20, retryPolicy: { ...quick, maxAttempts: 2 } },
      ),
    );
    expect((await graph.invoke({ log: [] }, thread("t"))).log).toEqual(["try 2"]);
    const [first, second] = telemetry.spans("node:work");
    expect(first?.status.code).toBe(SpanStatusCode.ERROR);
    expect(first?.attributes["agent.node_attempt"]).toBe(1);
    expect(second?.status.code).toBe(SpanStatusCode.UNSET);
    expect(second?.attributes["agent.node_attempt"]).toBe(2);
    zombieEnds();
  });

  it("ends every span when the run is aborted, and the run rejects as it does untraced", async () => {
    const errors: unknown[] = [];
    for (const wrap of [<G>(graph: G) => graph, traceGraph]) {
      const abort = new AbortController();
      let ends = (): void => {};
      const hanging = new Promise<void>((resolve) => {
        ends = resolve;
      });
      const graph = wrap(
        oneNode(async () => {
          queueMicrotask(() => abort.abort());
          await hanging;
          return { log: ["late"] };
        }),
      );
      errors.push(
        await graph.invoke({ log: [] }, { ...thread("t"), signal: abort.signal }).catch((error: unknown) => error),
      );
      ends();
    }
    expect(errors.map((error) => (error instanceof Error ? [error.name, error.message] : error))).toEqual([
      ["AbortError", "This operation was aborted"],
      ["AbortError", "This operation was aborted"],
    ]);
    expect(telemetry.only("node:work").status.code).toBe(SpanStatusCode.ERROR);
  });
});

describe("a node that ignores its abort", () => {
  it("ends its span at the abort, while the caller gets the body's own outcome and no other", async () => {
    const abort = new AbortController();
    let finish = (): void => {};
    const body = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const inner = { invoke: () => body.then(() => "late") };
    const outcome = new TracedNode(inner as never, "stubborn").invoke("x", { signal: abort.signal });
    abort.abort(new Error("given up"));
    await new Promise((resolve) => setImmediate(resolve));
    expect(telemetry.only("node:stubborn").status.message).toBe("given up");
    finish();
    expect(await outcome).toBe("late");
  });
});

describe("routing", () => {
  it("keeps Command and goto", async () => {
    const graph = traceGraph(
      new StateGraph(State)
        .addNode("a", () => new Command({ goto: "c", update: { log: ["a"] } }), { ends: ["b", "c"] })
        .addNode("b", () => ({ log: ["b"] }))
        .addNode("c", () => ({ log: ["c"] }))
        .addEdge(START, "a")
        .compile(),
    );
    expect((await graph.invoke({ log: [] })).log).toEqual(["a", "c"]);
    expect(nodeNames()).toEqual(["node:a", "node:c"]);
  });

  it("keeps Send: one span a task, each with a task id of its own, and no more listeners on the shared signal than untraced", async () => {
    // LangGraph's own listeners reach Node's limit of ten with eleven tasks; with ten, one more a task would.
    const warnings: string[] = [];
    const warn = (warning: Error) => warnings.push(warning.name);
    process.on("warning", warn);
    const graph = traceGraph(
      new StateGraph(State)
        .addNode("plan", () => ({}))
        .addNode("item", (input: { n: number }) => ({ log: [`item ${input.n}`] }))
        .addEdge(START, "plan")
        .addConditionalEdges("plan", () => Array.from({ length: 10 }, (_, n) => new Send("item", { n })), ["item"])
        .compile(),
    );
    expect((await graph.invoke({ log: [] }, { signal: new AbortController().signal })).log).toHaveLength(10);
    const items = telemetry.spans("node:item");
    expect(new Set(items.map((span) => span.attributes["agent.task_id"])).size).toBe(10);
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", warn);
    expect(warnings).toEqual([]);
  });
});

describe("subgraphs", () => {
  function nested() {
    const inner = new StateGraph(State)
      .addNode("deep", () => ({ log: [`deep ${interrupt("deep?")}`] }))
      .addEdge(START, "deep")
      .addEdge("deep", END)
      .compile();
    return new StateGraph(State)
      .addNode("sub", inner)
      .addEdge(START, "sub")
      .addEdge("sub", END)
      .compile({ checkpointer: new MemorySaver() });
  }

  it("are found as before, pause and go on, and their nodes have spans under the node that holds them", async () => {
    const plain = nested();
    const graph = traceGraph(nested());
    const names = async (of: typeof plain) => {
      const found: string[] = [];
      for await (const [name] of of.getSubgraphsAsync(undefined, true)) found.push(name);
      return found;
    };
    expect(await names(graph)).toEqual(await names(plain));
    expect(await names(graph)).toEqual(["sub"]);
    await graph.invoke({ log: [] }, thread("t"));
    const state = await graph.getState(thread("t"), { subgraphs: true });
    expect(state.tasks[0]?.state).toMatchObject({ next: ["deep"] });
    expect((await graph.invoke(new Command({ resume: "yes" }), thread("t"))).log).toEqual(["deep yes"]);
    for (const deep of telemetry.spans("node:deep")) {
      const holder = telemetry.spans("node:sub").find((span) => span.spanContext().spanId === parentId(deep));
      expect(holder?.status.code).toBe(SpanStatusCode.UNSET);
    }
    expect(telemetry.spans("node:deep")).toHaveLength(2);
  });

  it("are found inside a sequence too, where LangGraph looks for them", async () => {
    const inner = new StateGraph(State)
      .addNode("deep", () => ({ log: ["deep"] }))
      .addEdge(START, "deep")
      .compile();
    const sequence = RunnableSequence.from([new RunnableLambda({ func: (state: object) => state }), inner as never]);
    const build = () =>
      new StateGraph(State).addNode("sub", sequence).addEdge(START, "sub").addEdge("sub", END).compile();
    const before = [...build().getSubgraphs()].map(([name]) => name);
    const graph = traceGraph(build());
    expect([...graph.getSubgraphs()].map(([name]) => name)).toEqual(before);
    expect(before).toEqual(["sub"]);
    await graph.invoke({ log: [] });
    expect(nodeNames()).toEqual(["node:deep", "node:sub"]);
  });

  it("keep Command.PARENT: a subgraph's node may route its parent", async () => {
    const inner = new StateGraph(State)
      .addNode("deep", () => new Command({ goto: "after", graph: Command.PARENT, update: { log: ["deep"] } }))
      .addEdge(START, "deep")
      .compile();
    const graph = traceGraph(
      new StateGraph(State)
        .addNode("sub", inner, { ends: ["after"] })
        .addNode("after", () => ({ log: ["after"] }))
        .addEdge(START, "sub")
        .compile(),
    );
    expect((await graph.invoke({ log: [] })).log).toEqual(["deep", "after"]);
    expect(telemetry.spans().flatMap((span) => span.events)).toEqual([]);
  });

  it("that share one graph between two nodes trace it once", async () => {
    const inner = new StateGraph(State)
      .addNode("deep", () => ({ log: ["deep"] }))
      .addEdge(START, "deep")
      .compile();
    const graph = traceGraph(
      new StateGraph(State).addNode("x", inner).addNode("y", inner).addEdge(START, "x").addEdge("x", "y").compile(),
    );
    await graph.invoke({ log: [] });
    expect(nodeNames()).toEqual(["node:deep", "node:x", "node:deep", "node:y"]);
  });
});

describe("streaming", () => {
  it("passes updates, custom chunks and a model's tokens through, with the spans under the span around it", async () => {
    const model = new FakeListChatModel({ responses: ["abc"], sleep: 0 });
    const graph = traceGraph(
      new StateGraph(MessagesAnnotation)
        .addNode("talk", async (state, config) => {
          config.writer?.("custom");
          return { messages: [await model.invoke(state.messages, config)] };
        })
        .addEdge(START, "talk")
        .addEdge("talk", END)
        .compile(),
    );
    const seen: string[] = [];
    await withSpan("graph.invoke", {}, async () => {
      const stream = await graph.stream(
        { messages: [new HumanMessage("hi")] },
        { streamMode: ["updates", "custom", "messages"] },
      );
      for await (const [mode, chunk] of stream) {
        if (mode === "messages") seen.push(`token ${(chunk as unknown as [AIMessageChunk])[0].content}`);
        else if (mode === "custom") seen.push(String(chunk));
        else seen.push(Object.keys(chunk).join());
      }
    });
    expect(seen).toEqual(["custom", "token a", "token b", "token c", "talk"]);
    expect(parentId(telemetry.only("node:talk"))).toBe(telemetry.only("graph.invoke").spanContext().spanId);
  });
});

describe("other kinds of graph", () => {
  it("traces an entrypoint of the functional API", async () => {
    const flow = traceGraph(entrypoint({ name: "flow" }, async (input: string) => `${input}!`));
    expect(await flow.invoke("hi")).toBe("hi!");
    expect(nodeNames()).toEqual(["node:flow"]);
  });

  it("traces the graph inside an agent that carries one", async () => {
    const agent = { graph: oneNode(() => ({ log: ["agent"] })), name: "agent" };
    expect(traceGraph(agent)).toBe(agent);
    await agent.graph.invoke({ log: [] }, thread("t"));
    expect(nodeNames()).toEqual(["node:work"]);
  });
});

describe("runs at once", () => {
  it("keep their nodes in their own traces", async () => {
    const graph = traceGraph(
      oneNode(async () => {
        await new Promise((resolve) => setImmediate(resolve));
        return withSpan("http", {}, () => ({ log: ["x"] }));
      }),
    );
    const roots = Array.from({ length: 12 }, (_, n) => `t${n}`);
    await Promise.all(
      roots.map((id) => withSpan(`root ${id}`, { root: true }, () => graph.invoke({ log: [] }, thread(id)))),
    );
    for (const id of roots) {
      const root = telemetry.only(`root ${id}`).spanContext().traceId;
      const mine = telemetry.spans("node:work").filter((span) => span.spanContext().traceId === root);
      expect(mine.map((span) => span.attributes["agent.thread_id"])).toEqual([id]);
      const inside = telemetry.spans("http").filter((span) => span.spanContext().traceId === root);
      expect(inside.map(parentId)).toEqual([mine[0]?.spanContext().spanId]);
    }
  });
});
