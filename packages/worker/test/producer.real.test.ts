// The producer's side on real parts: batches that arrive, inputs that are elsewhere, and the README's schedule.
import { readFileSync } from "node:fs";
import { DeleteMessageCommand, ReceiveMessageCommand } from "@aws-sdk/client-sqs";
import { describe, expect, it } from "vitest";
import { defineAgent, type LoadInput } from "../src/agent.ts";
import { parseMessage } from "../src/message.ts";
import { sendRun } from "../src/producer.ts";
import { sendRuns } from "../src/producer-batch.ts";
import { waitForRun } from "../src/run-wait.ts";
import { type Scene, scene } from "./scene.ts";
import { twoSteps } from "./scene-agent.ts";

const steps = (loadInput?: LoadInput, name = "steps") =>
  defineAgent({
    name,
    graph: twoSteps(),
    result: (state) => state,
    ...(loadInput === undefined ? {} : { loadInput }),
  });
const wait = (s: Scene, runId: string) => waitForRun(runId, { pool: s.pool, timeoutMs: 40_000 });

describe("a batch", () => {
  it("arrives whole through throttling and a lost reply, and each of its runs is done once", async () => {
    const s = await scene({ REPRISE_VISIBILITY_SECONDS: "10" });
    s.sqs.faults.add({ kind: "drop_reply", operation: "SendMessageBatch", remaining: 1 });
    s.sqs.faults.add({ kind: "throttle", operation: "SendMessageBatch", remaining: 1 });
    const runs = Array.from({ length: 25 }, (_, index) => ({
      agent: "steps",
      threadId: `t${index}`,
      runId: `r${index}`,
      input: { log: [`in ${index}`] },
    }));
    const results = await sendRuns(s.client, s.queueUrl, runs);
    expect(results.map(({ state, runId }) => [state, runId])).toEqual(runs.map(({ runId }) => ["sent", runId]));
    await s.start([steps()]);
    for (const { runId, input } of runs)
      expect(await wait(s, runId)).toEqual({ state: "finished", result: { log: [...input.log, "one", "two"] } });
    const checkpoints = await s.pool.query("select thread_id from checkpoints group by 1 having count(*) <> 4");
    expect(checkpoints.rows).toEqual([]);
  });

  it("keeps each thread's order on a FIFO queue", async () => {
    const s = await scene();
    const queueUrl = await s.sqs.createQueue("batch.fifo", { FifoQueue: "true" });
    const runs = Array.from({ length: 12 }, (_, index) => ({
      agent: "steps",
      threadId: `t${index % 3}`,
      runId: `r${index}`,
      input: {},
    }));
    await sendRuns(s.client, queueUrl, runs, { concurrency: 8 });
    const received: string[] = [];
    while (received.length < runs.length) {
      const ask = new ReceiveMessageCommand({ QueueUrl: queueUrl, MaxNumberOfMessages: 10 });
      for (const { Body = "", ReceiptHandle } of (await s.client.send(ask)).Messages ?? []) {
        const parsed = parseMessage(Body, { snsEnvelope: "refuse" });
        if (parsed.kind === "run") received.push(parsed.runId);
        await s.client.send(new DeleteMessageCommand({ QueueUrl: queueUrl, ReceiptHandle }));
      }
    }
    for (let thread = 0; thread < 3; thread += 1) {
      const own = received.filter((id) => Number(id.slice(1)) % 3 === thread);
      expect(own).toEqual([0, 3, 6, 9].map((offset) => `r${thread + offset}`));
    }
  });
});

describe("an input that is elsewhere", () => {
  it("is loaded by its agent when the run starts, and again after a failure", async () => {
    const s = await scene({ REPRISE_VISIBILITY_SECONDS: "10" });
    const asked: string[] = [];
    const load: LoadInput = async (ref, run) => {
      asked.push(`${ref} for ${run.runId} on ${run.threadId}`);
      if (asked.length === 1) throw new Error("the store is away");
      return { log: ["from the store"] };
    };
    await s.start([steps(load)]);
    await sendRun(s.client, s.queueUrl, { agent: "steps", threadId: "t", runId: "r", inputRef: "rows/7" });
    expect(await wait(s, "r")).toEqual({ state: "finished", result: { log: ["from the store", "one", "two"] } });
    expect(asked).toEqual(["rows/7 for r on t", "rows/7 for r on t"]);
    const [first] = await s.deliveries("r");
    expect(first).toMatchObject({ outcome: "failed_retry", outcome_code: "INPUT_NOT_LOADED" });
  });

  it("is given back, and not run, where the agent has no way to load it", async () => {
    const s = await scene();
    await s.start([steps()]);
    await sendRun(s.client, s.queueUrl, { agent: "steps", threadId: "t", runId: "r", inputRef: "rows/7" });
    await s.until("the give-back", async () => (s.sqs.requests()["ChangeMessageVisibilityBatch"] ?? 0) > 0);
    expect(await s.run("r")).toBeUndefined();
    expect(await s.queued()).toBe(1);
  });
});

describe("the README's schedule", () => {
  /** What EventBridge Scheduler puts in the queue for one tick. */
  const tick = (at: string): string => {
    const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
    const [, template = ""] = /<!-- tested: cron -->\s*```json\n([\s\S]*?)```/.exec(readme) ?? [];
    return template.replaceAll("<aws.scheduler.scheduled-time>", at);
  };

  it("makes one run of the same tick sent twice, and another of the next", async () => {
    const s = await scene({ REPRISE_VISIBILITY_SECONDS: "10" });
    await s.start([steps(undefined, "reports")]);
    const [first, second] = ["2026-06-01T02:00:00Z", "2026-06-02T02:00:00Z"];
    await s.sendBody(tick(first));
    expect(await wait(s, `cron:nightly-report:${first}`)).toMatchObject({ state: "finished" });
    await s.sendBody(tick(first));
    await s.sendBody(tick(second));
    expect(await wait(s, `cron:nightly-report:${second}`)).toMatchObject({ state: "finished" });
    await s.until("both settled", async () => (await s.queued()) === 0);
    const { rows } = await s.pool.query(
      `select r.run_id, count(*) filter (where d.outcome = 'finished')::int as finished
       from reprise.runs r join reprise.deliveries d using (run_id) group by 1 order by 1`,
    );
    expect(rows).toEqual([first, second].map((at) => ({ run_id: `cron:nightly-report:${at}`, finished: 1 })));
  });
});
