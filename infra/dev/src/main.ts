// `npm run dev`: the whole stack until Ctrl-C, its data kept below .reprise/ in the current folder.

import { resolve } from "node:path";
import { PRODUCT } from "@reprise/tracing";
import { type Stack, startStack } from "./stack.ts";

const DATA_FOLDER = `.${PRODUCT.name}`;
/** Stable addresses over restarts; each gives way when taken. 4318 is OTLP's own, 9324 what SQS emulators use. */
const PREFERRED_PORTS = { postgres: 54_320, sqs: 9_324, sink: 4_318 };

/** stdout holds nothing but `export` lines, fit for `eval`; what a person reads goes to stderr. */
async function main(): Promise<void> {
  // Asked for first: a signal during the start must not leave a half-started stack behind.
  const signalled = nextSignal();
  const stack = await startStack({ dataDir: resolve(DATA_FOLDER), preferredPorts: PREFERRED_PORTS });
  for (const [name, value] of Object.entries(stack.environment)) {
    process.stdout.write(`export ${name}=${quoteForShell(value)}\n`);
  }
  process.stderr.write(guide(stack));
  const died = stack.postgres?.ended.then((log) => `PostgreSQL ended by itself. Its log ends:\n${log}`);
  const reason = await Promise.race(died === undefined ? [signalled] : [signalled, died]);
  process.stderr.write(`${reason}\nStopping.\n`);
  await stack.stop();
  if (!reason.startsWith("Received")) process.exitCode = 1;
}

/** Resolves at the first SIGINT or SIGTERM; the second ends the process at once, as people expect of Ctrl-C twice. */
function nextSignal(): Promise<string> {
  return new Promise((resolveSignal) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const)
      process.once(signal, () => resolveSignal(`Received ${signal}.`));
  });
}

function guide({ sink, sqs, postgres, otlpEndpoint, queueUrl, databaseUrl, deadLetterQueueUrl }: Stack): string {
  const lines = [
    `PostgreSQL  ${postgres === undefined ? "yours, from DATABASE_URL" : `${databaseUrl}   data in ${postgres.dataDir}`}`,
    `SQS         ${queueUrl}${sqs === undefined ? "   yours, from the environment" : `   journal in ${DATA_FOLDER}/sqs.jsonl`}`,
    ...(deadLetterQueueUrl === undefined ? [] : [`            ${deadLetterQueueUrl}   dead letters`]),
    ...(sink === undefined
      ? [`Traces      ${otlpEndpoint}   yours, from OTEL_EXPORTER_OTLP_ENDPOINT`]
      : [
          `Traces      ${sink.endpoint}/   all of them as trees; spans in ${DATA_FOLDER}/spans.jsonl`,
          `            ${sink.endpoint}/?where=receive_count>1   those of redelivered messages`,
        ]),
  ];
  return `\nThe stack runs. Paste the export lines into the worker's shell.\n\n${lines.join("\n")}\n\nCtrl-C stops it and keeps the data.\n`;
}

function quoteForShell(value: string): string {
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\\''")}'`;
}

try {
  await main();
} catch (error) {
  // Our own errors say what to do in their message; a stack trace below it would bury that.
  process.stderr.write(
    `${error instanceof Error && "code" in error ? `${String(error.code)}: ${error.message}` : String(error)}\n`,
  );
  process.exitCode = 1;
}
