// withSpan: always an end, cleaned errors, pauses that are no errors, the right parent.

import { context, diag, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type SpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import pLimit from "p-limit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createGate, isControlFlow, recordError, SCOPE, withSpan } from "../src/index.ts";

const exporter = new InMemorySpanExporter();

function register(...processors: SpanProcessor[]): void {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [...processors, new SimpleSpanProcessor(exporter)] }),
  );
}

beforeEach(() => register());
afterEach(() => {
  exporter.reset();
  trace.disable();
  context.disable();
});

describe("withSpan", () => {
  it("gives the result, ends the span and nests what runs inside", async () => {
    const result = await withSpan(
      "outer",
      { kind: SpanKind.CONSUMER, attributes: { a: 1, gone: undefined } },
      async () => {
        await Promise.resolve();
        return withSpan("inner", {}, () => 42);
      },
    );
    const [inner, outer] = exporter.getFinishedSpans();
    expect(result).toBe(42);
    expect(inner?.parentSpanContext?.spanId).toBe(outer?.spanContext().spanId);
    expect(outer).toMatchObject({
      name: "outer",
      kind: SpanKind.CONSUMER,
      attributes: { a: 1 },
      instrumentationScope: { name: SCOPE },
    });
    expect(Object.keys(outer?.attributes ?? {})).toEqual(["a"]);
  });

  it("F13: records an error cleaned, sets ERROR and throws it again as it was", async () => {
    const error = Object.assign(new TypeError("Authorization: Bearer abc123xyz"), { config: { token: "leak" } });
    await expect(withSpan("failing", {}, () => Promise.reject(error))).rejects.toBe(error);
    const [span] = exporter.getFinishedSpans();
    expect(span?.status).toEqual({ code: SpanStatusCode.ERROR, message: "Authorization: [redacted]" });
    expect(span?.attributes["error.type"]).toBe("TypeError");
    expect(JSON.stringify(span?.events)).not.toMatch(/abc123xyz|leak/);
    expect(span?.events[0]?.attributes?.["exception.type"]).toBe("TypeError");
  });

  it("F13 F18: with content off, says an error's type and frames and nothing it says, in itself and in all spans inside", async () => {
    const none = createGate({ content: "none" });
    const error = new TypeError("amount 1212 for Ann", { cause: new Error("Ann again") });
    const failing = withSpan("run", { root: true, gate: none }, () =>
      withSpan("node", {}, async () => {
        await Promise.resolve();
        return withSpan("tool", {}, (span) => {
          recordError(span, new Error("Ann first"));
          throw error;
        });
      }),
    );
    await expect(failing).rejects.toBe(error);
    const spans = exporter.getFinishedSpans();
    expect(spans.map((span) => span.name)).toEqual(["tool", "node", "run"]);
    for (const span of spans) {
      expect(JSON.stringify([span.events, span.status])).not.toContain("Ann");
      expect(span.status).toEqual({ code: SpanStatusCode.ERROR, message: "" });
      expect(span.events.at(-1)?.attributes?.["exception.type"]).toBe("TypeError");
      expect(span.events.at(-1)?.attributes?.["exception.stacktrace"]).toMatch(/^TypeError: \n\s+at /);
    }
    exporter.reset();
    await expect(withSpan("beside", {}, () => Promise.reject(error))).rejects.toBe(error);
    expect(exporter.getFinishedSpans()[0]?.status.message).toBe("amount 1212 for Ann");
  });

  it("T17: takes a human pause for no error, and a plain Error of that name for one", async () => {
    const pause = Object.assign(new Error("[]"), { name: "GraphInterrupt", is_bubble_up: true });
    const drained = Object.assign(new Error("drained"), { name: "GraphDrained" });
    const impostor = Object.assign(new Error("x"), { name: "GraphInterrupt" });
    for (const error of [pause, drained, impostor]) {
      await expect(
        withSpan("node", {}, () => {
          throw error;
        }),
      ).rejects.toBe(error);
    }
    expect(exporter.getFinishedSpans().map((span) => span.status.code)).toEqual([0, 0, 2]);
    expect(isControlFlow(undefined)).toBe(false);
  });

  it("starts under a captured parent, or as a root whatever is active", async () => {
    await withSpan("captured", {}, async (captured) => {
      const parent = context.active();
      await withSpan("other", { root: true }, async () => {
        await withSpan("child", { parent }, () => undefined);
      });
      const [child, other] = exporter.getFinishedSpans();
      expect(child?.parentSpanContext?.spanId).toBe(captured.spanContext().spanId);
      expect(other?.parentSpanContext).toBeUndefined();
      expect(other?.spanContext().traceId).not.toBe(captured.spanContext().traceId);
    });
  });

  it("keeps a thousand interleaved runs apart", async () => {
    const runs = Array.from({ length: 1_000 }, (_, run) =>
      withSpan(`run ${run}`, { root: true }, async () => {
        for (let step = 0; step < 3; step++) {
          await new Promise((resolve) => setImmediate(resolve));
          await withSpan(`step of ${run}`, {}, () => undefined);
        }
      }),
    );
    await Promise.all(runs);
    const spans = exporter.getFinishedSpans();
    const names = new Map(spans.map((span) => [span.spanContext().spanId, span.name]));
    for (const span of spans.filter((one) => one.parentSpanContext !== undefined)) {
      expect(`step of ${names.get(span.parentSpanContext?.spanId ?? "")?.slice(4)}`).toBe(span.name);
    }
    expect(spans).toHaveLength(4_000);
  });

  it("F06: gives the right parent behind a limiter, in an async generator and behind a pool of one, in a thousand runs at once", async () => {
    const limit = pLimit(7);
    // As pg's pool does it: whoever gives the connection back calls the next one's callback.
    const waiting: (() => void)[] = [];
    let busy = false;
    const connect = () =>
      new Promise<void>((resolve) => {
        if (busy) waiting.push(resolve);
        else resolve();
        busy = true;
      });
    const release = (): void => {
      const next = waiting.shift();
      if (next === undefined) busy = false;
      else next();
    };
    const pause = () => new Promise((resolve) => setImmediate(resolve));
    async function* tokens(run: number): AsyncGenerator<number> {
      for (let n = 0; n < 2; n++) {
        await pause();
        await withSpan(`token ${run}`, {}, () => undefined);
        yield n;
      }
    }
    const runs = Array.from({ length: 1_000 }, (_, run) =>
      withSpan(`root ${run}`, { root: true }, async () => {
        await limit(() => withSpan(`limited ${run}`, {}, pause));
        for await (const _token of tokens(run)) await withSpan(`read ${run}`, {}, () => undefined);
        const parent = context.active();
        await connect();
        await withSpan(`query ${run}`, { parent }, pause);
        release();
      }),
    );
    await Promise.all(runs);
    const spans = exporter.getFinishedSpans();
    const names = new Map(spans.map((span) => [span.spanContext().spanId, span.name]));
    const wrong = spans.filter(({ name, parentSpanContext }) => {
      const number = name.split(" ")[1];
      return parentSpanContext !== undefined && names.get(parentSpanContext.spanId) !== `root ${number}`;
    });
    expect(wrong.map((span) => span.name)).toEqual([]);
    expect(spans).toHaveLength(7_000);
  });

  it("never lets a processor that throws replace the result or the error", async () => {
    diag.disable();
    const nothing = async (): Promise<void> => undefined;
    const boom = (): void => {
      throw new Error("processor");
    };
    trace.disable();
    register({ onStart: () => undefined, onEnd: boom, forceFlush: nothing, shutdown: nothing });
    await expect(withSpan("a", {}, () => "result")).resolves.toBe("result");
    await expect(withSpan("b", {}, () => Promise.reject(new Error("mine")))).rejects.toThrow("mine");
    trace.disable();
    register({ onStart: boom, onEnd: () => undefined, forceFlush: nothing, shutdown: nothing });
    await expect(withSpan("c", {}, () => "result")).resolves.toBe("result");
  });

  it("does its work when no SDK is registered", async () => {
    trace.disable();
    await expect(withSpan("quiet", { parent: ROOT_CONTEXT }, () => 1)).resolves.toBe(1);
  });
});
