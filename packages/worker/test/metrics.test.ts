// Proves the worker's metrics with a real SDK in memory: names, values, and that no attribute grows without a bound.

import { readFileSync } from "node:fs";
import { MeterProvider, type MetricData, MetricReader } from "@opentelemetry/sdk-metrics";
import { ATTR, METRIC } from "@reprise/tracing";
import { afterEach, describe, expect, test } from "vitest";
import { RECEIVE_FAILURES } from "../src/intake-failure.ts";
import { WorkerMetrics } from "../src/metrics.ts";
import { boundedValues } from "../src/metrics-bound.ts";

class Reader extends MetricReader {
  protected override async onShutdown(): Promise<void> {}
  protected override async onForceFlush(): Promise<void> {}
}

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

function scene(gauges: { active?: number; oldestLeaseMs?: number } = {}) {
  const reader = new Reader();
  const provider = new MeterProvider({ readers: [reader] });
  closers.push(() => provider.shutdown());
  const metrics = new WorkerMetrics({
    queue: "agent-runs",
    meter: provider.getMeter("test"),
    gauges: { active: () => gauges.active ?? 0, slots: 10, oldestLeaseMs: () => gauges.oldestLeaseMs ?? 0 },
  });
  const collect = async (): Promise<readonly MetricData[]> =>
    (await reader.collect()).resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
  /** Values by their attributes, without those that are the same on all. */
  const values = async (name: string): Promise<Readonly<Record<string, unknown>>> => {
    const metric = (await collect()).find((one) => one.descriptor.name === name);
    return Object.fromEntries(
      (metric?.dataPoints ?? []).map(({ attributes, value }) => {
        const {
          [ATTR.messagingDestination]: queue,
          [ATTR.messagingSystem]: _,
          [ATTR.messagingSystemName]: __,
          ...own
        } = attributes;
        expect(queue).toBe("agent-runs");
        return [Object.values(own).join(" "), value];
      }),
    );
  };
  return { metrics, values, collect };
}

describe("deliveries", () => {
  test("process duration is in seconds, by outcome, under the convention's name and attributes", async () => {
    const { metrics, collect } = scene();
    metrics.ended({ outcome: "finished" }, 1_500);
    metrics.ended({ outcome: "failed_retry", code: "ECONNRESET" }, 250);
    const duration = (await collect()).find((metric) => metric.descriptor.name === "messaging.process.duration");
    expect(duration?.descriptor.unit).toBe("s");
    expect(duration?.dataPoints.map(({ attributes, value }) => [attributes, value])).toMatchObject([
      [
        {
          "messaging.system": "aws_sqs",
          "messaging.system.name": "aws.sqs",
          "messaging.destination.name": "agent-runs",
          "messaging.operation.name": "process",
          "agent.outcome": "finished",
        },
        { count: 1, sum: 1.5 },
      ],
      [
        { "agent.outcome": "failed_retry", "error.type": "ECONNRESET" },
        { count: 1, sum: 0.25 },
      ],
    ]);
    expect(duration?.dataPoints[0]?.attributes["error.type"]).toBeUndefined();
  });

  test("C06: a missing receive count is counted as missing, and never as a first receive", async () => {
    const { metrics, values } = scene();
    metrics.began(1);
    metrics.began(3);
    metrics.began(undefined);
    expect(await values(METRIC.receiveCount)).toMatchObject({ "": { count: 2, sum: 4, min: 1, max: 3 } });
    expect(await values(METRIC.receiveCountMissing)).toEqual({ "": 1 });
    expect(await values(METRIC.consumedMessages)).toEqual({ receive: 3 });
  });

  test("redeliveries are counted by cause, unseen receives by their number, first deliveries not at all", async () => {
    const { metrics, values } = scene();
    metrics.redelivered({ redelivered: false, cause: "none", unseenReceives: 0 });
    metrics.redelivered({ redelivered: true, cause: "handback", unseenReceives: 0 });
    metrics.redelivered({ redelivered: true, cause: "phantom_receive", unseenReceives: 2 });
    metrics.redelivered({ redelivered: true, cause: "phantom_receive", unseenReceives: undefined });
    expect(await values(METRIC.deliveriesRedelivered)).toEqual({ handback: 1, phantom_receive: 2 });
    expect(await values(METRIC.receivesUnseen)).toEqual({ "": 2 });
  });

  test("C03: a drain is counted as a hand-back and not as a failure", async () => {
    const { metrics, values } = scene();
    for (let run = 0; run < 10; run += 1) metrics.ended({ outcome: "handback" }, 1_000);
    expect(await values(METRIC.deliveriesHandedBack)).toEqual({ "": 10 });
    expect(await values(METRIC.deliveriesEnded)).toEqual({ handback: 10 });
    expect(await values(METRIC.messagesParked)).toEqual({});
    expect(await values(METRIC.leasesLost)).toEqual({});
  });

  test("parked and refused messages by code, lost leases, obituaries that arrived or did not, failed receives by class", async () => {
    const { metrics, values } = scene();
    metrics.ended({ outcome: "parked", code: "FAULT_LIMIT" }, 1);
    metrics.ended({ outcome: "refused", code: "RUN_ID_REUSED" }, 1);
    metrics.ended({ outcome: "lease_lost", code: "LEASE_LOST" }, 1);
    metrics.buried(true);
    metrics.buried(false);
    for (const failure of RECEIVE_FAILURES) metrics.pollFailed(failure);
    expect(await values(METRIC.messagesParked)).toEqual({ FAULT_LIMIT: 1, RUN_ID_REUSED: 1 });
    expect(await values(METRIC.leasesLost)).toEqual({ "": 1 });
    expect(await values(METRIC.obituariesExported)).toEqual({ "": 1 });
    expect(await values(METRIC.obituariesFailed)).toEqual({ "": 1 });
    expect(Object.keys(await values(METRIC.pollsFailed))).toEqual([...RECEIVE_FAILURES]);
  });

  test("an error code that is different each time ends as _OTHER: series are kept for the life of the process", async () => {
    const { metrics, values } = scene();
    for (let run = 0; run < 1_000; run += 1) metrics.ended({ outcome: "failed_retry", code: `E_${run}` }, 1);
    const codes = Object.keys(await values(METRIC.processDuration));
    expect(codes).toHaveLength(51);
    expect(codes.some((code) => code.endsWith("_OTHER"))).toBe(true);
  });
});

describe("gauges", () => {
  test("slots, deliveries in work and the oldest lease are read when an SDK collects", async () => {
    const gauges = { active: 3, oldestLeaseMs: 90_000 };
    const { metrics, values } = scene(gauges);
    expect(await values(METRIC.slotsUsed)).toEqual({ "": 3 });
    expect(await values(METRIC.slotsFree)).toEqual({ "": 7 });
    expect(await values(METRIC.leaseOldestAge)).toEqual({ "": 90 });
    // Two that are only being settled have given their slots away.
    gauges.active = 12;
    expect(await values(METRIC.deliveriesActive)).toEqual({ "": 12 });
    expect(await values(METRIC.slotsUsed)).toEqual({ "": 10 });
    // A worker that has stopped is asked no more.
    metrics.close();
    gauges.active = 0;
    expect(await values(METRIC.slotsFree)).toEqual({ "": 0 });
  });
});

test("without an SDK nothing is recorded and nothing fails", () => {
  const metrics = new WorkerMetrics({ queue: "q", gauges: { active: () => 0, slots: 1, oldestLeaseMs: () => 0 } });
  metrics.began(1);
  metrics.ended({ outcome: "finished" }, 1);
  metrics.close();
});

test("a bounded attribute keeps the first values, and takes long ones for others", () => {
  const bound = boundedValues(2);
  expect(["a", "b", "c", "a", "x".repeat(65), "b"].map(bound)).toEqual(["a", "b", "_OTHER", "a", "_OTHER", "b"]);
});

test.each([
  ["the worker", "../README.md", /^(agent|messaging)\./],
  ["the sampler", "../../tracing/README.md", /^sampling\./],
])("the README of %s lists its metrics, and no other", (_whose, path, mine) => {
  const text = readFileSync(new URL(path, import.meta.url), "utf8");
  const table = text.split(/^## Metrics$/m)[1]?.split(/^## /m)[0] ?? "";
  const firstCells = [...table.matchAll(/^\| *(`[^|]*)\|/gm)].map(([, cell = ""]) => cell);
  const listed = firstCells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name));
  expect(listed.toSorted()).toEqual(
    Object.values(METRIC)
      .filter((name) => mine.test(name))
      .toSorted(),
  );
});
