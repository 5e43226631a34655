// The demo's story on real parts, and everything it claims: one charge for two requests, a whole second tree, an honest first one.
import type { OtlpSpan, OtlpTrace } from "@reprise/tracing";
import { ATTR, PRODUCT, SPAN } from "@reprise/tracing";
import { beforeAll, describe, expect, it } from "vitest";
import type { Evidence } from "../src/demo/evidence.ts";
import type { Stage } from "../src/demo/story.ts";
import { build, builtUrl, run } from "./built.ts";

const STORY_TIMEOUT_MS = 240_000;
const TOOL = SPAN.tool("charge_subscription");

type Row = Readonly<Record<string, unknown>>;
type Played = {
  readonly evidence: Evidence;
  /** Oldest first. */
  readonly deliveries: readonly Row[];
  readonly checkpoints: readonly Row[];
  readonly effects: readonly Row[];
};

/** Loaded in its built form: the story starts built workers and a built provider from beside itself. */
async function play(naive: boolean): Promise<Played> {
  const { playStory } = (await import(builtUrl("demo/story.js"))) as typeof import("../src/demo/story.ts");
  const { collect } = await evidenceModule();
  return await playStory({ naive, say: () => undefined }, async (stage) => ({
    evidence: await collect(stage),
    deliveries: await rows(
      stage,
      `select * from ${PRODUCT.schema}.deliveries where run_id = $1 order by started_at`,
      stage.runId,
    ),
    checkpoints: await rows(
      stage,
      "select checkpoint_id, metadata->>'delivery_id' as delivery_id from checkpoints where thread_id = $1",
      stage.threadId,
    ),
    effects: await rows(stage, `select * from ${PRODUCT.schema}.effects where thread_id = $1`, stage.threadId),
  }));
}

async function evidenceModule(): Promise<typeof import("../src/demo/evidence.ts")> {
  return (await import(builtUrl("demo/evidence.js"))) as typeof import("../src/demo/evidence.ts");
}

async function rows({ pool }: Stage, sql: string, id: string): Promise<readonly Row[]> {
  return (await pool.query<Row>(sql, [id])).rows;
}

beforeAll(build, STORY_TIMEOUT_MS);

describe("the demo", () => {
  let played: Played;
  let first: OtlpTrace;
  let second: OtlpTrace;
  beforeAll(async () => {
    played = await play(false);
    const [one, two, ...more] = played.evidence.traces;
    if (one === undefined || two === undefined) throw new Error("the run has fewer than two traces");
    expect(more).toEqual([]);
    [first, second] = [one, two];
  }, STORY_TIMEOUT_MS);

  it("D05: reports two deliveries, two requests under one key, one charge, the cause, and the filter's answer", async () => {
    const { verdictOf } = await evidenceModule();
    const verdict = verdictOf(played.evidence);
    expect(verdict).toMatchObject({
      deliveries: 2,
      charges: 1,
      key_reused: true,
      second_delivery: { receive_count: 2, redelivered: true, redelivery_cause: "visibility_expired" },
      first_delivery: { obituary: true },
      filter_receive_count_gt_1: 1,
    });
    expect(verdict.provider_requests).toBeGreaterThanOrEqual(2);
    expect(verdict.second_delivery["resumed_from_step"]).toBeTypeOf("number");
  });

  it("reads its charges and keys from the provider's log: the second request was answered from the first", () => {
    const { requests, charges } = played.evidence;
    expect(new Set(requests.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    expect(requests.map(({ outcome }) => outcome)).toEqual(["created", ...requests.slice(1).map(() => "replayed")]);
    expect(new Set(requests.map(({ chargeId }) => chargeId))).toEqual(new Set(charges));
  });

  it("resumes from the last step that the lost delivery wrote, and no step is missing or written twice", () => {
    const steps = played.evidence.checkpoints.map(({ step }) => step);
    expect(steps).toEqual(steps.map((_, index) => index - 1));
    const [lost] = played.deliveries;
    const byLost = played.checkpoints.filter((row) => row["delivery_id"] === lost?.["delivery_id"]);
    expect(rootSpan(second).attributes[ATTR.resumedFromStep]).toBe(steps[byLost.length - 1]);
  });

  it("has a whole second tree: root, graph, node, tool and its request, each below the one before", () => {
    const root = rootSpan(second);
    expect(root).toMatchObject({
      kind: "CONSUMER",
      name: SPAN.process(String(root.attributes[ATTR.messagingDestination])),
    });
    const graph = childOf(second, root, SPAN.graphInvoke);
    const tools = childOf(second, graph, SPAN.node("tools"));
    const tool = childOf(second, tools, TOOL);
    expect(tool.attributes).toMatchObject({ [ATTR.toolHttpRequests]: 1, [ATTR.toolKeySent]: true });
    const requests = childrenOf(second, tool).filter((span) => isHttp(span));
    expect(requests).toHaveLength(1);
    expect(requests[0]).toMatchObject({ kind: "CLIENT", status: { code: "UNSET" } });
    childOf(second, childOf(second, graph, SPAN.node("model")), SPAN.model("scripted"));
  });

  it("shows where the checkpoints were read and written, with the SQL below them", () => {
    const graph = childOf(second, rootSpan(second), SPAN.graphInvoke);
    for (const name of [SPAN.checkpointGet, SPAN.checkpointPut, SPAN.checkpointPutWrites]) {
      const found = childrenOf(second, graph).filter((span) => span.name === name);
      expect(found.length, name).toBeGreaterThan(0);
      for (const span of found)
        expect(
          childrenOf(second, span).some(({ name: sql }) => sql.startsWith("pg")),
          name,
        ).toBe(true);
    }
    const own = played.checkpoints.filter((row) => row["delivery_id"] === played.deliveries[1]?.["delivery_id"]);
    const written = second.spans
      .filter(({ name }) => name === SPAN.checkpointPut)
      .map((span) => span.attributes[ATTR.checkpointId]);
    expect(written.toSorted()).toEqual(own.map((row) => row["checkpoint_id"]).toSorted());
  });

  it("ended every span it started: each parent is in the trace, and only the root has none", () => {
    for (const trace of [first, second]) {
      const ids = new Set(trace.spans.map(({ spanId }) => spanId));
      expect(ids.size).toBe(trace.spans.length);
      expect(trace.spans.filter(({ parentSpanId }) => parentSpanId === undefined)).toHaveLength(1);
      const orphans = trace.spans.filter(({ parentSpanId }) => parentSpanId !== undefined && !ids.has(parentSpanId));
      expect(orphans.map(({ name }) => name)).toEqual([]);
      for (const { startTimeUnixNano, endTimeUnixNano } of trace.spans) {
        expect(BigInt(endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(startTimeUnixNano));
      }
    }
  });

  it("tells the first tree from the second by nothing but what PostgreSQL knew, each span marked so", () => {
    const [lost] = played.deliveries;
    const wrote = played.checkpoints.filter((row) => row["delivery_id"] === lost?.["delivery_id"]);
    const left = played.effects.filter((row) => row["delivery_id"] === lost?.["delivery_id"]);
    expect([wrote.length > 0, left.length]).toEqual([true, 1]);
    expect(first.traceId).toBe(lost?.["trace_id"]);
    const root = rootSpan(first);
    expect(root).toMatchObject({
      spanId: lost?.["root_span_id"],
      kind: "CONSUMER",
      status: { code: "ERROR", message: "worker lost" },
    });
    const puts = first.spans.filter(({ name }) => name === SPAN.checkpointPut);
    expect(puts.map((span) => span.attributes[ATTR.checkpointId]).toSorted()).toEqual(
      wrote.map((row) => row["checkpoint_id"]).toSorted(),
    );
    const tools = first.spans.filter(({ name }) => name === TOOL);
    expect(tools.map((span) => span.attributes[ATTR.toolCallId])).toEqual(left.map((row) => row["tool_call_id"]));
    expect(tools[0]).toMatchObject({ status: { code: "ERROR" }, attributes: { [ATTR.toolOutcome]: "unknown" } });
    expect(first.spans).toHaveLength(1 + puts.length + tools.length);
    expect(first.spans.filter((span) => span.attributes[ATTR.reconstructed] !== true)).toEqual([]);
    expect(first.spans.filter(isHttp)).toEqual([]);
    expect(second.spans.filter((span) => ATTR.reconstructed in span.attributes)).toEqual([]);
  });

  it("says on both roots why the trace was kept, and finds the second alone by its receive count", () => {
    expect(rootSpan(first).attributes).toMatchObject({ [ATTR.samplingReason]: "error", [ATTR.receiveCount]: 1 });
    expect(rootSpan(second).attributes).toMatchObject({ [ATTR.samplingReason]: "redelivered", [ATTR.receiveCount]: 2 });
    expect(played.evidence.redelivered.map(({ traceId }) => traceId)).toEqual([second.traceId]);
  });

  it("sends the derived key on no span: it is recomputable, and a collector is not the place for it", () => {
    const key = String(played.effects[0]?.["key"]);
    expect(key).toMatch(/^[0-9a-f]{32}$/);
    expect(JSON.stringify(played.evidence.traces)).not.toContain(key);
  });
});

it(
  "with a key generated at call time the same story ends in two charges",
  async () => {
    const { verdictOf } = await evidenceModule();
    const { evidence } = await play(true);
    expect(verdictOf(evidence)).toMatchObject({ deliveries: 2, charges: 2, key_reused: false });
  },
  STORY_TIMEOUT_MS,
);

it(
  "as `npm run demo -- --json` prints one JSON object and nothing else on standard output",
  async () => {
    const { code, stdout, stderr } = await run("npm", ["run", "demo", "--", "--json"]);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ deliveries: 2, charges: 1, key_reused: true });
    expect(stdout.trim().split("\n")).toHaveLength(1);
  },
  STORY_TIMEOUT_MS,
);

function rootSpan(trace: OtlpTrace): OtlpSpan {
  const root = trace.spans.find(({ parentSpanId }) => parentSpanId === undefined);
  if (root === undefined) throw new Error(`trace ${trace.traceId} has no root`);
  return root;
}

function childrenOf(trace: OtlpTrace, parent: OtlpSpan): readonly OtlpSpan[] {
  return trace.spans.filter(({ parentSpanId }) => parentSpanId === parent.spanId);
}

/** The first child of this name; its absence is the failure, with what is there instead. */
function childOf(trace: OtlpTrace, parent: OtlpSpan, name: string): OtlpSpan {
  const children = childrenOf(trace, parent);
  const found = children.find((child) => child.name === name);
  if (found === undefined)
    throw new Error(`${parent.name} has no ${name}, only ${children.map((each) => each.name).join(", ")}`);
  return found;
}

function isHttp(span: OtlpSpan): boolean {
  return (
    span.scope.includes("undici") ||
    span.scope.includes("instrumentation-http") ||
    "http.request.method" in span.attributes
  );
}
