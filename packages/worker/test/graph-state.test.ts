// Proves the reading of a thread's head: what a snapshot says, which nodes a checkpoint still needs, and whether they exist.
import type { RunnableConfig } from "@langchain/core/runnables";
import { END, interrupt, MemorySaver, Send, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { type Agent, type AgentGraph, defineAgent } from "../src/agent.ts";
import { graphFit, LENT_SAVER, pendingNodes, readThread } from "../src/graph-state.ts";

const State = z.object({ seen: z.array(z.string()).default([]) });

/** Writes the run id into the metadata, as the delivery's saver does; without one it is a stock saver. */
class StampingSaver extends MemorySaver {
  runId: string | undefined;

  override put(...[config, checkpoint, metadata]: Parameters<MemorySaver["put"]>): ReturnType<MemorySaver["put"]> {
    const stamped = this.runId === undefined ? metadata : { ...metadata, run_id: this.runId };
    return super.put(config, checkpoint, stamped);
  }
}

let saver: StampingSaver;
beforeEach(() => {
  saver = new StampingSaver();
});

/** `first`, then a node of the given name that asks a human. */
function asking(second: string): Agent {
  const graph = new StateGraph(State)
    .addNode("first", () => ({ seen: ["first"] }))
    .addNode(second, () => ({ seen: [String(interrupt("may I?"))] }))
    .addEdge(START, "first")
    .addEdge("first", second)
    .addEdge(second, END)
    .compile();
  // LangGraph types `invoke` by the state; the worker drives graphs of any state.
  return defineAgent({ name: "asking", graph: graph as unknown as AgentGraph });
}

/** `plan` sends two tasks to a node of the given name, and the process dies before they run. */
function sending(target: string): Agent {
  const graph = new StateGraph(State)
    .addNode("plan", () => ({ seen: ["plan"] }))
    .addNode(target, () => {
      throw new Error("died here");
    })
    .addEdge(START, "plan")
    .addConditionalEdges("plan", () => [new Send(target, { n: 1 }), new Send(target, { n: 2 })], [target])
    .compile();
  return defineAgent({ name: "sending", graph: graph as unknown as AgentGraph });
}

async function runOn(agent: Agent, threadId: string): Promise<void> {
  const config = { configurable: { thread_id: threadId, [LENT_SAVER]: saver }, durability: "sync" };
  await agent.graph.invoke({ seen: [] }, config).catch(() => {});
}

describe("the head of a thread", () => {
  test("that nobody has written is none", async () => {
    const { head } = await readThread(asking("ask"), "t0", saver);
    expect(head).toBeUndefined();
  });

  test("with a question pending names it, its step, and whose run wrote it", async () => {
    const agent = asking("ask");
    saver.runId = "r1";
    await runOn(agent, "t1");
    const { head, snapshot } = await readThread(agent, "t1", saver);
    const checkpoint = await saver.getTuple({ configurable: { thread_id: "t1" } });
    expect(head).toEqual({
      checkpointId: checkpoint?.checkpoint.id,
      parentCheckpointId: checkpoint?.parentConfig?.configurable?.["checkpoint_id"],
      runId: "r1",
      source: "loop",
      step: 1,
      writtenAtMs: Date.parse(checkpoint?.checkpoint.ts ?? ""),
      openTasks: 1,
      pendingInterruptIds: [snapshot.tasks[0]?.interrupts[0]?.id],
    });
    expect(head?.pendingInterruptIds[0]).toMatch(/^[0-9a-f]{32}$/);
  });

  test("without a run id is one that a stock saver wrote", async () => {
    const agent = asking("ask");
    await runOn(agent, "t1");
    expect((await readThread(agent, "t1", saver)).head?.runId).toBeUndefined();
  });

  test("of a graph that has ended has no open tasks, and its values are there", async () => {
    const graph = new StateGraph(State)
      .addNode("only", () => ({ seen: ["done"] }))
      .addEdge(START, "only")
      .compile();
    const agent = defineAgent({ name: "short", graph: graph as unknown as AgentGraph });
    await runOn(agent, "t2");
    const { head, values } = await readThread(agent, "t2", saver);
    expect(head).toMatchObject({ openTasks: 0, pendingInterruptIds: [] });
    expect(values).toEqual({ seen: ["done"] });
  });

  test("counts every task that a killed step left open", async () => {
    const agent = sending("work");
    await runOn(agent, "t3");
    expect((await readThread(agent, "t3", saver)).head?.openTasks).toBe(2);
  });
});

describe("the nodes a checkpoint still needs", () => {
  test("are the targets of its pending edges", () => {
    expect(pendingNodes({ messages: [], "branch:to:review": null, "branch:to:model": null })).toEqual([
      "review",
      "model",
    ]);
  });

  test("are the targets of its pending Sends, each once", () => {
    const sends = [new Send("tools", { call: 1 }), new Send("tools", { call: 2 }), { node: "other", args: {} }];
    expect(pendingNodes({ __pregel_tasks: sends })).toEqual(["tools", "other"]);
  });

  test("may have colons in their names", () => {
    expect(pendingNodes({ "branch:to:a:b": null })).toEqual(["a:b"]);
  });

  test("are not guessed from channels of the user's state that look alike", () => {
    expect(pendingNodes({ "branch:to:": null, "my:branch:to:x": null, branch: "to:x", node: "y" })).toEqual([]);
  });

  test("survive whatever a checkpoint holds", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.anything()), fc.anything(), (channels, tasks) => {
        const names = pendingNodes({ ...channels, __pregel_tasks: tasks });
        for (const name of names) expect(typeof name).toBe("string");
      }),
    );
  });
});

describe("whether the deployed graph carries a run on", () => {
  const begun = (from: Agent): { threadId: string; graphFingerprint: string; begun: boolean } => ({
    threadId: "t1",
    graphFingerprint: from.fingerprint,
    begun: true,
  });

  test("is no question for the graph that wrote the thread, nor for a run that has not begun", async () => {
    const unread = {
      getTuple: () => Promise.reject(new Error("read")),
    } as unknown as BaseCheckpointSaver;
    const [same, other] = [asking("ask"), asking("enquire")];
    expect(await graphFit(same, begun(same), unread)).toEqual({ fit: "same" });
    expect(await graphFit(same, { ...begun(other), begun: false }, unread)).toEqual({ fit: "same" });
    const unknown = { threadId: "t1", graphFingerprint: undefined, begun: true };
    expect(await graphFit(same, unknown, unread)).toEqual({ fit: "same" });
  });

  test("yes, when every pending node is still there under its name", async () => {
    const before = asking("ask");
    await runOn(before, "t1");
    const graph = new StateGraph(State)
      .addNode("first", () => ({}))
      .addNode("audit", () => ({}))
      .addNode("ask", () => ({ seen: [String(interrupt("may I?"))] }))
      .addEdge(START, "first")
      .addEdge("first", "audit")
      .addEdge("audit", "ask")
      .compile();
    const after = defineAgent({ name: "asking", graph: graph as unknown as AgentGraph });
    expect(await graphFit(after, begun(before), saver)).toEqual({
      fit: "compatible",
      from: before.fingerprint,
      to: after.fingerprint,
    });
  });

  test("no, when a pending node was renamed, and the node is named", async () => {
    const before = asking("ask");
    await runOn(before, "t1");
    const after = asking("enquire");
    expect(await graphFit(after, begun(before), saver)).toEqual({
      fit: "incompatible",
      from: before.fingerprint,
      to: after.fingerprint,
      missing: ["ask"],
    });
  });

  test("no, when pending Sends go to a node that is gone", async () => {
    const before = sending("work");
    await runOn(before, "t1");
    expect(await graphFit(sending("labour"), begun(before), saver)).toMatchObject({
      fit: "incompatible",
      missing: ["work"],
    });
  });
});

test("the saver is lent for the read, so that a graph compiled without one can be read", async () => {
  const configs: RunnableConfig[] = [];
  const agent = asking("ask");
  const spied: Agent = {
    ...agent,
    graph: {
      ...agent.graph,
      getState: (config) => {
        configs.push(config);
        return agent.graph.getState(config);
      },
    },
  };
  await readThread(spied, "t1", saver);
  expect(configs[0]?.configurable).toEqual({ thread_id: "t1", __pregel_checkpointer: saver });
});
