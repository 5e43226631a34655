// Proves the preflight's judgement: facts in, lines out. Each limit is tried at, below and above it.
import { describe, expect, test } from "vitest";
import { type CheckFacts, type CheckLine, checkLines, type Probe, verdictOf } from "../src/check.ts";
import type { DatabaseFacts } from "../src/check-database.ts";
import { otlpTarget } from "../src/check-otlp.ts";
import type { ProcessFacts } from "../src/check-process.ts";
import { deadLetterOf, maxReceivesOf, type QueueAttributes, redriveLine } from "../src/check-queue.ts";
import { printed } from "../src/cli-check.ts";
import { readSettings } from "../src/config.ts";

const QUEUE: QueueAttributes = {
  VisibilityTimeout: "60",
  ReceiveMessageWaitTimeSeconds: "20",
  MessageRetentionPeriod: "345600",
  MaximumMessageSize: "1048576",
  SqsManagedSseEnabled: "true",
  RedrivePolicy: JSON.stringify({ deadLetterTargetArn: "arn:aws:sqs:eu-west-1:1:dead", maxReceiveCount: 50 }),
};
const DEAD: QueueAttributes = { MessageRetentionPeriod: "1209600" };
const DATABASE: DatabaseFacts = {
  version: 160_004,
  readOnly: false,
  missingMigrations: [],
  hasCheckpoints: true,
  connectionsMax: 100,
  connectionsReserved: 3,
  connectionsUsed: 10,
  skewMs: 3,
};
const PROCESS: ProcessFacts = {
  tracing: { state: "asked", url: "http://c:4318/v1/traces", configured: true, answer: read(200) },
  queueSkewMs: read(200),
};
const settings = (environment: Readonly<Record<string, string>> = {}): CheckFacts["config"] =>
  readSettings({ DATABASE_URL: "postgres://x/y", QUEUE_URL: "https://sqs/1/runs", ...environment });

function read<T>(value: T): Probe<T> {
  return { state: "read", value };
}
function unread(name: string, error = "why"): Extract<Probe<never>, { state: "unread" }> {
  return { state: "unread", name, error };
}

interface Changes {
  readonly queue?: QueueAttributes;
  readonly dead?: Probe<QueueAttributes>;
  readonly database?: Partial<DatabaseFacts>;
  readonly process?: Partial<ProcessFacts>;
  readonly environment?: Readonly<Record<string, string>>;
}

function factsOf(changes: Changes = {}): CheckFacts {
  return {
    config: settings(changes.environment),
    queue: read({ attributes: { ...QUEUE, ...changes.queue }, deadLetter: changes.dead ?? read(DEAD) }),
    database: read({ ...DATABASE, ...changes.database }),
    process: { ...PROCESS, ...changes.process },
  };
}

function line(what: string, changes: Changes): CheckLine {
  const found = checkLines(factsOf(changes)).find((candidate) => candidate.what === what);
  if (found === undefined) throw new Error(`no line about ${what}`);
  return found;
}
const verdict = (what: string, changes: Changes): string => line(what, changes).verdict;

test("where all is well every line says so, and asks for nothing", () => {
  const lines = checkLines(factsOf());
  expect(lines.filter(({ verdict, fix }) => verdict !== "ok" || fix !== undefined)).toEqual([]);
  expect(new Set(lines.map(({ what }) => what)).size).toBe(lines.length);
});

test("whatever is not well says what to do", () => {
  const lines = checkLines({
    config: settings({ REPRISE_DRAIN_SECONDS: "3600", REPRISE_POOL_MAX: "2", REPRISE_WAIT_SECONDS: "1" }),
    queue: read({ attributes: {}, deadLetter: unread("QueueDoesNotExist") }),
    database: read({ ...DATABASE, version: 90_000, missingMigrations: ["x"], connectionsUsed: 99, skewMs: 60_000 }),
    process: { ...PROCESS, queueSkewMs: read(-400_000) },
  });
  for (const { verdict, fix, what } of lines) if (verdict !== "ok") expect(fix, what).toMatch(/^\S.{10,}/);
  expect(verdictOf(lines)).toBe("fail");
});

describe("C03: the redrive policy of a queue whose deploys hand back", () => {
  test.each([
    [1, "fail"],
    [2, "fail"],
    [3, "warn"],
    [19, "warn"],
    [20, "ok"],
    [50, "ok"],
    [1000, "ok"],
  ])("C03: maxReceiveCount %d is %s", (maxReceiveCount, wanted) => {
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: "arn:aws:sqs:eu-west-1:1:dead", maxReceiveCount });
    expect(verdict("redrive policy", { queue: { RedrivePolicy } })).toBe(wanted);
    expect(redriveLine(maxReceiveCount).needed).toContain("50");
  });

  test.each([undefined, "", "{", "[]", "null", '{"maxReceiveCount":"many"}', '{"maxReceiveCount":2.5}'])(
    "no policy that can be read (%j) is warned about",
    (RedrivePolicy) => expect(verdict("redrive policy", { queue: { RedrivePolicy } })).toBe("warn"),
  );

  test("a limit written as text is a limit", () => {
    expect(maxReceivesOf({ RedrivePolicy: '{"maxReceiveCount":"7"}' })).toBe(7);
  });

  test("the dead-letter queue is the last part of its ARN", () => {
    expect(deadLetterOf(QUEUE)).toBe("dead");
    expect(deadLetterOf({ RedrivePolicy: '{"deadLetterTargetArn":7}' })).toBeUndefined();
  });
});

describe("the queue", () => {
  const unreached = (name: string): readonly CheckLine[] => checkLines({ ...factsOf(), queue: unread(name) });

  test.each([
    ["QueueDoesNotExist", "fail", /create/],
    ["AWS.SimpleQueueService.NonExistentQueue", "fail", /create/],
    ["AccessDeniedException", "warn", /GetQueueAttributes/],
    ["TimeoutError", "fail", /network/],
    ["ECONNREFUSED", "fail", /SQS_ENDPOINT/],
  ])("that answers %s is one line, %s", (name, wanted, fix) => {
    const [first, second] = unreached(name);
    expect(first).toMatchObject({ what: "queue", verdict: wanted });
    expect(first?.fix).toMatch(fix);
    expect(second?.what).toBe("database");
  });

  test.each<[string, string, Changes]>([
    ["encryption", "ok", { queue: { KmsMasterKeyId: "alias/k", SqsManagedSseEnabled: "false" } }],
    ["encryption", "warn", { queue: { SqsManagedSseEnabled: "false" } }],
    ["long poll", "ok", { environment: { REPRISE_WAIT_SECONDS: "5" } }],
    ["long poll", "warn", { environment: { REPRISE_WAIT_SECONDS: "4" } }],
    ["retention", "ok", { queue: { MessageRetentionPeriod: "86400" } }],
    ["retention", "warn", { queue: { MessageRetentionPeriod: "86399" } }],
    ["message size", "warn", { queue: { MaximumMessageSize: "262144" } }],
    ["dead-letter queue", "fail", { dead: unread("QueueDoesNotExist") }],
    ["dead-letter queue", "warn", { dead: unread("AccessDenied") }],
    ["dead-letter queue", "fail", { dead: read({ ...DEAD, FifoQueue: "true" }) }],
    ["dead-letter queue retention", "warn", { dead: read({ MessageRetentionPeriod: "345600" }) }],
    ["dead-letter queue retention", "ok", { dead: read({ MessageRetentionPeriod: "345601" }) }],
  ])("%s: %s, %j", (what, wanted, changes) => expect(verdict(what, changes)).toBe(wanted));

  test("that is FIFO wants a FIFO dead-letter queue, and says how it drops repeats", () => {
    const environment = { QUEUE_URL: "https://sqs/1/runs.fifo" };
    const dead = read({ ...DEAD, FifoQueue: "true" });
    expect(verdict("dead-letter queue", { environment, dead })).toBe("ok");
    const byContent = { environment, dead, queue: { ContentBasedDeduplication: "true" } };
    expect(line("deduplication", byContent).found).toContain("by content");
  });
});

describe("the database", () => {
  test.each<[string, string, Changes]>([
    ["database", "ok", { database: { version: 140_000 } }],
    ["database", "fail", { database: { version: 130_015 } }],
    ["database", "fail", { database: { readOnly: true } }],
    ["tables", "fail", { database: { missingMigrations: ["worker-001-runs"] } }],
    ["tables", "fail", { database: { hasCheckpoints: false } }],
    ["pool", "ok", { environment: { REPRISE_POOL_MAX: "20", REPRISE_CONCURRENCY: "10" } }],
    ["pool", "warn", { environment: { REPRISE_POOL_MAX: "19", REPRISE_CONCURRENCY: "10" } }],
    ["connections", "ok", { database: { connectionsUsed: 77 } }],
    ["connections", "warn", { database: { connectionsUsed: 78 } }],
    ["connections", "fail", { database: { connectionsMax: 22 } }],
    ["database clock", "ok", { database: { skewMs: -1_000 } }],
    ["database clock", "warn", { database: { skewMs: 1_001 } }],
    ["database clock", "fail", { database: { skewMs: -10_001 } }],
  ])("%s: %s, %j", (what, wanted, changes) => expect(verdict(what, changes)).toBe(wanted));

  test("that is not there is one line, and its pool another", () => {
    const lines = checkLines({ ...factsOf(), database: unread("ECONNREFUSED") });
    expect(lines.find(({ what }) => what === "database")).toMatchObject({ verdict: "fail", found: "why" });
    expect(lines.some(({ what }) => what === "tables")).toBe(false);
  });
});

describe("the process", () => {
  test("D02: a drain of 25 s under a stop grace of 10 s fails, with the sum", () => {
    const environment = { REPRISE_DRAIN_SECONDS: "25", REPRISE_STOP_GRACE_SECONDS: "10" };
    expect(line("stop budget", { environment })).toMatchObject({ verdict: "fail" });
    expect(line("stop budget", { environment }).found).toContain("= 34 s");
  });

  test.each([
    ["21", "ok"],
    ["22", "fail"],
  ])("D02: drain %s s, flush 5 s, and 4 s margin against 30 s: %s", (drain, wanted) => {
    expect(verdict("stop budget", { environment: { REPRISE_DRAIN_SECONDS: drain } })).toBe(wanted);
  });

  const answered = (configured: boolean, answer: Probe<number>): Changes => ({
    process: { tracing: { state: "asked", url: "http://c/v1/traces", configured, answer } },
  });
  test.each<[string, string, Changes]>([
    ["queue clock", "ok", { process: { queueSkewMs: read(-5_000) } }],
    ["queue clock", "warn", { process: { queueSkewMs: read(5_001) } }],
    ["queue clock", "fail", { process: { queueSkewMs: read(-300_001) } }],
    ["traces", "ok", { process: { tracing: { state: "off", why: "OTEL_SDK_DISABLED" } } }],
    ["traces", "fail", answered(true, unread("ECONNREFUSED"))],
    ["traces", "warn", answered(false, unread("ECONNREFUSED"))],
    ["traces", "fail", answered(true, read(401))],
    ["traces", "ok", answered(true, read(204))],
    [
      "run deadline",
      "fail",
      { environment: { REPRISE_RUN_DEADLINE_SECONDS: "43000", REPRISE_VISIBILITY_SECONDS: "201" } },
    ],
  ])("%s: %s, %j", (what, wanted, changes) => expect(verdict(what, changes)).toBe(wanted));

  test("a queue that said no date has no line about its clock", () => {
    const lines = checkLines(factsOf({ process: { queueSkewMs: unread("NoDate") } }));
    expect(lines.some(({ what }) => what === "queue clock")).toBe(false);
  });
});

describe("where spans go", () => {
  test.each([
    [{}, "http://localhost:4318/v1/traces", false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: " " }, "http://localhost:4318/v1/traces", false],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318/" }, "http://c:4318/v1/traces", true],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://t/x" }, "http://t/x", true],
  ])("%j is %s", (environment, url, configured) => {
    expect(otlpTarget(environment)).toMatchObject({ state: "asked", url, configured });
  });

  test.each([{ OTEL_SDK_DISABLED: "TRUE" }, { OTEL_TRACES_EXPORTER: "none" }, { OTEL_TRACES_EXPORTER: "console" }])(
    "%j is nowhere",
    (environment) => expect(otlpTarget(environment).state).toBe("off"),
  );

  test("headers are read as the SDK reads them, the signal's own over the general ones", () => {
    const target = otlpTarget({
      OTEL_EXPORTER_OTLP_HEADERS: "authorization=Basic%20eA==, x = 1 ,broken,=none,bad=%zz",
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: "x=2",
    });
    expect(target).toMatchObject({ headers: { authorization: "Basic eA==", x: "2", bad: "%zz" } });
  });
});

test("the printed lines have verdict, found, needed and fix, and no control characters of a server's", () => {
  const text = printed([
    { what: "queue", found: "a\u001b[31m", needed: "b", verdict: "fail", fix: "c" },
    { what: "pool", found: "d", needed: "e", verdict: "ok" },
  ]);
  expect(text).toBe(
    "FAIL  queue  found a [31m; needed b\n             fix: c\nok    pool   found d; needed e\n1 ok, 0 to improve, 1 to mend\n",
  );
});
