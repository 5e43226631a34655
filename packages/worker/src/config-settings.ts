// The table of settings: what each decides, its variable, default, unit and bounds. Read by config.ts, printed in the README.
import { PRODUCT } from "@reprise/tracing";

interface SettingBase {
  /** Environment variable. */
  readonly env: string;
  /** What it decides, in one sentence; printed when it is missing or wrong, and in the README's table. */
  readonly meaning: string;
  /** A value that would be accepted. */
  readonly example: string;
}
export interface TextSetting extends SettingBase {
  readonly type: "text";
  readonly default?: string;
  readonly required?: true;
}
export interface NumberSetting extends SettingBase {
  readonly type: "number";
  readonly default: number;
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  readonly integer?: false;
}
export interface ChoiceSetting extends SettingBase {
  readonly type: "choice";
  readonly choices: readonly string[];
  readonly default: string;
}
export type Setting = TextSetting | NumberSetting | ChoiceSetting;

const own = (name: string): string => `${PRODUCT.environmentPrefix}${name}`;

/** The table of settings: parsed here, printed in the README, checked against it by `test/config.test.ts`. */
export const SETTINGS = {
  databaseUrl: {
    type: "text",
    required: true,
    env: "DATABASE_URL",
    meaning: "PostgreSQL that holds the checkpoints, the runs and the effect ledger",
    example: "postgres://app@127.0.0.1:5432/app",
  },
  queueUrl: {
    type: "text",
    required: true,
    env: "QUEUE_URL",
    meaning: "SQS queue the worker receives run requests from",
    example: "https://sqs.eu-west-1.amazonaws.com/123456789012/agent-runs",
  },
  sqsEndpoint: {
    type: "text",
    env: "SQS_ENDPOINT",
    meaning: "another SQS endpoint than AWS's, for development",
    example: "http://127.0.0.1:9324",
  },
  awsRegion: {
    type: "text",
    env: "AWS_REGION",
    default: "us-east-1",
    meaning: "AWS region of the queue",
    example: "eu-west-1",
  },
  checkpointSchema: {
    type: "text",
    env: own("CHECKPOINT_SCHEMA"),
    default: "public",
    meaning: "database schema of LangGraph's checkpoint tables; `public` is where a stock PostgresSaver keeps them",
    example: "public",
  },
  replyQueues: {
    type: "text",
    env: own("REPLY_QUEUES"),
    meaning: "SQS queues that a message may name in `reply_to`, separated by commas; any other is refused",
    example: "https://sqs.eu-west-1.amazonaws.com/123456789012/agent-replies",
  },
  concurrency: {
    type: "number",
    env: own("CONCURRENCY"),
    default: 10,
    unit: "runs",
    min: 1,
    max: 1000,
    meaning: "runs driven at the same time by one worker",
    example: "10",
  },
  toolsPerRun: {
    type: "number",
    env: own("TOOLS_PER_RUN"),
    default: 5,
    unit: "tasks",
    min: 1,
    max: 100,
    meaning: "graph tasks (tool calls among them) of one run that may work at the same time",
    example: "5",
  },
  poolMax: {
    type: "number",
    env: own("POOL_MAX"),
    default: 20,
    unit: "connections",
    min: 2,
    max: 2000,
    meaning: "PostgreSQL connections of one worker; about two a run",
    example: "20",
  },
  visibilitySeconds: {
    type: "number",
    env: own("VISIBILITY_SECONDS"),
    default: 60,
    unit: "seconds",
    min: 1,
    max: 39_000,
    meaning:
      "how long a received message stays hidden; renewed while its run works, so it bounds how late a lost run resumes",
    example: "60",
  },
  waitSeconds: {
    type: "number",
    env: own("WAIT_SECONDS"),
    default: 20,
    unit: "seconds",
    min: 1,
    max: 20,
    meaning: "length of a long poll",
    example: "20",
  },
  drainSeconds: {
    type: "number",
    env: own("DRAIN_SECONDS"),
    default: 20,
    unit: "seconds",
    min: 0,
    max: 3600,
    meaning: "how long SIGTERM waits for runs to reach their next checkpoint before it hands them back",
    example: "20",
  },
  flushSeconds: {
    type: "number",
    env: own("FLUSH_SECONDS"),
    default: 5,
    unit: "seconds",
    min: 0,
    max: 60,
    meaning: "how long the exit waits for spans to reach the collector",
    example: "5",
  },
  stopGraceSeconds: {
    type: "number",
    env: own("STOP_GRACE_SECONDS"),
    default: 30,
    unit: "seconds",
    min: 1,
    max: 3700,
    meaning: "the platform's time between SIGTERM and SIGKILL (ECS stopTimeout, terminationGracePeriodSeconds)",
    example: "30",
  },
  runDeadlineSeconds: {
    type: "number",
    env: own("RUN_DEADLINE_SECONDS"),
    default: 3600,
    unit: "seconds",
    min: 1,
    max: 43_000,
    meaning: "how long one delivery of a run may work before it is stopped and retried from its checkpoint",
    example: "3600",
  },
  recursionLimit: {
    type: "number",
    env: own("RECURSION_LIMIT"),
    default: 50,
    unit: "steps",
    min: 1,
    max: 10_000,
    meaning: "LangGraph's recursionLimit of one invocation",
    example: "50",
  },
  faultLimit: {
    type: "number",
    env: own("FAULT_LIMIT"),
    default: 5,
    unit: "deliveries",
    min: 1,
    max: 100,
    meaning: "lost and failed deliveries of one run before it is parked",
    example: "5",
  },
  sampleShare: {
    type: "number",
    integer: false,
    env: own("SAMPLE_SHARE"),
    default: 0.05,
    unit: "share",
    min: 0,
    max: 1,
    meaning: "share of uneventful traces to keep; error, slow and redelivered traces are always kept",
    example: "0.05",
  },
  slowSeconds: {
    type: "number",
    integer: false,
    env: own("SLOW_SECONDS"),
    default: 60,
    unit: "seconds",
    min: 0.1,
    max: 86_400,
    meaning: "a trace older than this is slow, and kept",
    example: "60",
  },
  content: {
    type: "choice",
    env: own("CONTENT"),
    choices: ["redacted", "none"],
    default: "redacted",
    meaning:
      "what leaves the process of tool arguments and results: redacted and cut at 2 KB, or sizes and hashes only",
    example: "redacted",
  },
  snsEnvelope: {
    type: "choice",
    env: own("SNS_ENVELOPE"),
    choices: ["refuse", "unwrap"],
    default: "refuse",
    meaning: "whether an SNS notification around the message is unwrapped (raw delivery off) or refused",
    example: "unwrap",
  },
  healthPort: {
    type: "number",
    env: own("HEALTH_PORT"),
    default: 0,
    unit: "port",
    min: 0,
    max: 65_535,
    meaning: "where `/live` and `/ready` answer the platform's probes; 0 for nowhere, the image sets 8080",
    example: "8080",
  },
  logLevel: {
    type: "choice",
    env: own("LOG_LEVEL"),
    choices: ["debug", "info", "warn", "error", "silent"],
    default: "info",
    meaning: "least severe log line that is written to stdout",
    example: "info",
  },
} as const satisfies Record<string, Setting>;
