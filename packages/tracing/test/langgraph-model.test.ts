// Model spans: one a call, whoever opens it, with usage and the times of a streamed answer, and always ended.

import { BaseCallbackHandler } from "@langchain/core/callbacks/base";
import { awaitAllCallbacks } from "@langchain/core/callbacks/promises";
import { HumanMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { SpanStatusCode, trace } from "@opentelemetry/api";
import { describe, expect, it } from "vitest";
import {
  hearingModels,
  MODEL_SPANS,
  modelSpanHandler,
  selfHearing,
  traceGraph,
  traceModelCall,
} from "../src/langgraph/index.ts";
import { responseAttributes } from "../src/langgraph/model-response.ts";
import { ModelStream } from "../src/langgraph/model-stream.ts";
import { withSpan } from "../src/span.ts";
import { type ScriptedChunk, ScriptedModel } from "./langgraph-scripted-model.ts";
import { parentId, recordTelemetry } from "./langgraph-telemetry.ts";

const telemetry = recordTelemetry();

const script: readonly ScriptedChunk[] = [
  { at: 1_250, piece: { index: 0, id: "call_a", name: "charge", args: "" } },
  { at: 1_400, piece: { index: 0, args: '{"amount":5}' } },
  { at: 1_500, piece: { index: 1, id: "call_b", name: "mail", args: "{}" } },
  { at: 1_900, text: "done" },
];
const answered = {
  "gen_ai.operation.name": "chat",
  "gen_ai.request.model": "scripted-1",
  "gen_ai.response.model": "scripted-1-2026",
  "gen_ai.response.id": "msg_1",
  "gen_ai.response.finish_reasons": ["tool_calls"],
  "gen_ai.usage.input_tokens": 11,
  "gen_ai.usage.output_tokens": 7,
};
const streamEvents = [
  ["first_token", {}, 1_250],
  ["tool_call_complete", { "gen_ai.tool.call.id": "call_a", "gen_ai.tool.name": "charge" }, 1_400],
  ["tool_call_complete", { "gen_ai.tool.call.id": "call_b", "gen_ai.tool.name": "mail" }, 1_500],
];

function eventsOf(name: string): unknown[] {
  return telemetry
    .only(name)
    .events.map(({ name: event, attributes, time }) => [event, attributes, time[0] * 1_000 + time[1] / 1e6]);
}

async function readAll(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of stream);
}

/** A graph whose one node runs `call`. */
function graphOf(call: (config: object) => Promise<unknown>) {
  return traceGraph(
    new StateGraph(MessagesAnnotation)
      .addNode("talk", async (_, config) => {
        await call(config);
        return {};
      })
      .addEdge(START, "talk")
      .addEdge("talk", END)
      .compile(),
  );
}

describe("traceModelCall", () => {
  it("is active for the call, reads usage, model, id and finish reason from the answer, and returns it", async () => {
    let active: string | undefined;
    const model = new ScriptedModel([{ at: 0, text: "hi" }], () => {
      active = trace.getActiveSpan()?.spanContext().spanId;
    });
    const message = await traceModelCall("scripted-1", () => model.invoke("hello"));
    expect(message.content).toBe("hi");
    const span = telemetry.only("model:scripted-1");
    expect(span.attributes).toEqual(answered);
    expect(active).toBe(span.spanContext().spanId);
  });

  it("records an error and throws it on", async () => {
    const fails = new Error("overloaded");
    const model = new ScriptedModel([{ at: 0, fails }]);
    await expect(traceModelCall("m", () => model.invoke("hello"))).rejects.toBe(fails);
    expect(telemetry.only("model:m").status).toEqual({ code: SpanStatusCode.ERROR, message: "overloaded" });
  });

  it("takes any answer, and says nothing of one that says nothing of itself", async () => {
    for (const answer of [undefined, null, 7, "text", { parsed: true }, { usage_metadata: "?" }]) {
      expect(await traceModelCall("m", async () => answer)).toBe(answer);
    }
    for (const span of telemetry.spans()) expect(Object.keys(span.attributes)).toHaveLength(2);
    const raw = {
      usage_metadata: { input_tokens: 1, output_tokens: 2 },
      response_metadata: { stop_reason: "end_turn" },
    };
    expect(responseAttributes({ raw, parsed: {} })).toMatchObject({
      "gen_ai.usage.input_tokens": 1,
      "gen_ai.response.finish_reasons": ["end_turn"],
    });
  });
});

describe("the handler inside traceModelCall", () => {
  it("adds first_token, tool_call_complete and time to first chunk to that span, and opens no second one", async () => {
    const model = new ScriptedModel(script);
    const now = () => model.time;
    const handler = modelSpanHandler({ now });
    await traceModelCall("scripted-1", async () => readAll(await model.stream("hello", { callbacks: [handler] })), {
      now,
    });
    expect(telemetry.spans().map((span) => span.name)).toEqual(["model:scripted-1"]);
    expect(eventsOf("model:scripted-1")).toEqual(streamEvents);
    expect(telemetry.only("model:scripted-1").attributes).toEqual({
      ...answered,
      "gen_ai.response.time_to_first_chunk": 0.25,
    });
    expect(handler.open).toBe(0);
  });

  it("does not make a model stream that was not asked to", async () => {
    const model = new ScriptedModel(script);
    await traceModelCall("m", () => model.invoke("hello", { callbacks: [modelSpanHandler()] }));
    expect(telemetry.only("model:m").events).toEqual([]);
  });

  it("opens its own span again for a call made after traceModelCall has ended", async () => {
    const model = new ScriptedModel([{ at: 0, text: "x" }]);
    const callbacks = [modelSpanHandler()];
    const late = await traceModelCall("first", async () => ({
      call: new Promise((r) => setImmediate(r)).then(() => model.invoke("x", { callbacks })),
    }));
    await late.call;
    expect(telemetry.spans().map((span) => span.name)).toEqual(["model:first", "model:scripted-1"]);
  });
});

describe("the handler where a graph calls models itself", () => {
  it("opens a model span under the node's span, with the answer's attributes and the stream's events", async () => {
    const model = new ScriptedModel(script);
    const handler = modelSpanHandler({ now: () => model.time });
    const graph = graphOf(async (config) => readAll(await model.stream("hello", config)));
    await graph.invoke({ messages: [new HumanMessage("hi")] }, { callbacks: [handler] });
    expect(telemetry.spans().map((span) => span.name)).toEqual(["model:scripted-1", "node:talk"]);
    expect(parentId(telemetry.only("model:scripted-1"))).toBe(telemetry.only("node:talk").spanContext().spanId);
    expect(telemetry.only("model:scripted-1").attributes).toMatchObject(answered);
    expect(eventsOf("model:scripted-1")).toEqual(streamEvents);
    expect(handler.counters).toEqual({ unmatchedEnds: 0, evicted: 0, abandoned: 0, toolCallsDropped: 0 });
  });

  it("hears a graph's v3 stream, which brings content blocks and no tokens", async () => {
    const stream = new ModelStream();
    const block = { type: "tool_call", id: "call_a", name: "charge", args: {} };
    expect(stream.addEvent({ event: "message-start" }, 1)).toBe(false);
    expect(stream.addEvent({ event: "content-block-start", index: 0, content: { type: "tool_call_chunk" } }, 2)).toBe(
      true,
    );
    expect(stream.addEvent({ event: "content-block-finish", index: 0, content: block }, 3)).toBe(false);
    expect(stream.addEvent({ event: "content-block-delta", index: 1, delta: {} }, 4)).toBe(false);
    expect(stream.completed("broken")).toEqual([{ id: "call_a", name: "charge", completedAt: 3 }]);
  });

  it("ends the span with the error when the model fails; a call that was being written is not called complete", async () => {
    const fails = new Error("stream cut");
    const model = new ScriptedModel([...script.slice(0, 3), { at: 1_600, fails }]);
    const graph = graphOf(async (config) => readAll(await model.stream("hello", config)));
    await expect(
      graph.invoke({ messages: [] }, { callbacks: [modelSpanHandler({ now: () => model.time })] }),
    ).rejects.toBe(fails);
    const span = telemetry.only("model:scripted-1");
    expect(span.status).toEqual({ code: SpanStatusCode.ERROR, message: "stream cut" });
    expect(eventsOf("model:scripted-1").slice(0, 2)).toEqual(streamEvents.slice(0, 2));
    expect(span.events.map((event) => event.name)).toEqual(["first_token", "tool_call_complete", "exception"]);
  });

  it("ends the span of a stream its reader left early when the run around it ends, and counts it", async () => {
    const model = new ScriptedModel(script);
    const handler = modelSpanHandler({ now: () => model.time });
    const graph = graphOf(async (config) => {
      for await (const _ of await model.stream("hello", config)) break;
    });
    await graph.invoke({ messages: [] }, { callbacks: [handler] });
    expect(telemetry.spans().map((span) => span.name)).toContain("model:scripted-1");
    expect(handler.counters.abandoned).toBe(1);
    expect(handler.open).toBe(0);
  });

  it("is awaited: the span has ended when the call returns, though LangChain's background queue is blocked by another handler", async () => {
    let unblock = (): void => {};
    const blocked = new Promise<void>((resolve) => {
      unblock = resolve;
    });
    const slow = BaseCallbackHandler.fromMethods({ handleChatModelStart: () => blocked });
    await new ScriptedModel([{ at: 0, text: "x" }]).invoke("x", { callbacks: [slow, modelSpanHandler()] });
    expect(telemetry.spans("model:scripted-1")).toHaveLength(1);
    unblock();
    await awaitAllCallbacks();
  });

  it("opens one span when it was given twice, to the model and to the run", async () => {
    const handler = modelSpanHandler();
    const model = new ScriptedModel([{ at: 0, text: "x" }]);
    const graph = graphOf((config) => model.withConfig({ callbacks: [handler] }).invoke("x", config));
    await graph.invoke({ messages: [] }, { callbacks: [handler] });
    expect(telemetry.spans("model:scripted-1")).toHaveLength(1);
  });

  it("keeps models of runs at once in their own traces", async () => {
    const handler = modelSpanHandler();
    const graph = graphOf(async (config) => {
      await new Promise((resolve) => setImmediate(resolve));
      return new ScriptedModel([{ at: 0, text: "x" }]).invoke("x", config);
    });
    const runs = Array.from({ length: 12 }, (_, n) => `root ${n}`);
    await Promise.all(
      runs.map((run) => withSpan(run, { root: true }, () => graph.invoke({ messages: [] }, { callbacks: [handler] }))),
    );
    for (const run of runs) {
      const { traceId } = telemetry.only(run).spanContext();
      expect(telemetry.spans("model:scripted-1").filter((span) => span.spanContext().traceId === traceId)).toHaveLength(
        1,
      );
    }
  });
});

describe("the handler that a traced graph lends its nodes and edges", () => {
  const lent = { configurable: { [MODEL_SPANS]: modelSpanHandler } };
  const say = () => new ScriptedModel([{ at: 0, text: "x" }]);

  it("hears the models of a node and of an edge's function, and none without being asked to", async () => {
    const graph = traceGraph(
      new StateGraph(MessagesAnnotation)
        .addNode("talk", async (_, config) => {
          await say().invoke("x", config);
          return {};
        })
        .addEdge(START, "talk")
        .addConditionalEdges("talk", async (_, config) => {
          await say().invoke("y", config);
          return END;
        })
        .compile(),
    );
    await graph.invoke({ messages: [] });
    expect(telemetry.spans("model:scripted-1")).toEqual([]);
    await withSpan("run", {}, () => graph.invoke({ messages: [] }, lent));
    const node = telemetry.spans("node:talk").at(-1)?.spanContext().spanId;
    const run = telemetry.only("run").spanContext().spanId;
    expect(telemetry.spans("model:scripted-1").map(parentId)).toEqual([node, run]);
  });

  it("hears a model once in a subgraph, and beside a handler that the whole graph has", async () => {
    const inner = graphOf((config) => say().invoke("x", config));
    const outer = traceGraph(
      new StateGraph(MessagesAnnotation).addNode("sub", inner).addEdge(START, "sub").addEdge("sub", END).compile(),
    );
    await outer.invoke({ messages: [] }, lent);
    expect(telemetry.spans("model:scripted-1")).toHaveLength(1);
    await outer.invoke({ messages: [] }, { ...lent, callbacks: [modelSpanHandler()] });
    expect(telemetry.spans("model:scripted-1")).toHaveLength(2);
    await outer.invoke({ messages: [] }, { ...lent, callbacks: [BaseCallbackHandler.fromMethods({})] });
    expect(telemetry.spans("model:scripted-1")).toHaveLength(3);
  });

  it("leaves a node and an edge that hear by themselves alone: no callbacks around them, and the node's own call is heard", async () => {
    const callbacks: unknown[] = [];
    const graph = traceGraph(
      new StateGraph(MessagesAnnotation)
        .addNode(
          "talk",
          selfHearing(async (_: unknown, config: object) => {
            callbacks.push("callbacks" in config ? config.callbacks : undefined);
            await traceModelCall("scripted-1", () =>
              hearingModels(config, async (heard) => readAll(await new ScriptedModel(script).stream("hello", heard))),
            );
            return {};
          }),
        )
        .addEdge(START, "talk")
        .addConditionalEdges(
          "talk",
          selfHearing((_: unknown, config: object) => {
            callbacks.push("callbacks" in config ? config.callbacks : undefined);
            return END;
          }),
        )
        .compile(),
    );
    await graph.invoke({ messages: [] }, lent);
    expect(callbacks).toEqual([undefined, undefined]);
    const events = telemetry.only("model:scripted-1").events.map(({ name }) => name);
    expect(events).toEqual(["first_token", "tool_call_complete", "tool_call_complete"]);
  });

  it("ends the span of a stream that the node left early, before the node's", async () => {
    const graph = graphOf(async (config) => {
      for await (const _ of await new ScriptedModel(script).stream("hello", config)) break;
    });
    await graph.invoke({ messages: [] }, lent);
    expect(telemetry.spans().map((span) => span.name)).toEqual(["model:scripted-1", "node:talk"]);
  });
});

describe("the handler's bounds", () => {
  const start = (handler: ReturnType<typeof modelSpanHandler>, run: string) =>
    handler.handleChatModelStart({ lc: 1, type: "not_implemented", id: ["x", "ChatX"] }, [], run);

  it("counts an end or an error that had no start, and throws nothing", async () => {
    const handler = modelSpanHandler();
    await handler.handleLLMEnd({ generations: [] }, "never begun");
    await handler.handleLLMError(new Error("x"), "never begun");
    handler.handleLLMNewToken("x", undefined, "never begun");
    expect(handler.counters.unmatchedEnds).toBe(2);
  });

  it("takes a second start of the same run for the same call", async () => {
    const handler = modelSpanHandler();
    await start(handler, "a");
    await start(handler, "a");
    await handler.handleLLMEnd({ generations: [] }, "a");
    expect(telemetry.spans("model:ChatX")).toHaveLength(1);
  });

  it("lets the oldest call go past its bound, ended and counted", async () => {
    const handler = modelSpanHandler({ openMax: 2 });
    for (const run of ["a", "b", "c"]) await start(handler, run);
    expect(handler.open).toBe(2);
    expect(handler.counters.evicted).toBe(1);
    expect(telemetry.spans("model:ChatX")).toHaveLength(1);
    for (const run of ["a", "b", "c"]) await handler.handleLLMEnd({ generations: [] }, run);
    expect(handler.counters.unmatchedEnds).toBe(1);
    expect(telemetry.spans("model:ChatX")).toHaveLength(3);
  });

  it("counts tool calls past the bound of one answer", () => {
    const stream = new ModelStream();
    for (let index = 0; index < 70; index += 1) {
      stream.add({ message: { tool_call_chunks: [{ index, id: `c${index}`, name: "n", args: "{}" }] } }, index);
    }
    expect(stream.completed("ended")).toHaveLength(64);
    expect(stream.dropped).toBe(6);
  });

  it("puts pieces without a number to the call before them", () => {
    const stream = new ModelStream();
    for (const [at, piece] of [
      { id: "a", name: "x" },
      { args: "{" },
      { id: "b", name: "y" },
      { args: "}" },
    ].entries()) {
      stream.add({ message: { tool_call_chunks: [piece] } }, at);
    }
    expect(stream.completed("broken")).toEqual([{ id: "a", name: "x", completedAt: 1 }]);
    expect(stream.completed("ended")).toHaveLength(2);
  });
});
