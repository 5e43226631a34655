// A human asked again and again, with effects in between: each question gets its own answer, each effect happens once (case B07).
import { AIMessage } from "@langchain/core/messages";
import { interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { defineTool } from "@reprise/tools";
import { expect, it } from "vitest";
import { z } from "zod";
import { type AgentGraph, defineAgent } from "../src/agent.ts";
import { sendAnswer } from "../src/producer.ts";
import { type Scene, scene } from "./scene.ts";

const ROUNDS = 3;
const SLOW = { REPRISE_VISIBILITY_SECONDS: "10" };

/** Counts what a reviewer's inbox receives. */
function inbox() {
  const mails: number[] = [];
  const notify = defineTool({
    name: "notify_reviewer",
    description: "mails the reviewer",
    schema: z.object({ round: z.number() }),
    effect: "once",
    run: async ({ round }) => {
      mails.push(round);
      return `mail ${round}`;
    },
  });
  return { mails, notify };
}

/** Calls as a model node writes them: one message, an ordinal in each id. */
function planned(rounds: readonly number[]): AIMessage {
  return new AIMessage({
    id: `plan_${rounds.join("_")}`,
    content: "",
    tool_calls: rounds.map((round) => ({ name: "notify_reviewer", args: { round }, id: `call_review_${round}_7f3a` })),
  });
}

/** The answers a run was given, told by its last message. */
function told(answers: readonly unknown[]): { messages: AIMessage[] } {
  return { messages: [new AIMessage(`answered ${answers.join(" ")}`)] };
}

/** All three rounds in one node: every answer runs the node again from its first line. */
function loopInNode(notify: ReturnType<typeof inbox>["notify"]): AgentGraph {
  return new StateGraph(MessagesAnnotation)
    .addNode("plan", async () => ({ messages: [planned([1, 2, 3])] }))
    .addNode("review", async ({ messages }, config) => {
      const plan = messages.findLast((message) => AIMessage.isInstance(message));
      const answers: unknown[] = [];
      for (const call of plan?.tool_calls ?? []) {
        await notify.invoke({ ...call, type: "tool_call" }, config);
        answers.push(interrupt(`round ${answers.length + 1}?`));
      }
      return told(answers);
    })
    .addEdge(START, "plan")
    .addEdge("plan", "review")
    .compile() as unknown as AgentGraph;
}

async function answerNext(s: Scene, runId: string, round: number): Promise<void> {
  const question = `round ${round}?`;
  const pending = await s.until(`the question ${question}`, async () => {
    const run = await s.run(runId);
    if (run?.["status"] !== "interrupted") return undefined;
    const asked: readonly { id: string; value: unknown }[] = JSON.parse(String(run["interrupts"]));
    return asked.find(({ value }) => value === question);
  });
  await sendAnswer(s.client, s.queueUrl, {
    agent: "review",
    threadId: "t",
    runId,
    interruptId: pending.id,
    value: `answer ${round}`,
  });
}

it("B07: three rounds in one node mail the reviewer three times, never once and twice and three times", async () => {
  const s = await scene(SLOW, { VisibilityTimeout: "10" });
  const { mails, notify } = inbox();
  await s.start([
    defineAgent({
      name: "review",
      graph: loopInNode(notify),
      result: (state) => (state as { messages: AIMessage[] }).messages.at(-1)?.text,
    }),
  ]);
  await s.send({ agent: "review", threadId: "t", runId: "r" });
  for (let round = 1; round <= ROUNDS; round += 1) await answerNext(s, "r", round);
  const run = await s.until("the run's end", async () => {
    const row = await s.run("r");
    return row?.["status"] === "finished" || row?.["status"] === "failed" ? row : undefined;
  });
  expect(run).toMatchObject({ status: "finished" });
  expect(JSON.parse(String(run["result"]))).toBe("answered answer 1 answer 2 answer 3");
  expect(mails).toEqual([1, 2, 3]);
});
