// The operator's commands as a user types them: built, in processes of their own, against a real database, queue and sink.
import { appendFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { startSink } from "@reprise/dev-stack";
import { deriveKey } from "@reprise/tools";
import { ATTR } from "@reprise/tracing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AgentGraph, defineAgent } from "../src/agent.ts";
import { buildCommand, environmentOf, reprise } from "./cli-process.ts";
import { type Scene, scene } from "./scene.ts";

let folder: string;
beforeAll(async () => {
  await buildCommand();
  folder = mkdtempSync(join(tmpdir(), "operator-"));
}, 180_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });

/** A run that fails until it is told not to. */
function failing(): { readonly agent: ReturnType<typeof defineAgent>; mend(): void; begun(): number } {
  let [broken, begun] = [true, 0];
  const graph = new StateGraph(State)
    .addNode("one", async () => ({ log: ["one"] }))
    .addNode("two", async () => {
      begun += 1;
      if (broken) throw new Error("the provider is down");
      return { log: ["two"] };
    })
    .addEdge(START, "one")
    .addEdge("one", "two")
    .addEdge("two", END)
    .compile() as unknown as AgentGraph;
  return {
    agent: defineAgent({ name: "failing", graph, result: (state) => state }),
    mend: () => {
      broken = false;
    },
    begun: () => begun,
  };
}

async function addRun(
  s: Scene,
  runId: string,
  more: { readonly status?: string; readonly thread?: string } = {},
): Promise<void> {
  await s.pool.query(
    `insert into reprise.runs (run_id, thread_id, agent, status, input_hash, queue_url, body, latest_checkpoint_id, latest_step)
     values ($1, $2, 'billing', $3, 'hash-1', $4, '{}', 'cp-1', 4)`,
    [runId, more.thread ?? "thread-1", more.status ?? "finished", s.queueUrl],
  );
}

async function addEffect(
  s: Scene,
  call: string,
  more: { readonly state?: string; readonly thread?: string; readonly lease?: string } = {},
): Promise<string> {
  const thread = more.thread ?? "thread-1";
  const key = deriveKey(thread, call);
  await s.pool.query(
    `insert into reprise.effects (key, thread_id, tool, tool_call_id, args_fingerprint, policy, state, nonce, fence, holder, lease_until,
       run_id, delivery_id, node_attempt, detail, unknown_at)
     values ($1, $2, 'charge', $3, 'f', 'once', $4, 'n', 1, 'h', now() + $5::interval, 'r-1', 'd-1', 1, '=cmd|calc', now())`,
    [key, thread, call, more.state ?? "unknown", more.lease ?? "-1 minute"],
  );
  return key;
}

describe("reprise run and runs", () => {
  it("shows one run with its deliveries, answers and effects, as text and as JSON; colourless in a pipe", async () => {
    const s = await scene();
    const environment = environmentOf(s);
    await addRun(s, "r-1");
    await s.pool.query(
      `insert into reprise.deliveries (delivery_id, sqs_message_id, receive_count, run_id, thread_id, worker, trace_id, root_span_id, cause, outcome, ended_at, started_at)
       values ('d-0', 'm-1', 1, 'r-1', 'thread-1', 'w', 'trace-0', '0', 'none', 'lost', now(), now() - interval '1 minute'),
         ('d-1', 'm-1', 2, 'r-1', 'thread-1', 'w', 'trace-1', '0', 'visibility_expired', 'finished', now(), now())`,
    );
    await s.pool.query(
      "insert into reprise.answers (interrupt_id, run_id, value_hash, delivery_id) values ('i-1', 'r-1', 'v', 'd-0')",
    );
    await addEffect(s, "call-1", { state: "reserved" });
    await addEffect(s, "call-2", { thread: "another" });
    const shown = await reprise(["run", "r-1"], environment);
    expect(shown).toMatchObject({ code: 0, stderr: "" });
    for (const text of [
      "finished",
      "thread-1",
      "hash-1",
      "cp-1, step 4",
      "visibility_expired",
      "trace-1",
      "i-1",
      "call-1",
      "reserved, lease over",
    ]) {
      expect(shown.stdout).toContain(text);
    }
    expect(shown.stdout).not.toContain("call-2");
    expect(shown.stdout).not.toContain(String.fromCharCode(27));
    const json = JSON.parse((await reprise(["run", "r-1", "--json"], environment)).stdout);
    expect(json).toMatchObject({
      run: { status: "finished" },
      deliveries: [{ outcome: "lost" }, { cause: "visibility_expired" }],
    });
    for (const where of [
      "receive_count>1 and cause=visibility_expired",
      "agent.receive_count>1 and agent.redelivery_cause=visibility_expired",
    ]) {
      const listed = await reprise(["runs", "--json", "--where", where], environment);
      expect(JSON.parse(listed.stdout)).toMatchObject({
        run_id: "r-1",
        cause: "visibility_expired",
        receive_count: 2,
        deliveries: 2,
      });
    }
    expect(await reprise(["runs", "--where", "receive_count>1 and cause=none"], environment)).toMatchObject({
      stdout: "no runs\n",
    });
  });

  it("says where it looked and what is near when it knows no such run, and what to do without tables or server", async () => {
    const s = await scene();
    await addRun(s, "invoice-2026-06");
    const unknown = await reprise(["run", "invoice-2026-6"], environmentOf(s));
    expect(unknown).toMatchObject({ code: 1, stdout: "" });
    expect(unknown.stderr).toContain("RUN_UNKNOWN");
    expect(unknown.stderr).toContain("near it: invoice-2026-06");
    expect(unknown.stderr).toContain(`at ${new URL(s.config.databaseUrl).host}, schema reprise`);
    expect((await reprise(["run", "thread-1"], environmentOf(s))).stderr).toContain(
      '"thread-1" is a thread; its runs: invoice-2026-06',
    );
    const away = await reprise(["run", "x"], { DATABASE_URL: "postgres://me:secret@127.0.0.1:1/app" });
    expect(away.stderr).toContain("DATABASE_UNREACHABLE");
    expect(away.stderr).not.toContain("secret");
    await s.pool.query("drop table reprise.answers");
    expect((await reprise(["run", "invoice-2026-06"], environmentOf(s))).stderr).toContain("DATABASE_NOT_MIGRATED");
  });
});

describe("reprise cancel", () => {
  it("ends a waiting run at once, and tells of a finished one that there is nothing to cancel", async () => {
    const s = await scene();
    await addRun(s, "waits", { status: "interrupted" });
    await addRun(s, "done", { thread: "thread-2" });
    const ended = await reprise(["cancel", "waits", "--reason", "wrong customer", "--json"], environmentOf(s));
    expect(JSON.parse(ended.stdout)).toEqual({
      run_id: "waits",
      state: "ended",
      before: "interrupted",
      effectsLeftUnknown: 0,
    });
    expect(await s.run("waits")).toMatchObject({ status: "cancelled", cancel_reason: "wrong customer" });
    const late = await reprise(["cancel", "done"], environmentOf(s));
    expect(late).toMatchObject({ code: 1, stdout: "" });
    expect(late.stderr).toContain("RUN_ENDED: run done is finished already");
    expect((await reprise(["cancel", "nobody"], environmentOf(s))).stderr).toContain("RUN_UNKNOWN");
  });

  it("asks the worker of a run that is driven, and waits for its end when told to (C20)", async () => {
    const s = await scene({ REPRISE_VISIBILITY_SECONDS: "6" }, { VisibilityTimeout: "6" });
    let [begin, stopped] = [(): void => {}, false];
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const graph = new StateGraph(State)
      .addNode("one", async (_state, { signal }) => {
        begin();
        await new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve(), { once: true }));
        stopped = true;
        return {};
      })
      .addEdge(START, "one")
      .addEdge("one", END)
      .compile() as unknown as AgentGraph;
    await s.start([defineAgent({ name: "long", graph })]);
    const { runId } = await s.send({ agent: "long", input: { log: [] } });
    await begun;
    const asked = await reprise(["cancel", runId], environmentOf(s));
    expect(asked.stdout).toMatch(/is asked to end; .+ drives it and learns it with its next beat or step/);
    const ended = await reprise(["cancel", runId, "--wait", "30"], environmentOf(s));
    expect(stopped).toBe(true);
    expect(await s.run(runId)).toMatchObject({ status: "cancelled" });
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    expect(ended.stdout).toContain(`run ${runId} is cancelled`);
  });
});

describe("reprise parked and redrive", () => {
  it("lists what nobody runs, gives its bytes, and sends it again once: the run goes on from its checkpoint, its faults counted anew", async () => {
    const s = await scene({ REPRISE_FAULT_LIMIT: "1", REPRISE_VISIBILITY_SECONDS: "6" }, { VisibilityTimeout: "6" });
    const environment = environmentOf(s);
    const { agent, mend, begun } = failing();
    await s.start([agent]);
    await s.send({ agent: "failing", runId: "r-1", threadId: "t", input: { log: [] } });
    await s.until("the run to be parked", async () =>
      (await s.deliveries("r-1")).some((row) => row["outcome"] === "parked"),
    );
    const listed = JSON.parse(
      (await reprise(["parked", "--json", "--where", "outcome_code=FAULT_LIMIT"], environment)).stdout,
    );
    expect(listed).toMatchObject({
      run_id: "r-1",
      code: "FAULT_LIMIT",
      run_status: "parked",
      agent: "failing",
      redriven_at: null,
    });
    const body = await reprise(["parked", "--body", listed.parked_id], environment);
    expect(JSON.parse(body.stdout)).toMatchObject({ run_id: "r-1", input: { log: [] } });
    const dry = await reprise(["redrive", "r-1", "--dry-run"], environment);
    expect(dry.stdout).toContain("would be sent");
    expect(await s.queued()).toBe(0);
    mend();
    // At the same time, as two people would: one of them sends.
    const both = await Promise.all([
      reprise(["redrive", "r-1", "--json", "--by", "ada"], environment),
      reprise(["redrive", listed.parked_id, "--json", "--by", "bob"], environment),
    ]);
    expect(both.map((ended) => ended.code)).toEqual([0, 0]);
    expect(both.map((ended) => JSON.parse(ended.stdout).state).sort()).toEqual(["already", "sent"]);
    await s.until("the run's end", async () => (await s.run("r-1"))?.["status"] === "finished");
    const deliveries = await s.until("the delivery's end", async () => {
      const rows = await s.deliveries("r-1");
      return rows.every((row) => row["ended_at"] !== null) && rows;
    });
    // The lineage is kept: one run, its second message, resumed after the step that stood.
    expect(deliveries.map((row) => [row["outcome"], row["cause"]])).toEqual([
      ["parked", "none"],
      ["finished", "redrive"],
    ]);
    expect(new Set(deliveries.map((row) => row["sqs_message_id"])).size).toBe(2);
    expect(await s.run("r-1")).toMatchObject({ failed_deliveries: 0, result: JSON.stringify({ log: ["one", "two"] }) });
    expect(begun()).toBe(2);
    const { rows } = await s.pool.query("select * from reprise.parked");
    expect(rows).toMatchObject([{ redriven_as: deliveries[1]?.["sqs_message_id"] }]);
    expect(["ada", "bob"]).toContain(rows[0].redriven_by);
    expect(await reprise(["parked"], environment)).toMatchObject({ stdout: "nothing is parked\n" });
    const refused = await reprise(["redrive", "r-1"], environment);
    expect(refused.stdout).toContain("was not sent: sent again at");
  });

  it("sends bytes that no worker of this version can read again, as they came, with their attributes", async () => {
    const s = await scene();
    await s.pool.query(
      `insert into reprise.parked (sqs_message_id, queue_url, code, reason, body, message_attributes, trace_id)
       values ('m-1', $1, 'MESSAGE_NEWER_SCHEMA', 'newer', $2, $3, '0')`,
      [
        s.queueUrl,
        Buffer.from('{"schema":99,"text":"ünï"}'),
        JSON.stringify({
          traceparent: { DataType: "String", StringValue: "00-1" },
          blob: { DataType: "Binary", BinaryValue: { 0: 1 } },
        }),
      ],
    );
    const sent = await reprise(["redrive", "--where", "outcome_code=MESSAGE_NEWER_SCHEMA"], environmentOf(s));
    expect(sent).toMatchObject({ code: 0 });
    expect(await s.queued()).toBe(1);
    const { ReceiveMessageCommand } = await import("@aws-sdk/client-sqs");
    const { Messages } = await s.client.send(
      new ReceiveMessageCommand({ QueueUrl: s.queueUrl, MessageAttributeNames: ["All"] }),
    );
    expect(Messages?.[0]).toMatchObject({
      Body: '{"schema":99,"text":"ünï"}',
      MessageAttributes: { traceparent: { StringValue: "00-1" } },
    });
    const again = await reprise(["redrive", "--where", "outcome_code=MESSAGE_NEWER_SCHEMA"], environmentOf(s));
    expect(again.stdout).toContain("was not sent: sent again at");
  });

  it("refuses by name what a worker would only settle, and knows what it does not have", async () => {
    const s = await scene();
    await addRun(s, "done");
    await s.pool.query(
      `insert into reprise.parked (sqs_message_id, queue_url, run_id, code, reason, body, message_attributes, trace_id)
       values ('m-1', $1, 'done', 'RUN_ID_REUSED', 'r', '{}', '{}', '0')`,
      [s.queueUrl],
    );
    const refused = await reprise(["redrive", "done"], environmentOf(s));
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain("REDRIVE_REFUSED");
    expect(refused.stderr).toContain("is finished: nothing of it is left to do");
    expect((await reprise(["redrive", "nobody"], environmentOf(s))).stderr).toContain("PARKED_UNKNOWN");
    expect(await reprise(["redrive"], environmentOf(s))).toMatchObject({ code: 2 });
    expect(await s.queued()).toBe(0);
  });

  it("opens the run of a parked answer, which opens none by itself", async () => {
    const s = await scene({ REPRISE_VISIBILITY_SECONDS: "6" }, { VisibilityTimeout: "6" });
    const graph = new StateGraph(State)
      .addNode("ask", async () => ({ log: [String(interrupt("may I?"))] }))
      .addEdge(START, "ask")
      .addEdge("ask", END)
      .compile() as unknown as AgentGraph;
    await s.start([defineAgent({ name: "ask", graph, result: (state) => state })]);
    await s.send({ agent: "ask", runId: "r-1", threadId: "t", input: { log: [] } });
    const waiting = await s.until("the question", async () => {
      const run = await s.run("r-1");
      return run?.["status"] === "interrupted" && run;
    });
    const [{ id }] = JSON.parse(String(waiting["interrupts"]));
    const body = JSON.stringify({
      schema: 1,
      run_id: "r-1",
      thread_id: "t",
      agent: "ask",
      answer: { interrupt_id: id, value: "yes" },
    });
    await s.pool.query(
      `insert into reprise.parked (sqs_message_id, queue_url, run_id, thread_id, code, reason, body, message_attributes, trace_id)
       values ('m-1', $1, 'r-1', 't', 'FAULT_LIMIT', 'r', $2, '{}', '0')`,
      [s.queueUrl, Buffer.from(body)],
    );
    await s.pool.query("update reprise.runs set status = 'parked', failed_deliveries = 5, ended_at = now()");
    expect(await reprise(["redrive", "r-1"], environmentOf(s))).toMatchObject({ code: 0 });
    await s.until("the run's end", async () => (await s.run("r-1"))?.["status"] === "finished");
    expect(await s.run("r-1")).toMatchObject({ failed_deliveries: 0, result: JSON.stringify({ log: ["yes"] }) });
  });
});

describe("reprise effects and settle", () => {
  it("lists what nobody knows, as text, JSON and a CSV that is no formula; settles it with evidence; refuses it afterwards (B13)", async () => {
    const s = await scene();
    const environment = environmentOf(s);
    const key = await addEffect(s, "call-1");
    await addEffect(s, "call-2", { state: "done", thread: "thread-2" });
    await addEffect(s, "call-3", { state: "reserved", lease: "1 hour" });
    const unknown = await reprise(["effects", "--unknown"], environment);
    expect(unknown.stdout).toContain("call-1");
    expect(unknown.stdout).not.toContain("call-2");
    expect(unknown.stdout).not.toContain("call-3");
    expect(unknown.stdout).toContain("settle <call>");
    const csv = await reprise(
      ["effects", "--csv", "--since", "24h", "--where", "tool=charge and status=unknown"],
      environment,
    );
    expect(csv.stdout.split("\r\n")).toHaveLength(3);
    expect(csv.stdout).toContain("'=cmd|calc");
    const early = await reprise(["settle", "call-3", "--failed", "--evidence", "none"], environment);
    expect(early.stderr).toContain("SETTLE_REFUSED");
    expect(early.stderr).toContain("h is at it, under a lease that still runs");
    const settled = await reprise(
      [
        "settle",
        "call-1",
        "--succeeded",
        "--evidence",
        "ch_1 in the log",
        "--effect",
        "ch_1",
        "--by",
        "ada",
        "--result",
        '{"id":"ch_1"}',
      ],
      environment,
    );
    expect(settled).toMatchObject({ code: 0, stderr: "" });
    expect(settled.stdout).toContain("replays this result");
    const { rows } = await s.pool.query("select * from reprise.effects where key = $1", [key]);
    expect(rows[0]).toMatchObject({
      state: "done",
      result: '{"id":"ch_1"}',
      effect_ref: "ch_1",
      evidence: "ada: ch_1 in the log",
    });
    const again = await reprise(["settle", "call-1", "--failed", "--evidence", "no"], environment);
    expect(again.stderr).toContain("it is done already (ada: ch_1 in the log)");
    expect((await reprise(["effects", "--unknown"], environment)).stdout).toBe("no call has an unknown outcome\n");
  });

  it("asks which thread when two have a call of one name, and refuses half an order", async () => {
    const s = await scene();
    const environment = environmentOf(s);
    await addEffect(s, "call_0");
    await addEffect(s, "call_0", { thread: "thread-2" });
    const both = await reprise(["settle", "call_0", "--failed", "--evidence", "none in the log"], environment);
    expect(both.stderr).toContain("CALL_AMBIGUOUS");
    expect(both.stderr).toContain("thread-2 (charge, unknown)");
    expect(
      await reprise(
        ["settle", "call_0", "--failed", "--evidence", "none", "--thread", "thread-2", "--json"],
        environment,
      ),
    ).toMatchObject({ code: 0 });
    expect((await reprise(["settle", "nothing", "--failed", "--evidence", "x"], environment)).stderr).toContain(
      "CALL_UNKNOWN",
    );
    for (const args of [
      ["--evidence", "x"],
      ["--failed", "--succeeded", "--evidence", "x"],
      ["--failed"],
      ["--failed", "--evidence", " "],
      ["--succeeded", "--evidence", "x", "--result", "{"],
    ]) {
      expect(await reprise(["settle", "call_0", ...args], environment), args.join(" ")).toMatchObject({
        code: 2,
        stdout: "",
      });
    }
  });
});

describe("reprise prune", () => {
  it("refuses ages within which SQS may bring a copy, counts first, and deletes what it counted (E05)", async () => {
    const s = await scene();
    const environment = environmentOf(s);
    await addRun(s, "old");
    await s.pool.query("update reprise.runs set ended_at = now() - interval '40 days'");
    const early = await reprise(["prune", "--older-than", "13d"], environment);
    expect(early).toMatchObject({ code: 1 });
    expect(early.stderr).toContain("PRUNE_TOO_RECENT");
    expect(
      (await reprise(["prune", "--older-than", "30d", "--effects-older-than", "20d"], environment)).stderr,
    ).toContain("PRUNE_TOO_RECENT");
    const dry = await reprise(["prune", "--older-than", "30d", "--dry-run", "--json"], environment);
    expect(JSON.parse(dry.stdout)).toMatchObject({ dry_run: true, runs: 1, threads: 1 });
    expect(await s.run("old")).toBeDefined();
    const pruned = await reprise(["prune", "--older-than", "30d"], environment);
    expect(pruned.stdout).toMatch(/^deleted\nruns +1\n/);
    expect(await s.run("old")).toBeUndefined();
  });
});

describe("reprise trace", () => {
  const at = 1_700_000_000_000;
  const attribute = (name: string, value: string) => ({ key: name, value: { stringValue: value } });
  const wire = (
    id: string,
    parent: string | undefined,
    times: readonly [number, number],
    more: { name: string; run?: string },
  ) => ({
    traceId: "4f9c1d2e000000000000000000000001",
    spanId: id.padStart(16, "0"),
    ...(parent === undefined ? {} : { parentSpanId: parent.padStart(16, "0") }),
    name: more.name,
    kind: 1,
    startTimeUnixNano: `${at + times[0]}000000`,
    endTimeUnixNano: `${at + times[1]}000000`,
    attributes: more.run === undefined ? [] : [attribute(ATTR.runId, more.run)],
  });
  const request = (run: string) => ({
    resourceSpans: [
      {
        resource: { attributes: [attribute("service.name", "w")] },
        scopeSpans: [
          {
            spans: [
              wire("1", undefined, [0, 52_400], { name: "process runs", run }),
              wire("2", "1", [0, 7_000], { name: "node:model" }),
              wire("3", "1", [7_000, 52_400], { name: "node:tools" }),
              wire("4", "3", [38_000, 52_400], { name: "tool:charge_subscription" }),
            ],
          },
        ],
      },
    ],
  });
  const TREE = [
    "trace 4f9c1d2e…   run_id=r-1   total 52.4s",
    "└─ process runs                   52.4s",
    "   ├─ node:model                   7.0s",
    "   └─ node:tools                  45.4s   ← 31.0s unattributed",
    "      └─ tool:charge_subscription    14.4s",
    "← 31.0s unattributed in node:tools, from its start before tool:charge_subscription; fits charge timeout (30.0s)",
  ];

  it("prints the seed's tree from a collector's file, torn last line and strangers' lines and all", async () => {
    const file = join(folder, "traces.jsonl");
    const stranger = JSON.stringify(request("other")).replaceAll("4f9c1d2e", "aaaaaaaa");
    appendFileSync(file, `${JSON.stringify(request("r-1"))}\n${stranger}\n{"resourceSp`);
    const shown = await reprise(["trace", "r-1", "--from", file, "--constant", "charge timeout=30s"]);
    expect(shown).toMatchObject({ code: 0, stderr: "" });
    expect(shown.stdout.replace(/ +/g, " ").trimEnd().split("\n")).toEqual(
      TREE.map((line) => line.replace(/ +/g, " ")),
    );
    const json = JSON.parse((await reprise(["trace", "r-1", "--from", file, "--json"])).stdout);
    expect(json).toMatchObject({
      trace_id: "4f9c1d2e000000000000000000000001",
      residuals: [{ name: "node:tools", uncovered_ms: 31_000 }],
    });
    const unknown = await reprise(["trace", "nobody", "--from", file]);
    expect(unknown.stderr).toContain("TRACE_UNKNOWN");
    expect(unknown.stderr).toContain("8 spans were read");
    expect((await reprise(["trace", "r-1", "--from", join(folder, "nothing.jsonl")])).stderr).toContain("TRACE_SOURCE");
  });

  it("prints the same from the sink over HTTP", async () => {
    const sink = await startSink();
    try {
      await fetch(`${sink.endpoint}/v1/traces`, {
        method: "POST",
        body: JSON.stringify(request("r-1")),
        headers: { "content-type": "application/json" },
      });
      const shown = await reprise(["trace", "r-1", "--from", sink.endpoint, "--constant", "charge timeout=30s"]);
      expect(shown.stdout.replace(/ +/g, " ").trimEnd().split("\n")).toEqual(
        TREE.map((line) => line.replace(/ +/g, " ")),
      );
      expect((await reprise(["trace", 'r"1', "--from", sink.endpoint])).stderr).toContain("TRACE_UNKNOWN");
    } finally {
      await sink.stop();
    }
    expect((await reprise(["trace", "r-1", "--from", sink.endpoint])).stderr).toContain("TRACE_SOURCE");
  });
});
