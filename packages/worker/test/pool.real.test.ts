// Connections that PostgreSQL closes under a worker: the process lives, and the same delivery goes on (case E02).
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { expect, it } from "vitest";
import { type AgentGraph, defineAgent } from "../src/agent.ts";
import { scene } from "./scene.ts";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });

it("E02: a run that waits for its model goes on in the same delivery after every connection of its worker was closed", async () => {
  const s = await scene({ REPRISE_VISIBILITY_SECONDS: "30" }, { VisibilityTimeout: "30" });
  let [asked, answer] = [(): void => {}, (): void => {}];
  const begun = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const reply = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const graph = new StateGraph(State)
    .addNode("model", async () => {
      asked();
      await reply;
      return { log: ["model"] };
    })
    .addEdge(START, "model")
    .compile() as unknown as AgentGraph;
  await s.start([defineAgent({ name: "waits", graph, result: (state) => state })]);
  const { runId } = await s.send({ agent: "waits", input: { log: [] } });
  await begun;
  const { rows } = await s.pool.query<{ ended: boolean }>(
    "select pg_terminate_backend(pid) as ended from pg_stat_activity where datname = current_database() and application_name = 'reprise-worker'",
  );
  expect(rows.length).toBeGreaterThan(0);
  answer();
  await s.until("the run's end", async () => (await s.run(runId))?.["status"] === "finished");
  await s.until("the message to be gone", async () => (await s.queued()) === 0);
  expect(await s.deliveries(runId)).toMatchObject([{ outcome: "finished", cause: "none" }]);
});
