// Proves the probes' HTTP side over real sockets: status codes, bodies, other paths and methods, a port that is taken.
import { afterEach, expect, it } from "vitest";
import type { Health } from "../src/health.ts";
import { type HealthServer, startHealthServer } from "../src/health-server.ts";

const servers: HealthServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

const PASS: Health = { status: "pass", reasons: [] };

async function serve(live: () => Health, ready: () => Promise<Health>): Promise<string> {
  const server = await startHealthServer({ port: 0, live, ready });
  servers.push(server);
  return `http://127.0.0.1:${server.port}`;
}

it("answers 200 and 503 by what was decided, with the reasons, and each path by its own decision", async () => {
  let draining = false;
  const url = await serve(
    () => PASS,
    async () => (draining ? { status: "fail", reasons: ["draining"] } : PASS),
  );
  const ready = await fetch(`${url}/ready?full=1`);
  expect(ready.status).toBe(200);
  expect(ready.headers.get("content-type")).toBe("application/json");
  expect(await ready.json()).toEqual(PASS);
  draining = true;
  const drained = await fetch(`${url}/ready`);
  expect(drained.status).toBe(503);
  expect(await drained.json()).toEqual({ status: "fail", reasons: ["draining"] });
  expect((await fetch(`${url}/live`)).status).toBe(200);
});

it("takes GET and HEAD, knows two paths, and says so", async () => {
  const url = await serve(
    () => PASS,
    async () => PASS,
  );
  expect((await fetch(`${url}/live`, { method: "HEAD" })).status).toBe(200);
  expect((await fetch(`${url}/live`, { method: "POST" })).status).toBe(405);
  const other = await fetch(`${url}/health`);
  expect(other.status).toBe(404);
  expect(await other.text()).toContain("/live and /ready");
});

it("a probe that fails itself is a failed probe, and the server lives on", async () => {
  const url = await serve(
    () => {
      throw new Error("broken");
    },
    async () => PASS,
  );
  const broken = await fetch(`${url}/live`);
  expect(broken.status).toBe(500);
  expect(await broken.text()).not.toContain("broken");
  expect((await fetch(`${url}/ready`)).status).toBe(200);
});

it("says which port is taken, and what to do", async () => {
  const url = await serve(
    () => PASS,
    async () => PASS,
  );
  const port = Number(new URL(url).port);
  const second = startHealthServer({ port, live: () => PASS, ready: async () => PASS });
  await expect(second).rejects.toMatchObject({ code: "HEALTH_PORT_UNAVAILABLE" });
  await expect(second).rejects.toThrow(`port ${port}`);
});
