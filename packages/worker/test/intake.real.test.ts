// The intake on real parts: the order of FIFO groups, and the link from each delivery to its own producer.
import { SendMessageCommand } from "@aws-sdk/client-sqs";
import type { ReadableSpan } from "@opentelemetry/sdk-trace-base";
import { ATTR } from "@reprise/tracing";
import { expect, it } from "vitest";
import { spansInMemory } from "../../tracing/test/memory-telemetry.ts";
import { defineAgent } from "../src/agent.ts";
import { pause } from "../src/intake-pause.ts";
import { scene } from "./scene.ts";
import { chainOf } from "./scene-graph.ts";

const exporter = spansInMemory();

const roots = (): readonly ReadableSpan[] =>
  exporter.getFinishedSpans().filter((span) => span.name.startsWith("process "));
const rootsOf = (runId: string): readonly ReadableSpan[] =>
  roots().filter((span) => span.attributes[ATTR.runId] === runId);

it("Q17, C09: the first of a FIFO group fails: its second and third wait for it, another group goes on", async () => {
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "6" }, { FifoQueue: "true" });
  const began: string[] = [];
  const ended: string[] = [];
  const graph = chainOf({
    one: async ({ log }) => {
      const name = log.at(-1) ?? "";
      began.push(name);
      // Longer than three visibilities would be the case's own input; here longer than every other part takes.
      if (name === "g1" && began.filter((other) => other === "g1").length === 1) {
        await pause(1_500, undefined);
        throw new Error("the first of the group fails");
      }
      ended.push(name);
    },
  });
  for (const [name, threadId] of [
    ["g1", "g"],
    ["g2", "g"],
    ["g3", "g"],
    ["h1", "h"],
  ] as const)
    await s.send({ agent: "steps", threadId, runId: name, input: { log: [name] } });
  await s.start([defineAgent({ name: "steps", graph })]);
  await s.until("all runs' ends", async () => ended.length === 4);
  await s.until("the queue to be empty", async () => (await s.queued()) === 0);
  expect(began.filter((name) => name.startsWith("g"))).toEqual(["g1", "g1", "g2", "g3"]);
  expect(ended.indexOf("h1")).toBe(0);
  // Nobody received the second or the third before its turn: their receive counts are those of first deliveries.
  for (const runId of ["g2", "g3"])
    expect(await s.deliveries(runId)).toMatchObject([{ receive_count: 1, cause: "none", outcome: "finished" }]);
});

it("Q18: a run that waited for its thread is sent again under its run_id, linked to its own producer", async () => {
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "10" });
  let free = (): void => {};
  const held = new Promise<void>((resolve) => {
    free = resolve;
  });
  let first = true;
  const graph = chainOf({
    one: async () => {
      if (first) await held;
      first = false;
    },
  });
  await s.start([defineAgent({ name: "steps", graph })]);
  await s.send({ agent: "steps", threadId: "t", runId: "a", input: { log: ["a"] } });
  await s.until("the first run to work", async () => (await s.run("a"))?.["status"] === "running");
  const [traceId, spanId] = ["7".repeat(32), "8".repeat(16)];
  const body = { schema: 1, run_id: "b", thread_id: "t", agent: "steps", input: { log: ["b"] } };
  await s.client.send(
    new SendMessageCommand({
      QueueUrl: s.queueUrl,
      MessageBody: JSON.stringify(body),
      MessageAttributes: { traceparent: { DataType: "String", StringValue: `00-${traceId}-${spanId}-01` } },
    }),
  );
  await s.until("the second run to wait", async () => (await s.deliveries("b"))[0]?.["outcome"] === "waiting");
  free();
  await s.until("the second run's end", async () => (await s.run("b"))?.["status"] === "finished");
  const rows = await s.deliveries("b");
  expect(rows).toHaveLength(2);
  expect(rows[0]?.["sqs_message_id"]).not.toBe(rows[1]?.["sqs_message_id"]);
  await s.until("its span", async () => rootsOf("b").length === 2);
  for (const root of rootsOf("b"))
    expect(root.links.map(({ context: to }) => [to.traceId, to.spanId])).toEqual([[traceId, spanId]]);
});

it("Q20: three messages received together have three process spans, each linked to its own producer", async () => {
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "10" });
  const producers = ["1", "2", "3"].map((digit) => ({ traceId: digit.repeat(32), spanId: digit.repeat(16) }));
  for (const [index, { traceId, spanId }] of producers.entries()) {
    await s.client.send(
      new SendMessageCommand({
        QueueUrl: s.queueUrl,
        MessageBody: JSON.stringify({
          schema: 1,
          run_id: `run-${index}`,
          thread_id: `thread-${index}`,
          agent: "steps",
          input: { log: [] },
        }),
        MessageAttributes: { traceparent: { DataType: "String", StringValue: `00-${traceId}-${spanId}-01` } },
      }),
    );
  }
  await s.start([defineAgent({ name: "steps", graph: chainOf({ one: async () => {} }) })]);
  await s.until("three process spans", async () => roots().length === 3);
  expect(new Set(roots().map((span) => span.spanContext().traceId)).size).toBe(3);
  const links = roots().map((span) => [
    span.attributes[ATTR.runId],
    ...span.links.map((link) => [link.context.traceId, link.context.spanId]),
  ]);
  expect(links.sort()).toEqual(producers.map(({ traceId, spanId }, index) => [`run-${index}`, [traceId, spanId]]));
  expect(roots().every((span) => span.parentSpanContext === undefined)).toBe(true);
});
