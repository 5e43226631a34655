// Completions on real parts: one row for each ending, in its transaction; sent once it is due, and never in a run's way.
import { ReceiveMessageCommand } from "@aws-sdk/client-sqs";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { acquireFence } from "@reprise/tools";
import { describe, expect, it } from "vitest";
import { type AgentGraph, defineAgent } from "../src/agent.ts";
import { type Completion, parseCompletion } from "../src/completion.ts";
import { type CompletionParts, sendCompletions } from "../src/completion-send.ts";
import { createLogger } from "../src/log.ts";
import { sendAnswer, sendRun } from "../src/producer.ts";
import { requestCancel } from "../src/run-cancel.ts";
import { park } from "../src/run-park.ts";
import { cancelRuns, markRun } from "../src/run-rows.ts";
import { waitForRun } from "../src/run-wait.ts";
import { type Scene, scene } from "./scene.ts";
import { twoSteps } from "./scene-agent.ts";

const steps = defineAgent({ name: "steps", graph: twoSteps(), result: (state) => state });

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });
const asking = defineAgent({
  name: "asking",
  graph: new StateGraph(State)
    .addNode("ask", async () => ({ log: [String(interrupt({ question: "pay?" }))] }))
    .addEdge(START, "ask")
    .addEdge("ask", END)
    .compile() as unknown as AgentGraph,
  result: (state) => state,
});

interface Reply {
  readonly completion: Completion;
  readonly traceparent: string | undefined;
  readonly group: string | undefined;
  readonly deduplication: string | undefined;
}

/** What the reply queue holds now. */
async function replies(s: Scene, queueUrl: string): Promise<readonly Reply[]> {
  const { Messages = [] } = await s.client.send(
    new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: 10,
      MessageAttributeNames: ["All"],
      MessageSystemAttributeNames: ["All"],
    }),
  );
  return Messages.map((message) => {
    const completion = parseCompletion(message.Body ?? "");
    if (completion === undefined) throw new Error(`not a completion: ${message.Body}`);
    return {
      completion,
      traceparent: message.MessageAttributes?.["traceparent"]?.StringValue,
      group: message.Attributes?.MessageGroupId,
      deduplication: message.Attributes?.MessageDeduplicationId,
    };
  });
}

function partsOf(s: Scene, allowed: readonly string[]): CompletionParts {
  return {
    db: s.pool,
    client: s.client,
    queueUrl: s.queueUrl,
    allowed: new Set(allowed),
    random: () => 0.5,
    log: createLogger("silent"),
  };
}

/** A run that is held by nobody but this test. */
async function rowOf(s: Scene, run: { readonly id: string; readonly status: string; readonly replyTo: string | null }) {
  await s.pool.query(
    `insert into reprise.runs (run_id, thread_id, agent, status, input_hash, body, queue_url, reply_to)
     values ($1, $2, 'steps', $3, 'h', '{}', $4, $5)`,
    [run.id, `thread-${run.id}`, run.status, s.queueUrl, run.replyTo],
  );
}

const outbox = async (s: Scene): Promise<readonly Record<string, unknown>[]> =>
  (
    await s.pool.query<Record<string, unknown>>(
      "select completion_id, status, state, sends, error_code, last_error from reprise.completions order by created_at",
    )
  ).rows;

describe("a run that names a reply queue", () => {
  it("tells it of its end, with its result and its ids", async () => {
    const s = await scene();
    const replyTo = await s.sqs.createQueue("replies");
    await s.start([steps], { config: { ...s.config, replyQueues: ` ${replyTo}, http://other/q` } });
    await sendRun(s.client, s.queueUrl, {
      agent: "steps",
      threadId: "t",
      runId: "r",
      input: { log: ["in"] },
      replyTo,
    });
    const [reply] = await s.until("the completion", async () => {
      const found = await replies(s, replyTo);
      return found.length > 0 ? found : undefined;
    });
    expect(reply?.completion).toEqual({
      completionId: "r:finished",
      runId: "r",
      threadId: "t",
      agent: "steps",
      omitted: false,
      state: "finished",
      result: { log: ["in", "one", "two"] },
    });
    await s.until("the settled row", async () => (await outbox(s))[0]?.["state"] === "sent");
  });

  it("tells it of each question with its id, and of the end after the answer; a wrong answer in between tells nothing new", async () => {
    const s = await scene();
    const replyTo = await s.sqs.createQueue("replies");
    await s.start([asking], { config: { ...s.config, replyQueues: replyTo } });
    const run = { agent: "asking", threadId: "t", runId: "r" };
    await sendRun(s.client, s.queueUrl, { ...run, input: { log: [] }, replyTo });
    const asked = await waitForRun("r", { pool: s.pool, timeoutMs: 20_000 });
    if (asked.state !== "interrupted") throw new Error(`the run is ${asked.state}`);
    const [question] = asked.interrupts;
    expect(question?.value).toEqual({ question: "pay?" });
    const interruptId = question?.id ?? "";

    await sendAnswer(s.client, s.queueUrl, { ...run, interruptId: "nobody-asked", value: "yes" });
    await s.until("the refusal", async () => (await s.pool.query("select 1 from reprise.parked")).rowCount === 1);
    await s.until("the run waiting again", async () => (await s.run("r"))?.["status"] === "interrupted");
    expect(await waitForRun("r", { pool: s.pool, timeoutMs: 20_000 })).toEqual(asked);

    await sendAnswer(s.client, s.queueUrl, { ...run, interruptId, value: "yes" });
    const ended = await waitForRun("r", { pool: s.pool, timeoutMs: 20_000, answered: [interruptId] });
    expect(ended).toEqual({ state: "finished", result: { log: ["yes"] } });
    await s.until("both sent", async () => (await outbox(s)).filter((row) => row["state"] === "sent").length === 2);
    const told = (await replies(s, replyTo)).map(({ completion }) => completion);
    expect(told.map(({ completionId }) => completionId).sort()).toEqual(["r:finished", "r:interrupted"]);
    expect(told.find(({ state }) => state === "interrupted")).toMatchObject({ interrupts: [{ id: interruptId }] });
  });

  it("finishes as well when the worker may not answer that queue: refused under its code, and nobody is told", async () => {
    const s = await scene();
    const replyTo = await s.sqs.createQueue("victim");
    const allowed = await s.sqs.createQueue("replies");
    await s.start([steps], { config: { ...s.config, replyQueues: allowed } });
    await sendRun(s.client, s.queueUrl, { agent: "steps", threadId: "t", runId: "r", input: { log: [] }, replyTo });
    expect(await waitForRun("r", { pool: s.pool, timeoutMs: 20_000 })).toMatchObject({ state: "finished" });
    const [row] = await s.until("the refusal", async () => {
      const rows = await outbox(s);
      return rows[0]?.["state"] === "refused" ? rows : undefined;
    });
    expect(row?.["last_error"]).toContain("REPLY_QUEUE_REFUSED");
    expect(await replies(s, replyTo)).toEqual([]);
  });

  it("is told of by the next worker when its own was killed between the end and the send, in the trace of the dead one", async () => {
    const s = await scene();
    const replyTo = await s.sqs.createQueue("replies");
    await rowOf(s, { id: "r", status: "running", replyTo });
    await s.pool.query(
      `insert into reprise.deliveries (delivery_id, sqs_message_id, run_id, thread_id, worker, trace_id, root_span_id)
       values ('d', 'm', 'r', 'thread-r', 'gone:1', $1, $2)`,
      ["a".repeat(32), "b".repeat(16)],
    );
    await s.pool.query(`update reprise.runs set status = 'finished', result = '"done"' where run_id = 'r'`);
    await s.start([steps], { config: { ...s.config, replyQueues: replyTo } });
    const [reply] = await s.until("the completion", async () => {
      const found = await replies(s, replyTo);
      return found.length > 0 ? found : undefined;
    });
    expect(reply?.completion).toMatchObject({ completionId: "r:finished", result: "done" });
    expect(reply?.traceparent).toBe(`00-${"a".repeat(32)}-${"b".repeat(16)}-01`);
  });
});

describe("the outbox", () => {
  const ends: readonly [string, string, (s: Scene) => Promise<unknown>][] = [
    [
      "a mark under the fence",
      "finished",
      async (s) => {
        const ids = { threadId: "thread-r", runId: "r", deliveryId: "d" };
        const held = await acquireFence(s.pool, { ...ids, owner: "o", leaseMs: 60_000 });
        if (!("fence" in held)) throw new Error("the thread is held");
        await markRun(s.pool, { ...ids, fence: held.fence, status: "finished", result: "1" });
      },
    ],
    ["a park", "parked", (s) => park(s.pool, parkedMessage(s), "parked")],
    ["a refusal before it began", "rejected", (s) => park(s.pool, parkedMessage(s), "rejected")],
    ["a run that supersedes it", "cancelled", (s) => cancelRuns(s.pool, ["r"])],
    ["a cancel while nobody holds it", "cancelled", (s) => requestCancel(s.pool, "r")],
  ];
  const before: Readonly<Record<string, string>> = { rejected: "queued", cancelled: "interrupted" };

  it.each(ends)("has one row after %s (%s), and none for a run that names no queue", async (_how, status, end) => {
    const s = await scene();
    await rowOf(s, { id: "r", status: before[status] ?? "running", replyTo: "http://replies/q" });
    await rowOf(s, { id: "other", status: before[status] ?? "running", replyTo: null });
    await end(s);
    await s.pool.query("update reprise.runs set status = 'finished' where run_id = 'other'");
    expect(await outbox(s)).toMatchObject([{ completion_id: `r:${status}`, status, state: "pending" }]);
  });

  it("is written with the status or not at all", async () => {
    const s = await scene();
    await rowOf(s, { id: "r", status: "running", replyTo: "http://replies/q" });
    const client = await s.pool.connect();
    try {
      await client.query("begin");
      await client.query("update reprise.runs set status = 'finished' where run_id = 'r'");
      expect((await client.query("select 1 from reprise.completions")).rowCount).toBe(1);
      await client.query("rollback");
    } finally {
      client.release();
    }
    expect(await outbox(s)).toEqual([]);
  });

  it("gives the second ending of a redriven run an id of its own", async () => {
    const s = await scene();
    await rowOf(s, { id: "r", status: "running", replyTo: "http://replies/q" });
    for (const status of ["parked", "running", "parked"])
      await s.pool.query("update reprise.runs set status = $1 where run_id = 'r'", [status]);
    expect((await outbox(s)).map((row) => row["completion_id"])).toEqual(["r:parked", "r:parked:2"]);
  });

  it("is emptied by many workers at once without sending anything twice, in groups of its thread on a FIFO queue", async () => {
    const s = await scene();
    const replyTo = await s.sqs.createQueue("replies.fifo", { FifoQueue: "true" });
    const ids = Array.from({ length: 25 }, (_, index) => `r${index}`);
    for (const id of ids) await rowOf(s, { id, status: "running", replyTo });
    await s.pool.query(`update reprise.runs set status = 'finished', result = '1'`);
    await Promise.all([1, 2, 3].map(() => sendCompletions(partsOf(s, [replyTo]))));
    expect((await outbox(s)).map((row) => [row["state"], row["sends"]])).toEqual(ids.map(() => ["sent", 1]));
    expect(s.sqs.requests()["SendMessage"]).toBe(25);
    const [reply] = await replies(s, replyTo);
    expect(reply?.group).toBe(reply?.completion.threadId);
    expect(reply?.deduplication).toBe(reply?.completion.completionId);
  });

  it("keeps a completion whose queue is gone for later, sends the others, and gives up after twelve tries, counted", async () => {
    const s = await scene();
    const replyTo = await s.sqs.createQueue("replies");
    const gone = `${replyTo}-gone`;
    await rowOf(s, { id: "lost", status: "running", replyTo: gone });
    await rowOf(s, { id: "told", status: "running", replyTo });
    await s.pool.query(`update reprise.runs set status = 'finished', result = '1'`);
    await sendCompletions(partsOf(s, [replyTo, gone]));
    expect(await outbox(s)).toMatchObject([
      { completion_id: "lost:finished", state: "pending", sends: 1 },
      { completion_id: "told:finished", state: "sent" },
    ]);
    const due = await s.pool.query(
      "select extract(epoch from next_send_at - clock_timestamp())::float8 as seconds from reprise.completions where state = 'pending'",
    );
    expect(due.rows[0].seconds).toBeGreaterThan(2);
    expect(due.rows[0].seconds).toBeLessThan(10);
    await sendCompletions(partsOf(s, [replyTo, gone]));
    expect((await outbox(s))[0]).toMatchObject({ sends: 1 });

    await s.pool.query(
      "update reprise.completions set sends = 11, next_send_at = clock_timestamp() where state = 'pending'",
    );
    const counted: string[] = [];
    await sendCompletions(partsOf(s, [replyTo, gone]), (state) => counted.push(state));
    expect(counted).toEqual(["dead"]);
    expect((await outbox(s))[0]).toMatchObject({ state: "dead", sends: 12 });
    expect((await outbox(s))[0]?.["last_error"]).toMatch(/queue/i);
  });

  it("sends it again under the same id when its sender was killed between the send and the note of it", async () => {
    const s = await scene();
    const replyTo = await s.sqs.createQueue("replies");
    await rowOf(s, { id: "r", status: "running", replyTo });
    await s.pool.query(`update reprise.runs set status = 'finished', result = '1'`);
    const db: CompletionParts["db"] = {
      query: (text, values) =>
        text.includes("set state = $2") ? Promise.reject(new Error("killed")) : s.pool.query(text, values),
    };
    await expect(sendCompletions({ ...partsOf(s, [replyTo]), db })).rejects.toThrow("killed");
    // Nobody sends it while its sender may still be at it.
    await sendCompletions(partsOf(s, [replyTo]));
    expect(await outbox(s)).toMatchObject([{ state: "pending", sends: 1 }]);
    await s.pool.query("update reprise.completions set next_send_at = clock_timestamp()");
    await sendCompletions(partsOf(s, [replyTo]));
    expect(await outbox(s)).toMatchObject([{ state: "sent", sends: 2 }]);
    const told = (await replies(s, replyTo)).map(({ completion }) => completion.completionId);
    expect(told).toEqual(["r:finished", "r:finished"]);
  });

  it("sends the completions of its own queue's runs alone", async () => {
    const s = await scene();
    const replyTo = await s.sqs.createQueue("replies");
    await rowOf(s, { id: "r", status: "running", replyTo });
    await s.pool.query(`update reprise.runs set status = 'finished', queue_url = 'http://another/q'`);
    await sendCompletions(partsOf(s, []));
    expect(await outbox(s)).toMatchObject([{ state: "pending", sends: 0 }]);
  });
});

function parkedMessage(s: Scene): Parameters<typeof park>[1] {
  return {
    sqsMessageId: "m",
    queueUrl: s.queueUrl,
    runId: "r",
    threadId: "thread-r",
    receiveCount: 1,
    code: "FAULT_LIMIT",
    reason: "too many",
    body: "{}",
    messageAttributes: {},
    traceId: "0".repeat(32),
  };
}
