// A plain ESM program with static imports, set-up first: what `setup.real.test.ts` copies beside a bundle and starts as a process.

import { finish, withSpan } from "./start.mjs";

// A blank line between, so that no import sorter moves it: what is loaded before the set-up is not instrumented.

import http, { get } from "node:http";
import { GetQueueUrlCommand, SQSClient } from "@aws-sdk/client-sqs";
import pg from "pg";

const [, , , target = "", databaseUrl = ""] = process.argv;

const request = (send) =>
  new Promise((resolve, reject) => {
    send(`${target}/http`, (response) => response.resume().once("end", resolve)).once("error", reject);
  });

await withSpan("tool:fetch", {}, async () => (await fetch(`${target}/fetch?api_key=hunter2`)).text());
await withSpan("tool:http", {}, () => request(http.get));
await withSpan("tool:http_named", {}, () => request(get));

// One connection for ten runs: nine of them wait for the pool, and their query must still be their own (case F06).
const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
const runs = Array.from({ length: 10 }, (_, run) => run);
await Promise.all(
  runs.map((run) => withSpan(`checkpoint.put ${run}`, {}, () => pool.query(`select ${run}::int as run`))),
);
// Outside any span: no trace of its own.
await pool.query("select 1 as alone");
await pool.end();

const sqs = new SQSClient({
  endpoint: target,
  region: "eu-west-1",
  credentials: { accessKeyId: "test", secretAccessKey: "test" },
});
await withSpan("tool:aws", {}, () => sqs.send(new GetQueueUrlCommand({ QueueName: "agent-runs" })));
sqs.destroy();

process.stdout.write(`${JSON.stringify(await finish())}\n`);
