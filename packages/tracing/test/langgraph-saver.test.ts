// TracedSaver without a database: what is passed on, what the spans say, and that they end.

import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint, JsonPlusSerializer, MemorySaver, type PendingWrite } from "@langchain/langgraph-checkpoint";
import { SpanStatusCode } from "@opentelemetry/api";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cleanOrigin } from "../src/langgraph/checkpoint-metadata.ts";
import { countingSerde, TracedSaver } from "../src/langgraph/index.ts";
import { withSpan } from "../src/span.ts";
import { RecordingSaver } from "./langgraph-recording-saver.ts";
import { parentId, recordTelemetry } from "./langgraph-telemetry.ts";

const telemetry = recordTelemetry();

const config = { configurable: { thread_id: "t", checkpoint_ns: "sub:1", checkpoint_id: "c1" } };
const checkpoint = { ...emptyCheckpoint(), id: "c2" };
const metadata = { source: "loop" as const, step: 4, parents: {} };
const writes: PendingWrite[] = [
  ["a", 1],
  ["b", 2],
];

async function listAll(saver: TracedSaver): Promise<unknown[]> {
  const rows: unknown[] = [];
  for await (const row of saver.list(config, { limit: 2 })) rows.push(row);
  return rows;
}

describe("what reaches the inner saver", () => {
  it("passes every argument of every method on, the very same objects", async () => {
    const inner = new RecordingSaver();
    const saver = new TracedSaver(inner);
    const listOptions = { limit: 2, before: config, filter: { run_id: "r" } };
    const newVersions = { a: 1, b: 2 };
    const deltas = { config, channels: ["a"] };
    await saver.getTuple(config);
    for await (const _ of saver.list(config, listOptions));
    await saver.put(config, checkpoint, metadata, newVersions);
    await saver.putWrites(config, writes, "task", "~path");
    await saver.deleteThread("t");
    await saver.getDeltaChannelHistory(deltas);
    await saver.setup();
    const args = Object.fromEntries(inner.calls.map(({ method, args: given }) => [method, given]));
    expect(args["getTuple"]).toEqual([config]);
    expect(args["getTuple"]?.[0]).toBe(config);
    expect(args["list"]?.[0]).toBe(config);
    expect(args["list"]?.[1]).toBe(listOptions);
    expect(args["put"]?.[0]).toBe(config);
    expect(args["put"]?.[1]).toBe(checkpoint);
    expect(args["put"]?.[2]).toEqual(metadata);
    expect(args["put"]?.[3]).toBe(newVersions);
    expect(args["putWrites"]).toEqual([config, writes, "task", "~path"]);
    expect(args["putWrites"]?.[1]).toBe(writes);
    expect(args["deleteThread"]).toEqual(["t"]);
    expect(args["getDeltaChannelHistory"]?.[0]).toBe(deltas);
    expect(args["setup"]).toEqual([]);
  });

  it("returns what the inner saver returned", async () => {
    const inner = new RecordingSaver();
    const saver = new TracedSaver(inner);
    expect(await saver.getTuple(config)).toBe(inner.tuple);
    expect(await saver.get(config)).toBe(inner.tuple?.checkpoint);
    expect(await listAll(saver)).toEqual([inner.tuple, inner.tuple, inner.tuple]);
    expect(await saver.put(config, checkpoint, metadata, {})).toEqual({ configurable: { checkpoint_id: "put" } });
    expect(await saver.getDeltaChannelHistory({ config, channels: [] })).toEqual({ channel: { writes: [] } });
    expect(saver.serde).toBe(inner.serde);
  });

  it("leaves versions to the inner saver when told to, and does nothing for a saver without set-up", async () => {
    const inner = new RecordingSaver();
    expect(new TracedSaver(inner, { uniqueVersions: false }).getNextVersion(7)).toBe(41);
    expect(inner.calls).toEqual([{ method: "getNextVersion", args: [7] }]);
    await new TracedSaver(new MemorySaver()).setup();
  });

  it("adds the origin to the metadata of every put, and no key when none was given", async () => {
    const inner = new RecordingSaver();
    await new TracedSaver(inner, { metadata: { run_id: "r1", receive_count: 2, step: 99 } }).put(
      config,
      checkpoint,
      metadata,
      {},
    );
    await new TracedSaver(inner).put(config, checkpoint, metadata, {});
    expect(inner.calls.map(({ args }) => args[2])).toEqual([{ ...metadata, run_id: "r1", receive_count: 2 }, metadata]);
  });

  it("replaces the origin that an update copied from an earlier delivery's checkpoint", async () => {
    const inner = new RecordingSaver();
    const copied = { ...metadata, run_id: "earlier" };
    await new TracedSaver(inner, { metadata: { run_id: "mine" } }).put(config, checkpoint, copied, {});
    expect(inner.calls[0]?.args[2]).toMatchObject({ run_id: "mine" });
  });
});

describe("origin text", () => {
  it("loses NUL and half surrogates, which jsonb refuses, and nothing else", () => {
    expect(cleanOrigin({ run_id: "a\0b\ud800c\u{1f98a}", worker: "w", receive_count: 1, redelivered: true })).toEqual({
      run_id: "ab\ufffdc\u{1f98a}",
      worker: "w",
      receive_count: 1,
      redelivered: true,
    });
  });

  it("is well formed whatever it was", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.integer({ min: 0xd800, max: 0xdfff }), (text, half) => {
        const cleaned = String(cleanOrigin({ run_id: text + String.fromCharCode(half) })["run_id"]);
        expect(encodeURIComponent(cleaned)).toBeTypeOf("string");
        expect(cleaned).not.toContain("\0");
      }),
    );
  });
});

describe("spans", () => {
  it("say thread, namespace, checkpoint, parent, step, source and counts, under the caller's span", async () => {
    const inner = new RecordingSaver();
    const saver = new TracedSaver(inner, { now: () => Date.parse("2026-01-01T00:00:07.500Z") });
    const place = { "agent.thread_id": "t", "checkpoint.ns": "sub:1" };
    await withSpan("root", {}, async () => {
      await saver.getTuple(config);
      await saver.put(config, checkpoint, metadata, { a: 1, b: 2 });
      await saver.putWrites(config, writes, "task");
      await listAll(saver);
      await saver.deleteThread("t");
    });
    const root = telemetry.only("root").spanContext().spanId;
    for (const span of telemetry.spans()) if (span.name !== "root") expect(parentId(span)).toBe(root);
    expect(telemetry.only("checkpoint.get").attributes).toEqual({
      ...place,
      "checkpoint.found": true,
      "checkpoint.id": "c2",
      "checkpoint.parent_id": "c1",
      "checkpoint.step": 3,
      "checkpoint.source": "loop",
      "checkpoint.pending_writes": 1,
      "checkpoint.age_ms": 7500,
    });
    expect(telemetry.only("checkpoint.put").attributes).toEqual({
      ...place,
      "checkpoint.id": "c2",
      "checkpoint.parent_id": "c1",
      "checkpoint.step": 4,
      "checkpoint.source": "loop",
      "checkpoint.channels": 2,
    });
    expect(telemetry.only("checkpoint.put_writes").attributes).toEqual({
      ...place,
      "checkpoint.id": "c1",
      "agent.task_id": "task",
      "checkpoint.writes": 2,
    });
    expect(telemetry.only("checkpoint.list").attributes).toEqual({ ...place, "checkpoint.count": 3 });
    expect(telemetry.only("checkpoint.delete_thread").attributes).toEqual({ "agent.thread_id": "t" });
  });

  it("say that nothing was found", async () => {
    const inner = new RecordingSaver();
    inner.tuple = undefined;
    expect(
      await new TracedSaver(inner).getTuple({ configurable: { thread_id: "t", checkpoint_ns: "" } }),
    ).toBeUndefined();
    expect(telemetry.only("checkpoint.get").attributes).toEqual({ "agent.thread_id": "t", "checkpoint.found": false });
  });

  it("end with the error recorded, and the caller gets the very same error", async () => {
    const inner = new RecordingSaver();
    const saver = new TracedSaver(inner);
    const failure = new Error("connection lost");
    inner.failure = failure;
    const calls: Record<string, () => Promise<unknown>> = {
      "checkpoint.get": () => saver.getTuple(config),
      "checkpoint.put": () => saver.put(config, checkpoint, metadata, {}),
      "checkpoint.put_writes": () => saver.putWrites(config, writes, "task"),
      "checkpoint.list": () => listAll(saver),
      "checkpoint.delete_thread": () => saver.deleteThread("t"),
    };
    for (const [name, call] of Object.entries(calls)) {
      await expect(call()).rejects.toBe(failure);
      const span = telemetry.only(name);
      expect(span.status).toEqual({ code: SpanStatusCode.ERROR, message: "connection lost" });
      expect(span.events.map((event) => event.name)).toEqual(["exception"]);
    }
    expect(saver.inFlight).toBe(0);
  });

  it("of list ends when the reader stops early, fails, or returns the generator, and the inner generator is closed", async () => {
    for (const leave of ["break", "throw", "return"] as const) {
      const inner = new RecordingSaver();
      const saver = new TracedSaver(inner);
      const before = telemetry.spans("checkpoint.list").length;
      if (leave === "return") {
        const rows = saver.list(config);
        await rows.next();
        await rows.return(undefined);
      } else {
        const read = async () => {
          for await (const _ of saver.list(config)) {
            if (leave === "throw") throw new Error("reader");
            break;
          }
        };
        await (leave === "throw" ? expect(read()).rejects.toThrow("reader") : read());
      }
      const span = telemetry.spans("checkpoint.list")[before];
      expect(span?.attributes["checkpoint.count"]).toBe(1);
      expect(span?.status.code).toBe(SpanStatusCode.UNSET);
      expect(inner.listClosed).toBe(true);
    }
  });

  it("of list belongs to the span that was active when list was called, not when it was read", async () => {
    const saver = new TracedSaver(new RecordingSaver());
    const rows = await withSpan("asks", {}, async () => ({ rows: saver.list(config) }));
    await withSpan("reads", {}, async () => {
      for await (const _ of rows.rows);
    });
    expect(parentId(telemetry.only("checkpoint.list"))).toBe(telemetry.only("asks").spanContext().spanId);
  });
});

describe("bytes", () => {
  it("are absent without a counting serializer", async () => {
    const saver = new TracedSaver(new MemorySaver());
    await saver.put({ configurable: { thread_id: "t" } }, checkpoint, metadata, {});
    expect(telemetry.only("checkpoint.put").attributes).not.toHaveProperty("checkpoint.bytes");
  });

  it("are what the serializer gave and took, for each call its own, also when calls run at once", async () => {
    const saver = new TracedSaver(new MemorySaver(countingSerde()));
    const serde = new JsonPlusSerializer();
    const at = (id: string) => ({ configurable: { thread_id: id, checkpoint_ns: "", checkpoint_id: "c1" } });
    const sizes = [10, 2_000, 300, 40_000];
    await Promise.all(sizes.map((size, n) => saver.putWrites(at(`t${n}`), [["a", "é".repeat(size)]], "task")));
    for (const [n, size] of sizes.entries()) {
      const span = telemetry
        .spans("checkpoint.put_writes")
        .find((one) => one.attributes["agent.thread_id"] === `t${n}`);
      expect(span?.attributes["checkpoint.bytes"]).toBe((await serde.dumpsTyped("é".repeat(size)))[1].byteLength);
    }
    await saver.put(at("t0"), checkpoint, metadata, {});
    await saver.getTuple({ configurable: { thread_id: "t0" } });
    const put = telemetry.only("checkpoint.put").attributes["checkpoint.bytes"];
    expect(put).toBeGreaterThan(0);
    expect(telemetry.only("checkpoint.get").attributes["checkpoint.bytes"]).toBe(put);
  });

  it("wraps any serializer and changes nothing it says", async () => {
    const text = {
      dumpsTyped: async (): Promise<[string, Uint8Array]> => ["x", new Uint8Array(3)],
      loadsTyped: async () => 5,
    };
    const serde = countingSerde(text);
    expect(await serde.dumpsTyped({})).toEqual(["x", new Uint8Array(3)]);
    expect(await serde.loadsTyped("x", "abc")).toBe(5);
  });
});

describe("a resumed run", () => {
  /** Loses the first put of step 1, before or after the node's writes are stored. */
  class LosingSaver extends MemorySaver {
    lose: "put" | "both" | "nothing" = "nothing";
    override async put(...args: Parameters<MemorySaver["put"]>) {
      if (this.lose !== "nothing" && args[2].step === 1) throw new Error("killed");
      return super.put(...args);
    }
    override async putWrites(...args: Parameters<MemorySaver["putWrites"]>) {
      if (this.lose === "both" && args[1].some(([, value]) => value === "done")) throw new Error("killed");
      return super.putWrites(...args);
    }
  }

  it.each([
    ["put", 1, true],
    ["both", 2, false],
  ] as const)("B02: says by its checkpoint.get whether finished work was kept (lost: %s)", async (lose, ran, kept) => {
    let runs = 0;
    const inner = new LosingSaver();
    const State = Annotation.Root({ said: Annotation<string> });
    const graph = new StateGraph(State)
      .addNode("work", () => {
        runs += 1;
        return { said: "done" };
      })
      .addEdge(START, "work")
      .compile({ checkpointer: new TracedSaver(inner) });
    const thread = { configurable: { thread_id: "b02" }, durability: "sync" as const };
    inner.lose = lose;
    await expect(graph.invoke({ said: "" }, thread)).rejects.toThrow("killed");
    inner.lose = "nothing";
    expect(await graph.invoke(null, thread)).toEqual({ said: "done" });
    expect(runs).toBe(ran);
    const read = telemetry.spans("checkpoint.get").at(-1)?.attributes;
    expect(read).toMatchObject({ "checkpoint.step": 0, "checkpoint.found": true });
    expect(Number(read?.["checkpoint.pending_writes"]) > 0).toBe(kept);
  });
});

describe("settle", () => {
  it("waits for puts, writes and deletes that are in flight, and for those begun while it waits; a failure does not disturb it", async () => {
    const inner = new RecordingSaver();
    const saver = new TracedSaver(inner);
    let open = (): void => {};
    inner.gate = new Promise((resolve) => {
      open = resolve;
    });
    inner.failure = new Error("too late");
    const put = saver.put(config, checkpoint, metadata, {}).catch(() => undefined);
    const wrote = saver.putWrites(config, writes, "task").catch(() => undefined);
    let finished: number | undefined;
    const settled = saver.settle().then(() => {
      finished = inner.finished;
    });
    const deleted = saver.deleteThread("t").catch(() => undefined);
    expect(saver.inFlight).toBe(3);
    expect(inner.finished).toBe(0);
    await new Promise((resolve) => setImmediate(resolve));
    expect(finished).toBeUndefined();
    open();
    await Promise.all([put, wrote, deleted, settled]);
    expect(finished).toBe(3);
    expect(saver.inFlight).toBe(0);
    await saver.settle();
  });
});
