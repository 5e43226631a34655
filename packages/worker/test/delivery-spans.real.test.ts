// What a refused or parked message leaves in the traces: one span, with the code and the reason's outcome.
import { Annotation, interrupt, START, StateGraph } from "@langchain/langgraph";
import type { ReadableSpan } from "@opentelemetry/sdk-trace-base";
import { ATTR } from "@reprise/tracing";
import { expect, it } from "vitest";
import { spansInMemory } from "../../tracing/test/memory-telemetry.ts";
import { type AgentGraph, defineAgent } from "../src/agent.ts";
import { sendAnswer } from "../src/producer.ts";
import { scene } from "./scene.ts";
import { twoSteps } from "./scene-agent.ts";

const exporter = spansInMemory();
const roots = (): readonly ReadableSpan[] =>
  exporter.getFinishedSpans().filter((span) => span.name.startsWith("process "));
const agent = defineAgent({ name: "steps", graph: twoSteps() });
const request = { schema: 1, run_id: "r", thread_id: "t", agent: "steps", input: { log: [] } };

it.each([
  ["C15: a body that is not JSON", "hello", { [ATTR.outcome]: "parked", [ATTR.outcomeCode]: "MESSAGE_NOT_JSON" }],
  ["C15: a body of the wrong shape", "[]", { [ATTR.outcome]: "parked", [ATTR.outcomeCode]: "MESSAGE_SHAPE" }],
  [
    "C16: a newer schema",
    JSON.stringify({ ...request, schema: 2 }),
    { [ATTR.outcome]: "returned", [ATTR.outcomeCode]: "MESSAGE_NEWER_SCHEMA" },
  ],
  [
    "an unknown agent",
    JSON.stringify({ ...request, agent: "x" }),
    { [ATTR.outcome]: "returned", [ATTR.outcomeCode]: "AGENT_UNKNOWN" },
  ],
  [
    "E01: NUL in thread_id",
    JSON.stringify({ ...request, thread_id: "a\u0000" }),
    { [ATTR.outcome]: "parked", [ATTR.outcomeCode]: "THREAD_ID_INVALID" },
  ],
])("%s leaves one root span with the code", async (_name, body, attributes) => {
  const s = await scene();
  await s.start([agent]);
  await s.sendBody(body);
  await s.until("the span", async () => roots().length > 0);
  expect(roots()).toHaveLength(1);
  expect(roots()[0]?.attributes).toMatchObject({ ...attributes, [ATTR.receiveCount]: 1 });
});

it("C06: a missing receive count is said, and is no number", async () => {
  const s = await scene();
  s.sqs.faults.add({ kind: "count_missing", remaining: 1 });
  await s.start([agent]);
  await s.sendBody(JSON.stringify(request));
  await s.until("the span", async () => roots().length > 0);
  expect(roots()[0]?.attributes).toMatchObject({ [ATTR.receiveCountMissing]: true, [ATTR.outcome]: "finished" });
  expect(roots()[0]?.attributes).not.toHaveProperty([ATTR.receiveCount]);
});

it("a finished delivery is one tree: root, checkpoint reads and writes, graph, nodes, every parent there, every span ended", async () => {
  const s = await scene();
  await s.start([agent]);
  await s.sendBody(JSON.stringify(request));
  await s.until("the span", async () => roots().length > 0);
  const spans = exporter.getFinishedSpans();
  const byId = new Map(spans.map((span) => [span.spanContext().spanId, span]));
  const pathOf = (span: ReadableSpan): string => {
    const parent = byId.get(span.parentSpanContext?.spanId ?? "");
    return parent === undefined ? span.name.replace(/ .*/, "") : `${pathOf(parent)} > ${span.name}`;
  };
  const paths = spans.map(pathOf);
  expect(paths).toEqual(
    expect.arrayContaining([
      "process",
      "process > checkpoint.get",
      "process > graph.invoke",
      "process > graph.invoke > checkpoint.put",
      "process > graph.invoke > node:one",
    ]),
  );
  expect(paths.every((path) => path.startsWith("process"))).toBe(true);
  expect(spans.every((span) => span.ended)).toBe(true);
  expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1);
});

it("F04: a run that waited for a human is resumed by another worker under a new root that links to the first", async () => {
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "10" });
  const State = Annotation.Root({ said: Annotation<string> });
  const graph = new StateGraph(State)
    .addNode("ask", async () => ({ said: interrupt<string, string>("refund?") }))
    .addEdge(START, "ask")
    .compile() as unknown as AgentGraph;
  const asking = defineAgent({ name: "ask", graph });
  const first = await s.start([asking]);
  await s.send({ agent: "ask", threadId: "t", runId: "r", input: { said: "" } });
  const run = await s.until("the question", async () => {
    const row = await s.run("r");
    return row?.["status"] === "interrupted" ? row : undefined;
  });
  // As a deploy would: the span of the first delivery is in no process any more.
  await first.stop();
  const [question] = JSON.parse(String(run["interrupts"]));
  await s.start([asking]);
  const answer = { agent: "ask", threadId: "t", runId: "r", interruptId: question.id, value: "yes" };
  await sendAnswer(s.client, s.queueUrl, answer);
  await s.until("the second root", async () => roots().length === 2);
  const [asked, resumed] = roots();
  expect(asked?.attributes).toMatchObject({ [ATTR.outcome]: "interrupted" });
  expect(resumed?.attributes).toMatchObject({ [ATTR.outcome]: "finished", [ATTR.runId]: "r" });
  const { traceId, spanId } = asked?.spanContext() ?? {};
  expect(resumed?.spanContext().traceId).not.toBe(traceId);
  expect(resumed?.links.map(({ context: link }) => link)).toEqual([expect.objectContaining({ traceId, spanId })]);
});
