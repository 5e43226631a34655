// Proves the probes of a real worker: ready after the first receive, unready without its queue or database and ready again, draining.
import { createServer } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { expect, inject, it } from "vitest";
import { defineAgent } from "../src/agent.ts";
import { createPool } from "../src/pool.ts";
import { type Scene, scene } from "./scene.ts";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => a.concat(b), default: () => [] }) });
let release: () => void = () => {};
const held = new StateGraph(State)
  .addNode("one", async () => {
    await new Promise<void>((resolve) => {
      release = resolve;
    });
    return { log: ["one"] };
  })
  .addEdge(START, "one")
  .addEdge("one", END)
  .compile();
const agents = [defineAgent({ name: "held", graph: held, result: (state) => state })];

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, resolve));
  // A listening TCP server has one.
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

interface Probed {
  readonly status: number;
  readonly reasons: readonly string[];
}

async function probe(port: number, path: string): Promise<Probed> {
  const response = await fetch(`http://127.0.0.1:${port}/${path}`);
  // The body that health-server.ts writes.
  const { reasons } = (await response.json()) as { reasons: readonly string[] };
  return { status: response.status, reasons };
}

async function until(s: Scene, port: number, status: number): Promise<Probed> {
  return s.until(`/ready to answer ${status}`, async () => {
    const probed = await probe(port, "ready");
    return probed.status === status && probed;
  });
}

it("is ready after the first answered receive, says 503 while it drains, and is alive throughout", async () => {
  const port = await freePort();
  const s = await scene({ REPRISE_HEALTH_PORT: String(port), REPRISE_VISIBILITY_SECONDS: "30" });
  const worker = await s.start(agents);
  await until(s, port, 200);
  expect(await probe(port, "live")).toEqual({ status: 200, reasons: [] });
  await s.send({ agent: "held", runId: "r", input: { log: [] } });
  await s.until("the run to begin", async () => worker.active() === 1);
  const stopped = worker.stop();
  expect(await probe(port, "ready")).toEqual({ status: 503, reasons: ["draining"] });
  expect(await probe(port, "live")).toEqual({ status: 200, reasons: [] });
  release();
  await stopped;
  await expect(fetch(`http://127.0.0.1:${port}/live`)).rejects.toThrow();
});

it("Q12: is unready while SQS refuses, names the class, and is ready again by itself", async () => {
  const port = await freePort();
  const s = await scene({ REPRISE_HEALTH_PORT: String(port) });
  await s.start(agents);
  await until(s, port, 200);
  s.sqs.faults.add({ kind: "error", operation: "ReceiveMessage", code: "ExpiredToken", httpStatus: 400, remaining: 3 });
  const unready = await until(s, port, 503);
  expect(unready.reasons.join()).toMatch(/receives in a row failed, the last by auth/);
  expect((await probe(port, "live")).status).toBe(200);
  await until(s, port, 200);
});

/** A way to the database that can be cut: new connections are refused and open ones closed. */
async function cuttable(
  url: URL,
): Promise<{ readonly url: string; cut(): void; mend(): void; close(): Promise<void> }> {
  const sockets = new Set<Socket>();
  let open = true;
  const server: Server = createTcpServer((inward) => {
    if (!open) {
      inward.destroy();
      return;
    }
    const outward = connect(Number(url.port), url.hostname);
    for (const [socket, other] of [
      [inward, outward],
      [outward, inward],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const through = new URL(url);
  through.hostname = "127.0.0.1";
  // A listening TCP server has one.
  through.port = String((server.address() as AddressInfo).port);
  return {
    url: through.href,
    cut: () => {
      open = false;
      for (const socket of sockets) socket.destroy();
    },
    mend: () => {
      open = true;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

it("is unready while PostgreSQL is away, stays alive, and is ready again by itself", async () => {
  expect(inject("databaseUrl")).toMatch(/^postgres/);
  const port = await freePort();
  const s = await scene({ REPRISE_HEALTH_PORT: String(port) });
  const way = await cuttable(new URL(s.config.databaseUrl));
  const pool = createPool({ connectionString: way.url, max: 4, applicationName: "test", onError: () => {} });
  const worker = await s.start(agents, { pool });
  try {
    await until(s, port, 200);
    way.cut();
    const unready = await until(s, port, 503);
    expect(unready.reasons.join()).toMatch(/^database: /);
    expect((await probe(port, "live")).status).toBe(200);
    way.mend();
    await until(s, port, 200);
  } finally {
    await worker.stop();
    await pool.end();
    await way.close();
  }
});
