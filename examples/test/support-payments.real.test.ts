// The payment provider over real HTTP: keys honoured, its own log, misbehaviour on demand, and a life of its own.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { build } from "vite";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Payments, type PaymentsOptions, startPayments } from "../src/support/payments.ts";
import type { Charge } from "../src/support/payments-charge.ts";
import { connectPayments, type PaymentsControl } from "../src/support/payments-client.ts";
import { spawnPayments } from "../src/support/payments-process.ts";

const HEX_KEY = "0123456789abcdef0123456789abcdef";
const BODY = { customer: "cus_8123", amount: 4_900, currency: "eur", memo: "March" };

const open: { payments: Payments; folder: string | null }[] = [];

afterEach(async () => {
  for (const { payments, folder } of open.splice(0)) {
    await payments.close();
    if (folder !== null) await rm(folder, { recursive: true });
  }
});

async function start(
  options: PaymentsOptions = {},
  folder: string | null = null,
): Promise<{ readonly url: string; readonly control: PaymentsControl }> {
  const payments = await startPayments(options);
  open.push({ payments, folder });
  return { url: payments.url, control: connectPayments(payments.url) };
}

type Sent = { readonly status: number; readonly json: unknown; readonly headers: Headers };

async function post(url: string, key: string | null, body: unknown = BODY, signal?: AbortSignal): Promise<Sent> {
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (key !== null) headers["idempotency-key"] = key;
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const init: RequestInit = { method: "POST", headers, body: text, ...(signal === undefined ? {} : { signal }) };
  const response = await fetch(`${url}/v1/charges`, init);
  return { status: response.status, json: await response.json(), headers: response.headers };
}

async function get(url: string, path: string): Promise<Sent> {
  const response = await fetch(`${url}${path}`);
  return { status: response.status, json: await response.json(), headers: response.headers };
}

describe("keys", () => {
  it("replays the first answer for the same key and body, whatever the order of its fields", async () => {
    const { url, control } = await start();
    const first = await post(url, HEX_KEY);
    const { memo, ...rest } = BODY;
    const second = await post(url, HEX_KEY, { memo, ...rest });
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.json).toEqual(first.json);
    expect([first, second].map((sent) => sent.headers.get("idempotent-replayed"))).toEqual([null, "true"]);
    expect(await control.charges()).toHaveLength(1);
    const log = await control.requests();
    expect(log.map((entry) => [entry.outcome, entry.idempotencyKey])).toEqual([
      ["created", HEX_KEY],
      ["replayed", HEX_KEY],
    ]);
    expect(log.map((entry) => entry.id)).toEqual([first, second].map((sent) => sent.headers.get("request-id")));
    expect(new Set(log.map((entry) => entry.chargeId)).size).toBe(1);
  });

  it("charges twice for two keys, and twice for none", async () => {
    const { url, control } = await start();
    await post(url, "6f1d1e4c-0a53-4c0e-9b8f-0d2f6e1c9a77");
    await post(url, HEX_KEY);
    await post(url, null);
    await post(url, null);
    expect(await control.charges("cus_8123")).toHaveLength(4);
  });

  it("refuses the same key with another body, and a key that is too long, and charges nothing", async () => {
    const { url, control } = await start();
    await post(url, HEX_KEY);
    const other = await post(url, HEX_KEY, { ...BODY, amount: 1 });
    expect(other).toMatchObject({
      status: 400,
      json: { error: { type: "idempotency_error", code: "idempotency_key_reused" } },
    });
    expect(await post(url, "k".repeat(256))).toMatchObject({
      status: 400,
      json: { error: { code: "idempotency_key_invalid" } },
    });
    expect((await control.requests()).map((entry) => entry.outcome)).toEqual(["created", "mismatch", "rejected"]);
    expect(await control.charges()).toHaveLength(1);
  });

  it("answers 409 while the key's first request is being worked on, then replays", async () => {
    const { url, control } = await start();
    await control.arm({ kind: "delay", delayMs: 300 });
    const slow = post(url, HEX_KEY);
    // The log has no line of the slow request yet: the look-up shows when its key is taken.
    while ((await get(url, `/v1/charges/by-key/${HEX_KEY}`)).status !== 409) await sleep(5);
    const meanwhile = await post(url, HEX_KEY);
    expect(meanwhile).toMatchObject({ status: 409, json: { error: { code: "idempotency_key_in_use" } } });
    expect((await slow).status).toBe(201);
    expect((await post(url, HEX_KEY)).headers.get("idempotent-replayed")).toBe("true");
    expect(await control.charges()).toHaveLength(1);
  });

  it("makes one charge of 50 requests that come at once under one key", async () => {
    const { url, control } = await start();
    const sent = await Promise.all(Array.from({ length: 50 }, async () => await post(url, HEX_KEY)));
    expect(sent.every(({ status }) => status === 201)).toBe(true);
    expect(await control.charges()).toHaveLength(1);
    expect((await control.requests()).filter((entry) => entry.outcome === "created")).toHaveLength(1);
  });

  it("takes a key past its retention for a new request", async () => {
    const clock = { now: Date.parse("2026-01-01T00:00:00Z") };
    const { url, control } = await start({ now: () => clock.now, keyRetentionMs: 1_000 });
    await post(url, HEX_KEY);
    clock.now += 1_000;
    expect((await post(url, HEX_KEY)).headers.get("idempotent-replayed")).toBeNull();
    expect(await control.charges()).toHaveLength(2);
    expect((await control.requests())[1]?.at).toBe("2026-01-01T00:00:01.000Z");
  });

  it("leaves the key free when the body was refused", async () => {
    const { url } = await start();
    for (const body of ["{", "[]", { ...BODY, amount: -1 }, ""])
      expect((await post(url, HEX_KEY, body)).status).toBe(400);
    expect((await post(url, HEX_KEY)).status).toBe(201);
  });
});

describe("looking charges up", () => {
  it("finds one by key and by id, lists a customer's newest first, and says so when there is none", async () => {
    const { url, control } = await start();
    const made = [
      await post(url, HEX_KEY),
      await post(url, null),
      await post(url, null, { ...BODY, customer: "cus_2" }),
    ];
    const ids = made.map((sent) => (sent.json as Charge).id);
    expect((await get(url, `/v1/charges/by-key/${HEX_KEY}`)).json).toEqual(made[0]?.json);
    expect((await get(url, `/v1/charges/${ids[2]}`)).json).toEqual(made[2]?.json);
    expect((await get(url, "/v1/charges?customer=cus_8123&limit=1")).json).toMatchObject({
      has_more: true,
      data: [{ id: ids[1] }],
    });
    expect((await get(url, "/v1/charges/by-key/nobody")).status).toBe(404);
    expect((await get(url, "/v1/charges/ch_none")).status).toBe(404);
    const reads = await control.requests({ method: "GET" });
    expect(reads.map((entry) => entry.outcome)).toEqual(["read", "read", "read", "read", "read"]);
    expect(await control.requests({ method: "POST", customer: "cus_2" })).toHaveLength(1);
  });

  it("refuses other routes with their name and keeps no line of controls", async () => {
    const { url, control } = await start();
    expect((await get(url, "/nowhere")).json).toMatchObject({
      error: { message: expect.stringContaining("GET /nowhere") },
    });
    expect(await control.requests()).toEqual([]);
  });
});

describe("misbehaviour", () => {
  it("commits and then holds the reply until the client is gone; the same key then replays the charge", async () => {
    const committed: string[] = [];
    const { url, control } = await start({ onCommitted: (charge) => committed.push(charge.id) });
    await control.arm({ kind: "commit_then_stall", holdMs: null });
    const leaving = new AbortController();
    const stalled = post(url, HEX_KEY, BODY, leaving.signal).catch(() => "gone");
    const held = await control.nextHeld({ customer: "cus_8123" });
    expect(held).toMatchObject({ seq: 1, idempotencyKey: HEX_KEY, state: "holding", chargeId: committed[0] });
    expect(await control.requests()).toMatchObject([{ outcome: "created", reply: "held", chargeId: committed[0] }]);
    leaving.abort();
    expect(await stalled).toBe("gone");
    const again = await post(url, HEX_KEY);
    expect(again).toMatchObject({ status: 201, json: { id: committed[0] } });
    while ((await control.nextHeld()).state !== "client_gone") await sleep(5);
    expect(committed).toHaveLength(1);
  });

  it("holds for the time asked and then answers", async () => {
    const { url, control } = await start();
    await control.arm({ kind: "commit_then_stall", holdMs: 50 });
    const before = performance.now();
    expect((await post(url, HEX_KEY)).status).toBe(201);
    expect(performance.now() - before).toBeGreaterThanOrEqual(49);
    expect((await control.nextHeld()).state).toBe("released");
  });

  it("wakes a long poll that began before the charge, and only the one for that customer", async () => {
    const { url, control } = await start();
    const mine = control.nextHeld({ customer: "cus_8123", timeoutMs: 5_000 });
    const other = control.nextHeld({ customer: "cus_2", timeoutMs: 200 }).catch((thrown: unknown) => thrown);
    while ((await control.stats()).held.waiters < 2) await sleep(5);
    await control.arm({ kind: "commit_then_stall", holdMs: 0 });
    await post(url, HEX_KEY);
    expect(await mine).toMatchObject({ customer: "cus_8123" });
    expect(await other).toMatchObject({ code: "PAYMENTS_HELD_TIMEOUT" });
    expect((await control.stats()).held.waiters).toBe(0);
  });

  it("lets go of a long poll whose client is gone", async () => {
    const { url, control } = await start();
    const leaving = new AbortController();
    const poll = fetch(`${url}/held?timeout_ms=60000`, { signal: leaving.signal }).catch(() => null);
    while ((await control.stats()).held.waiters < 1) await sleep(5);
    leaving.abort();
    await poll;
    while ((await control.stats()).held.waiters > 0) await sleep(5);
  });

  it("commits and resets the connection; the same key replays", async () => {
    const { url, control } = await start();
    await control.arm({ kind: "commit_then_reset" });
    const error: unknown = await post(url, HEX_KEY).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ cause: { code: "ECONNRESET" } });
    expect((await post(url, HEX_KEY)).headers.get("idempotent-replayed")).toBe("true");
    expect((await control.requests()).map((entry) => [entry.outcome, entry.reply])).toEqual([
      ["created", "reset"],
      ["replayed", "sent"],
    ]);
  });

  it("answers 500 before the commit: nothing is charged and the key stays free", async () => {
    const { url, control } = await start();
    await control.arm({ kind: "answer_500", when: "before_commit" });
    expect((await post(url, HEX_KEY)).status).toBe(500);
    expect(await control.charges()).toEqual([]);
    const again = await post(url, HEX_KEY);
    expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([201, null]);
    expect((await control.requests()).map((entry) => entry.outcome)).toEqual(["errored", "created"]);
  });

  it("answers 500 after the commit: the log says created, and the same key replays the 201", async () => {
    const { url, control } = await start();
    await control.arm({ kind: "answer_500", when: "after_commit" });
    expect((await post(url, HEX_KEY)).status).toBe(500);
    expect(await control.requests()).toMatchObject([{ outcome: "created", status: 500 }]);
    expect(await post(url, HEX_KEY)).toMatchObject({ status: 201 });
    expect(await control.charges()).toHaveLength(1);
  });

  it("declines with 402 and replays the decline", async () => {
    const { url, control } = await start();
    await control.arm({ kind: "reject_402" });
    const first = await post(url, HEX_KEY);
    const second = await post(url, HEX_KEY);
    expect([first.status, second.status]).toEqual([402, 402]);
    expect(second.json).toEqual(first.json);
    expect(await control.charges()).toEqual([]);
  });

  it("meets a replayed request as well, when it is armed for more than one", async () => {
    const { url, control } = await start();
    await control.arm({ kind: "commit_then_reset", times: 2 });
    for (const _ of [1, 2]) await expect(post(url, HEX_KEY)).rejects.toThrow();
    expect((await post(url, HEX_KEY)).status).toBe(201);
    expect(await control.charges()).toHaveLength(1);
    expect((await control.requests()).map((entry) => entry.outcome)).toEqual(["created", "replayed", "replayed"]);
  });

  it("is called off by disarm, and refuses a fault that is none", async () => {
    const { url, control } = await start();
    await control.arm({ kind: "reject_402", customer: "cus_8123" });
    await control.disarm();
    expect((await post(url, HEX_KEY)).status).toBe(201);
    const response = await fetch(`${url}/faults`, { method: "POST", body: '{"kind":"explode"}' });
    expect([response.status, await response.text()]).toEqual([400, expect.stringContaining("commit_then_stall")]);
  });
});

describe("bounds", () => {
  it("drops the oldest log entries and counts them", async () => {
    const { url, control } = await start({ logEntriesMax: 2 });
    for (const key of ["a", "b", "c"]) await post(url, key);
    expect((await control.requests()).map((entry) => entry.idempotencyKey)).toEqual(["b", "c"]);
    expect((await control.stats()).log).toEqual({ written: 3, dropped: 1 });
  });

  it("refuses a charge past its book's bound with 503, charging nothing", async () => {
    const { url, control } = await start({ bookEntriesMax: 1 });
    await post(url, "a");
    expect((await post(url, "b")).status).toBe(503);
    expect((await post(url, "a")).headers.get("idempotent-replayed")).toBe("true");
    expect((await control.stats()).book).toEqual({ charges: 1, keys: 1, refusedFull: 1 });
  });

  it("refuses a body that is too large and lives on", async () => {
    const { url } = await start();
    expect((await post(url, HEX_KEY, "x".repeat(70_000))).status).toBe(413);
    expect((await post(url, HEX_KEY)).status).toBe(201);
  });

  it("closes with replies held and polls open", async () => {
    const payments = await startPayments();
    const control = connectPayments(payments.url);
    await control.arm({ kind: "commit_then_stall", holdMs: null });
    const stalled = post(payments.url, HEX_KEY).catch(() => "cut");
    await control.nextHeld();
    const poll = control.nextHeld({ after: 1 }).catch(() => "cut");
    await payments.close();
    expect([await stalled, await poll]).toEqual(["cut", "cut"]);
  });
});

describe("a process of its own", () => {
  let folder = "";
  let entry = "";

  beforeAll(async () => {
    // Node 20 runs no TypeScript: the program is bundled for the test, so that the test does not depend on a build.
    folder = await mkdtemp(join(tmpdir(), "payments-"));
    await build({
      configFile: false,
      logLevel: "silent",
      build: {
        ssr: join(import.meta.dirname, "../src/support/payments-main.ts"),
        outDir: folder,
        rollupOptions: { output: { entryFileNames: "payments-main.mjs" } },
      },
    });
    entry = join(folder, "payments-main.mjs");
  });

  afterAll(async () => {
    await rm(folder, { recursive: true });
  });

  it("prints its url, serves, and leaves a log on disk that its own death does not take away", async () => {
    const logFile = join(folder, "requests.jsonl");
    const provider = await spawnPayments({ entry, logFile });
    await post(provider.url, HEX_KEY);
    await post(provider.url, HEX_KEY);
    process.kill(provider.pid, "SIGKILL");
    const lines = (await readFile(logFile, "utf8")).trim().split("\n");
    expect(lines.map((line) => (JSON.parse(line) as { outcome: string }).outcome)).toEqual(["created", "replayed"]);
    await provider.stop();
  });

  it("sees within moments that a client was killed while its reply was held, and replays to the next one", async () => {
    const provider = await spawnPayments({ entry });
    const control = connectPayments(provider.url);
    await control.arm({ kind: "commit_then_stall", holdMs: null });
    const program = `await fetch(process.argv[1] + "/v1/charges", { method: "POST", body: process.argv[2],
      headers: { "idempotency-key": process.argv[3] } })`;
    const flags = ["--input-type=module", "-e", program, provider.url, JSON.stringify(BODY), HEX_KEY];
    const client = spawn(process.execPath, flags, { stdio: "ignore" });
    const held = await control.nextHeld();
    client.kill("SIGKILL");
    while ((await control.nextHeld()).state !== "client_gone") await sleep(5);
    expect(await post(provider.url, HEX_KEY)).toMatchObject({ status: 201, json: { id: held.chargeId } });
    expect(await control.charges()).toHaveLength(1);
    await provider.stop();
  });

  it("ends when its parent's end of the pipe does", async () => {
    const child = spawn(process.execPath, [entry, "--until-stdin-ends"], { stdio: ["pipe", "pipe", "inherit"] });
    await once(child.stdout, "data");
    child.stdin.end();
    expect(await once(child, "exit")).toEqual([0, null]);
  });

  it("stops on SIGTERM", async () => {
    const provider = await spawnPayments({ entry });
    await provider.stop();
    await expect(get(provider.url, "/stats")).rejects.toThrow();
  });

  it("says what went wrong when it does not start", async () => {
    const logFile = join(folder, "no", "such", "folder.jsonl");
    await expect(spawnPayments({ entry, logFile })).rejects.toMatchObject({
      code: "PAYMENTS_START_FAILED",
      message: expect.stringContaining("ENOENT"),
    });
  });
});
