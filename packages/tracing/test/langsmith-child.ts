// A traced agent as a process: five runs at once, a model, a tool whose client retries. Run with LangSmith's own tracing on and off.

import { awaitAllCallbacks } from "@langchain/core/callbacks/promises";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Annotation, END, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import { startTracing, withSpan } from "../src/index.ts";
import { modelSpanHandler, TracedSaver, traceGraph } from "../src/langgraph/index.ts";

const [, , target = ""] = process.argv;
const tracing = startTracing({ serviceName: "agent", sampling: { share: 1 } });

const State = Annotation.Root({ said: Annotation<string> });
const model = new FakeListChatModel({ responses: ["charge it"] });

/** As SDKs retry: twice refused, then taken. */
async function charge(run: string): Promise<void> {
  for (let attempt = 0; attempt < 3; attempt++) {
    const response = await fetch(`${target}/tool/${run}`);
    await response.text();
    if (response.ok) return;
  }
}

const graph = traceGraph(
  new StateGraph(State)
    .addNode("agent", async () => ({ said: String((await model.invoke("charge?")).content) }))
    .addNode("tools", async (_state, config) => {
      await withSpan("tool:charge", {}, () => charge(String(config.configurable?.["thread_id"])));
      return {};
    })
    .addEdge(START, "agent")
    .addEdge("agent", "tools")
    .addEdge("tools", END)
    .compile({ checkpointer: new TracedSaver(new MemorySaver()) }),
);

await Promise.all(
  Array.from({ length: 5 }, (_, run) =>
    withSpan(`process ${run}`, { root: true }, () =>
      graph.invoke({ said: "" }, { configurable: { thread_id: `run_${run}` }, callbacks: [modelSpanHandler()] }),
    ),
  ),
);
await awaitAllCallbacks();
process.stdout.write(await tracing.shutdown(20_000));
