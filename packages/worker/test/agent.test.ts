// Proves what an agent is: a name, a compiled graph, a fingerprint of its shape, and what of its state is the result.
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { describe, expect, test } from "vitest";
import { type AgentGraph, agentsByName, defineAgent, fingerprintOf, nodesOf } from "../src/agent.ts";

interface Shape {
  readonly nodes?: readonly string[];
  readonly body?: () => object;
}

function compiled({ nodes = ["a", "b"], body = () => ({}) }: Shape = {}): AgentGraph {
  // LangGraph types node names by literals; here they are data.
  const graph = new StateGraph(MessagesAnnotation) as StateGraph<
    typeof MessagesAnnotation.spec,
    typeof MessagesAnnotation.State,
    object,
    string
  >;
  let previous: string = START;
  for (const name of nodes) {
    graph.addNode(name, body);
    graph.addEdge(previous as typeof START, name);
    previous = name;
  }
  // LangGraph types `invoke` by the state; the worker drives graphs of any state.
  return graph.compile() as unknown as AgentGraph;
}

describe("defining an agent", () => {
  test("takes a compiled graph under the name that messages use", () => {
    const agent = defineAgent({ name: "support", graph: compiled() });
    expect(agent.name).toBe("support");
    expect(agent.fingerprint).toMatch(/^[0-9a-f]{16}$/);
    expect(typeof agent.graph.invoke).toBe("function");
  });

  test("takes the graph out of an agent that wraps one, as createAgent's does", () => {
    const graph = compiled();
    const agent = defineAgent({ name: "support", graph: { graph } });
    expect(agent.fingerprint).toBe(defineAgent({ name: "support", graph }).fingerprint);
  });

  test.each(["", "   ", "n".repeat(201)])("refuses the name %j", (name) => {
    expect(() => defineAgent({ name, graph: compiled() })).toThrow(expect.objectContaining({ code: "AGENT_INVALID" }));
  });

  test("takes a name of 200 characters, as long as a message may say", () => {
    expect(defineAgent({ name: "n".repeat(200), graph: compiled() }).name).toHaveLength(200);
  });

  test("refuses a graph that is not compiled and says what to pass", () => {
    const graph = new StateGraph(MessagesAnnotation).addNode("a", () => ({})).addEdge(START, "a");
    expect(() => defineAgent({ name: "support", graph: graph as unknown as AgentGraph })).toThrow(/\.compile\(\)/);
  });

  test.each([undefined, null, {}, { graph: undefined }, "graph"])(
    "refuses %j for a graph with its own error, since agent modules are not type-checked",
    (graph) => {
      expect(() => defineAgent({ name: "support", graph: graph as unknown as AgentGraph })).toThrow(
        expect.objectContaining({ code: "AGENT_INVALID" }),
      );
    },
  );
});

describe("the fingerprint", () => {
  test("is the same for the same shape, also in another process's graph", () => {
    expect(fingerprintOf(compiled())).toBe(fingerprintOf(compiled()));
  });

  test("does not change with a node's code", () => {
    expect(fingerprintOf(compiled({ body: () => ({ messages: [] }) }))).toBe(fingerprintOf(compiled()));
  });

  test.each([
    ["a node is added", ["a", "b", "c"]],
    ["a node is gone", ["a"]],
    ["a node is renamed", ["a", "c"]],
  ])("changes when %s", (_what, nodes) => {
    expect(fingerprintOf(compiled({ nodes }))).not.toBe(fingerprintOf(compiled()));
  });

  test("does not depend on the order in which nodes and triggers are listed", () => {
    const graph = (nodes: AgentGraph["nodes"]): AgentGraph => ({ ...compiled(), nodes });
    const a = graph({ x: { triggers: ["1", "2"] }, y: { triggers: [] } });
    const b = graph({ y: { triggers: [] }, x: { triggers: ["2", "1"] } });
    expect(fingerprintOf(a)).toBe(fingerprintOf(b));
  });

  test("tells graphs apart whose names run together", () => {
    const graph = (nodes: AgentGraph["nodes"]): AgentGraph => ({ ...compiled(), nodes });
    const a = graph({ a: { triggers: ["b"] }, c: { triggers: [] } });
    const b = graph({ a: { triggers: [] }, c: { triggers: ["b"] } });
    expect(fingerprintOf(a)).not.toBe(fingerprintOf(b));
  });

  test("is of the user's graph, whatever wraps its nodes afterwards", () => {
    const graph = compiled();
    const before = fingerprintOf(graph);
    expect(defineAgent({ name: "support", graph }).fingerprint).toBe(before);
    expect(nodesOf(graph).map(([name]) => name)).toEqual(expect.arrayContaining(["a", "b"]));
  });
});

describe("the result", () => {
  const { result } = defineAgent({ name: "support", graph: compiled() });

  test("is the last message's text", () => {
    expect(result({ messages: [new HumanMessage("hi"), new AIMessage("hello")] })).toBe("hello");
  });

  test("is the text among the blocks of the last message", () => {
    const content = [
      { type: "text" as const, text: "see" },
      { type: "image_url" as const, image_url: "x" },
    ];
    expect(result({ messages: [new AIMessage({ content })] })).toBe("see");
  });

  test("is the whole state of a graph without messages", () => {
    expect(result({ total: 3 })).toEqual({ total: 3 });
    expect(result(undefined)).toBeUndefined();
  });

  test("is null when no message was written", () => {
    expect(result({ messages: [] })).toBeNull();
  });

  test("is what the definition picks", () => {
    const agent = defineAgent({ name: "sum", graph: compiled(), result: (state) => (state as { n: number }).n + 1 });
    expect(agent.result({ n: 2 })).toBe(3);
  });
});

describe("a worker's agents", () => {
  test("are found by name", () => {
    const agents = [defineAgent({ name: "a", graph: compiled() }), defineAgent({ name: "b", graph: compiled() })];
    expect(agentsByName(agents).get("b")).toBe(agents[1]);
    expect([...agentsByName(agents).keys()]).toEqual(["a", "b"]);
  });

  test("may not share a name", () => {
    const twice = [defineAgent({ name: "a", graph: compiled() }), defineAgent({ name: "a", graph: compiled() })];
    expect(() => agentsByName(twice)).toThrow(expect.objectContaining({ code: "AGENT_DUPLICATE" }));
  });
});
