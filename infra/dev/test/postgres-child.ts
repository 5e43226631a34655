// A process that starts PostgreSQL, says where, and waits to be killed. Its one argument is a data folder, or nothing.

import { startPostgres } from "../src/postgres.ts";

const dataDir = process.argv[2];
const postgres = await startPostgres(dataDir === undefined ? {} : { dataDir });
process.stdout.write(
  `${JSON.stringify({ url: postgres.url, dataDir: postgres.dataDir, serverPid: postgres.serverPid })}\n`,
);
setInterval(() => undefined, 60_000);
