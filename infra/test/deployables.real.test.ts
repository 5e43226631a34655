// The image's very command as a process: what SIGTERM does to it, also while it starts; its health check; the queue's attributes.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { createDatabase, openPool, startSqs } from "@reprise/dev-stack";
import { migrateDatabase } from "@reprise/worker";
import { afterEach, beforeAll, describe, expect, inject, it } from "vitest";
import "../dev/test/provided.ts";
import { execForm, instructionsOf, ofImage } from "./deployables-dockerfile.ts";
import { ecsContainers } from "./deployables-read.ts";
import { ROOT, readText } from "./repository-tree.ts";

const dockerfile = instructionsOf(readText("infra/docker/Dockerfile"));
const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});
beforeAll(async () => {
  await promisify(execFile)(join(ROOT, "node_modules", ".bin", "tsc"), ["-b"], { cwd: ROOT });
}, 180_000);

const AGENTS = `
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { defineAgent } from "@reprise/worker";
const State = Annotation.Root({ log: Annotation() });
const graph = new StateGraph(State).addNode("one", async () => ({ log: "one" })).addEdge(START, "one").addEdge("one", END).compile();
await (globalThis.beforeAgents ?? (() => {}))();
export const agents = [defineAgent({ name: "steps", graph, result: (state) => state })];
`;

/** ENTRYPOINT and CMD as they stand, in the repository's root as in /app: there, too, node_modules holds the built packages. */
function commandOf(agents: string): readonly string[] {
  const words = [
    ...(execForm(ofImage(dockerfile, "ENTRYPOINT")) ?? []),
    ...(execForm(ofImage(dockerfile, "CMD")) ?? []),
  ];
  expect(words[0]).toBe("node");
  expect(words.at(-1)).toBe("agents.js");
  return [...words.slice(1, -1), agents];
}

interface Line {
  readonly msg: string;
  readonly time: number;
}

interface Started {
  readonly child: ChildProcess;
  readonly exited: Promise<readonly unknown[]>;
  line(text: string): Promise<Line>;
}

/** The shipped worker's settings, on an embedded queue and database. */
async function start(agentsModule: string): Promise<Started> {
  const database = await createDatabase(inject("databaseUrl"));
  closers.push(() => database.drop());
  const pool = openPool(database.url, { max: 2 });
  await migrateDatabase(pool, "public");
  await pool.end();
  const sqs = await startSqs();
  closers.push(() => sqs.stop());
  const queueUrl = await sqs.createQueue("agent-runs");
  // Below the worker's package, so that its imports are found as those of /app/agents.js are; not in what pack.real.test.ts packs.
  const modules = join(ROOT, "packages", "worker", "node_modules");
  mkdirSync(modules, { recursive: true });
  const folder = mkdtempSync(join(modules, ".image-"));
  closers.push(() => rmSync(folder, { recursive: true, force: true }));
  const agents = join(folder, "agents.mjs");
  writeFileSync(agents, agentsModule);
  const shipped = ecsContainers().find(({ args }) => args[0] === "work")?.environment;
  const child = spawn(process.execPath, commandOf(agents), {
    cwd: ROOT,
    env: {
      PATH: process.env["PATH"] ?? "",
      ...shipped,
      DATABASE_URL: database.url,
      QUEUE_URL: queueUrl,
      SQS_ENDPOINT: sqs.endpoint,
      REPRISE_HEALTH_PORT: String(await freePort()),
      OTEL_SDK_DISABLED: "true",
      AWS_ACCESS_KEY_ID: "x",
      AWS_SECRET_ACCESS_KEY: "y",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  closers.push(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  const lines: Line[] = [];
  const waiting = new Set<() => void>();
  createInterface({ input: child.stdout }).on("line", (text) => {
    // pino writes JSON, and the module under test writes nothing.
    lines.push(JSON.parse(text) as Line);
    for (const look of [...waiting]) look();
  });
  const line = async (text: string): Promise<Line> => {
    for (;;) {
      const found = lines.find(({ msg }) => msg.startsWith(text));
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => {
        const look = (): void => {
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
      });
    }
  };
  return { child, exited, line };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, resolve));
  // A listening TCP server has one.
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe("the command of the image", () => {
  it("D01: SIGTERM to the process itself: the drain is logged within 1 s, and it ends with 0 of its own will", async () => {
    const { child, exited, line } = await start(AGENTS);
    await line("worker started");
    const sentAt = Date.now();
    child.kill("SIGTERM");
    const stopping = await line("stopping");
    // By the process's own clock, so that a slow reader of its output makes no difference.
    expect(stopping.time - sentAt).toBeLessThan(1_000);
    await line("worker stopped");
    expect(await exited).toEqual([0, null]);
  });

  it("D01: SIGTERM while it still starts ends it as well: as PID 1 nobody else would", async () => {
    const { child, exited } = await start(
      `process.kill(process.pid, "SIGTERM");\nawait new Promise((done) => setTimeout(done, 60_000));\n${AGENTS}`,
    );
    // Code 0 and no signal: a handler of ours ended it, not the default action that PID 1 does not have.
    expect(await exited).toEqual([0, null]);
    expect(child.exitCode).toBe(0);
  });
});

describe("the health check of the image", () => {
  async function check(port: number): Promise<number> {
    const child = spawn(process.execPath, [join(ROOT, "infra/docker/healthcheck.mjs"), String(port)], {
      stdio: "ignore",
    });
    const [code]: number[] = await once(child, "exit");
    return code ?? -1;
  }

  async function listening(server: Pick<Server, "listen" | "address">): Promise<number> {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
    // A listening TCP server has one.
    return (server.address() as AddressInfo).port;
  }

  it.each([
    [200, 0],
    [503, 1],
  ])("a worker that answers %i gives exit code %i", async (status, code) => {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(request.url ?? "");
      response.writeHead(status).end("{}");
    });
    closers.push(() => server.close());
    expect(await check(await listening(server))).toBe(code);
    expect(asked).toEqual(["/live"]);
  });

  it("a port where nobody listens, and one where nobody answers, give 1", async () => {
    expect(await check(await freePort())).toBe(1);
    const silent = createTcpServer((socket) => socket.on("error", () => {}));
    closers.push(() => silent.close());
    expect(await check(await listening(silent as unknown as Server))).toBe(1);
  });
});

it("C03: SQS takes the queue's attributes as they are, and keeps fifty receives", async () => {
  const sqs = await startSqs();
  closers.push(() => sqs.stop());
  await sqs.createQueue("agent-runs-dead", JSON.parse(readText("infra/ecs/queue-dead-attributes.json")));
  const attributes = JSON.parse(readText("infra/ecs/queue-attributes.json")) as Record<string, string>;
  await expect(sqs.createQueue("agent-runs", attributes)).resolves.toContain("/agent-runs");
});
