// `npm run kill`: seeded runs killed at random moments; every one must end finished, charged once, with nothing lost.
import { parseArgs } from "node:util";
import { GetQueueAttributesCommand, SQSClient } from "@aws-sdk/client-sqs";
import { openPool, type Stack, startStack } from "@reprise/dev-stack";
import { migrateDatabase } from "@reprise/worker";
import type pg from "pg";
import { SupportError } from "../support/errors.ts";
import { connectPayments } from "../support/payments-client.ts";
import { spawnPayments } from "../support/payments-process.ts";
import { MUTATIONS, type Mutation } from "./agents.ts";
import { CALIBRATION_PREFIX, type KilledRun, Lane } from "./lane.ts";
import { KILL_PLACES } from "./place.ts";
import { seeded } from "./random.ts";

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "200" },
    seed: { type: "string", default: "1" },
    lanes: { type: "string", default: "4" },
    mutate: { type: "string", default: "none" },
    freeze: { type: "string", default: "0.1" },
    json: { type: "boolean", default: false },
  },
});
const runs = Number(values.runs);
const seed = Number(values.seed);
const mutation = MUTATIONS.find((known) => known === values.mutate);
if (mutation === undefined) throw new SupportError("EXAMPLE_FAILED", `--mutate is one of ${MUTATIONS.join(", ")}`);

/** The reply is held this long after the commit: a slow provider, and the window that matters most. */
const REPLY_HELD_MS = 250;
const VISIBILITY_SECONDS = 2;

type Report = {
  readonly seed: number;
  readonly runs: number;
  readonly mutation: Mutation;
  readonly finished: number;
  readonly unfinished_when_killed: number;
  readonly between_commit_and_completion: number;
  readonly frozen: number;
  readonly charged_once: number;
  readonly doubled: number;
  readonly uncharged: number;
  readonly left_in_queue: number;
  readonly late_writes: number;
  readonly failures: readonly string[];
  readonly histogram: Readonly<Record<string, number>>;
  readonly seconds: number;
};

async function play(chosen: Mutation): Promise<Report> {
  const startedAt = performance.now();
  const stack = await startStack({ environment: {}, visibilitySeconds: VISIBILITY_SECONDS });
  const provider = await spawnPayments();
  const pool = openPool(stack.databaseUrl, { max: 10 });
  const lanes: Lane[] = [];
  try {
    await migrateDatabase(pool, "public");
    if (chosen === "fence_removed") await removeFence(pool);
    const payments = connectPayments(provider.url);
    await payments.arm({ kind: "commit_then_stall", holdMs: REPLY_HELD_MS, times: null });
    const queues: string[] = [];
    for (let lane = 0; lane < Math.min(Number(values.lanes), runs); lane += 1) {
      const queueUrl = await laneQueue(stack, lane);
      queues.push(queueUrl);
      const environment = {
        ...stack.environment,
        QUEUE_URL: queueUrl,
        PAYMENTS_URL: provider.url,
        REPRISE_VISIBILITY_SECONDS: String(VISIBILITY_SECONDS),
        REPRISE_LOG_LEVEL: "silent",
        REPRISE_FAULT_LIMIT: "20",
      };
      lanes.push(
        new Lane({
          queueUrl,
          sqsEndpoint: stack.sqsEndpoint ?? "",
          environment,
          mutation: chosen,
          pool,
          payments,
          freezeShare: Number(values.freeze),
          random: seeded(seed * 1_000 + lane),
        }),
      );
    }
    const { killed, failures } = await killAll(lanes);
    return await report({ stack, pool, provider: payments, queues, killed, failures, chosen, startedAt });
  } finally {
    for (const lane of lanes) lane.stop();
    await pool.end();
    await provider.stop();
    await stack.stop();
  }
}

async function killAll(lanes: readonly Lane[]): Promise<{ killed: KilledRun[]; failures: string[] }> {
  const killed: KilledRun[] = [];
  const failures: string[] = [];
  let next = 0;
  await Promise.all(
    lanes.map(async (lane) => {
      while (next < runs) {
        const runId = `k${seed}x${next++}`;
        try {
          killed.push(await lane.kill(runId));
        } catch (error) {
          failures.push(error instanceof Error ? error.message : String(error));
        }
        if (killed.length % 20 === 0) process.stderr.write(`${killed.length} of ${runs}\n`);
      }
    }),
  );
  return { killed, failures };
}

async function laneQueue(stack: Stack, lane: number): Promise<string> {
  if (stack.sqs === undefined) throw new TypeError("the kill harness always starts its own SQS endpoint");
  return stack.sqs.createQueue(`kill-${lane}`, { VisibilityTimeout: String(VISIBILITY_SECONDS) });
}

/** The mutation "fence removed", where the fence is checked: a stale worker's transactions pass. */
async function removeFence(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query<{ signature: string }>(
    "select oid::regprocedure::text as signature from pg_proc where proname = 'assert_fence'",
  );
  for (const { signature } of rows) {
    const [name, types = ""] = signature.replace(")", "").split("(");
    await pool.query(`drop function ${signature}`);
    await pool.query(`create function ${name}(${types}) returns void language sql as 'select'`);
  }
}

type Played = {
  readonly stack: Stack;
  readonly pool: pg.Pool;
  readonly provider: ReturnType<typeof connectPayments>;
  readonly queues: readonly string[];
  readonly killed: readonly KilledRun[];
  readonly failures: readonly string[];
  readonly chosen: Mutation;
  readonly startedAt: number;
};

async function report(played: Played): Promise<Report> {
  const { pool, killed, failures } = played;
  const perCustomer = new Map<string, number>();
  for (const charge of await played.provider.charges())
    perCustomer.set(charge.customer, (perCustomer.get(charge.customer) ?? 0) + 1);
  const counts = killed.map((run) => perCustomer.get(run.customer) ?? 0);
  const histogram = Object.fromEntries(
    KILL_PLACES.map((place) => [place, killed.filter((run) => run.place === place).length]),
  );
  return {
    seed,
    runs,
    mutation: played.chosen,
    finished: await count(
      pool,
      `select count(*)::int as n from reprise.runs where status = 'finished' and run_id not like '${CALIBRATION_PREFIX}%'`,
    ),
    unfinished_when_killed: killed.length - (histogram["after the run was finished"] ?? 0),
    between_commit_and_completion: histogram["committed, before the completion was stored"] ?? 0,
    frozen: killed.filter((run) => run.how === "SIGSTOP").length,
    charged_once: counts.filter((n) => n === 1).length,
    doubled: counts.filter((n) => n > 1).length,
    uncharged: counts.filter((n) => n === 0).length,
    left_in_queue: await leftInQueues(played),
    late_writes: killed.reduce((sum, run) => sum + run.lateWrites, 0),
    failures,
    histogram,
    seconds: Math.round((performance.now() - played.startedAt) / 100) / 10,
  };
}

async function count(pool: pg.Pool, sql: string): Promise<number> {
  return (await pool.query<{ n: number }>(sql)).rows[0]?.n ?? 0;
}

async function leftInQueues({ stack, queues }: Played): Promise<number> {
  const client = new SQSClient({
    region: "us-east-1",
    endpoint: stack.sqsEndpoint ?? "",
    credentials: { accessKeyId: "dev", secretAccessKey: "dev" },
  });
  // The last deletes are on their way when the last run is seen finished.
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  let left = 0;
  for (const QueueUrl of queues) {
    const { Attributes } = await client.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }));
    left += Number(Attributes?.ApproximateNumberOfMessages) + Number(Attributes?.ApproximateNumberOfMessagesNotVisible);
  }
  client.destroy();
  return left;
}

/**
 * Every line of it is a promise. The two about where kills fall are made for 200 runs; fewer runs scatter, so they are asked
 * for three standard deviations less than their share: bad aim is no broken promise.
 */
function broken(result: Report): readonly string[] {
  const minimum = (of200: number): number => {
    const share = of200 / 200;
    const scatter = runs >= 200 ? 0 : 3 * Math.sqrt(runs * share * (1 - share));
    return Math.max(0, Math.floor(runs * share - scatter));
  };
  const checks: readonly (readonly [boolean, string])[] = [
    [result.finished === runs, `finished ${result.finished} of ${runs}`],
    [result.doubled === 0, `${result.doubled} charged twice`],
    [result.uncharged === 0, `${result.uncharged} not charged`],
    [result.left_in_queue === 0, `${result.left_in_queue} messages left in the queues`],
    [result.late_writes === 0, `${result.late_writes} rows stored by workers whose thread another had finished`],
    [
      result.unfinished_when_killed >= minimum(150),
      `only ${result.unfinished_when_killed} kills hit an unfinished run`,
    ],
    [
      result.between_commit_and_completion >= minimum(20),
      `only ${result.between_commit_and_completion} kills fell between commit and completion`,
    ],
    [result.failures.length === 0, `${result.failures.length} runs failed`],
  ];
  return checks.filter(([holds]) => !holds).map(([, text]) => text);
}

const result = await play(mutation);
const wrong = broken(result);
if (values.json) process.stdout.write(`${JSON.stringify({ ...result, broken: wrong })}\n`);
else {
  process.stdout.write(`Where ${runs} kills fell (seed ${seed}):\n`);
  for (const [place, n] of Object.entries(result.histogram))
    process.stdout.write(`  ${String(n).padStart(4)}  ${"#".repeat(n)}  ${place}\n`);
  process.stdout.write(`${JSON.stringify({ ...result, histogram: undefined })}\n`);
  process.stdout.write(
    wrong.length === 0 ? "Every run finished, each charged once, nothing lost.\n" : `BROKEN: ${wrong.join("; ")}\n`,
  );
}
process.exitCode = wrong.length === 0 ? 0 : 1;
