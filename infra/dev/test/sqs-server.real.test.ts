// The endpoint over real HTTP and the AWS SDK: what only sockets can show - errors by name, resets, aborts, bounds, restarts.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ReceiveMessageCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type SqsServer, startSqs } from "../src/sqs-server.ts";

function clientOf(endpoint: string, maxAttempts = 1): SQSClient {
  const credentials = { accessKeyId: "local", secretAccessKey: "local" };
  return new SQSClient({ endpoint, region: "us-east-1", credentials, maxAttempts });
}

async function until(holds: () => boolean): Promise<void> {
  for (let round = 0; round < 500 && !holds(); round += 1) {
    await new Promise((resolve) => {
      setTimeout(resolve, 10);
    });
  }
  expect(holds()).toBe(true);
}

describe("the SQS server", () => {
  let server: SqsServer;
  let client: SQSClient;
  let url = "";

  beforeEach(async () => {
    server = await startSqs();
    client = clientOf(server.endpoint);
    url = await server.createQueue("q", { VisibilityTimeout: "30" });
  });

  afterEach(async () => {
    client.destroy();
    await server.stop();
  });

  const send = (body: string) => client.send(new SendMessageCommand({ QueueUrl: url, MessageBody: body }));
  const receive = async (waitSeconds = 0, by = client) => {
    const MessageSystemAttributeNames = ["All" as const];
    const command = new ReceiveMessageCommand({
      QueueUrl: url,
      WaitTimeSeconds: waitSeconds,
      MessageSystemAttributeNames,
    });
    return (await by.send(command)).Messages ?? [];
  };

  it("listens on loopback only and answers health", async () => {
    expect(server.endpoint).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(await (await fetch(`${server.endpoint}/health`)).json()).toEqual({ status: "ok", polls: 0 });
    expect((await fetch(`${server.endpoint}/nowhere`)).status).toBe(404);
  });

  it("creates queues from code and refuses as SQS does", async () => {
    expect(url).toBe(`${server.endpoint}/000000000000/q`);
    await expect(server.createQueue("q", { VisibilityTimeout: "31" })).rejects.toThrow(/QueueNameExists/);
  });

  it("lets a fault name the error the SDK throws", async () => {
    for (const code of ["ThrottlingException", "RequestThrottled"] as const) {
      server.faults.add({ kind: "throttle", operation: "SendMessage", code, remaining: 1 });
      await expect(send("x")).rejects.toMatchObject({ name: code });
    }
    server.faults.add({ kind: "error", operation: "ReceiveMessage", code: "KmsAccessDenied", remaining: 1 });
    await expect(receive()).rejects.toMatchObject({ name: "KmsAccessDenied" });
    server.faults.add({
      kind: "error",
      operation: "ReceiveMessage",
      code: "ServiceUnavailable",
      httpStatus: 503,
      remaining: 1,
    });
    await expect(receive()).rejects.toMatchObject({ $metadata: { httpStatusCode: 503 } });
  });

  it("resets the connection after the effect: a send whose reply was dropped is there, and a retry doubles it", async () => {
    server.faults.add({ kind: "drop_reply", operation: "SendMessage", remaining: 1 });
    await expect(send("once")).rejects.toMatchObject({ code: "ECONNRESET" });
    expect((await receive())[0]?.Body).toBe("once");
    server.faults.add({ kind: "drop_reply", operation: "SendMessage", remaining: 1 });
    const retrying = clientOf(server.endpoint, 3);
    await retrying.send(new SendMessageCommand({ QueueUrl: url, MessageBody: "twice" }));
    retrying.destroy();
    expect([(await receive())[0]?.Body, (await receive())[0]?.Body]).toEqual(["twice", "twice"]);
  });

  it("lets a swallowed poll take the next message, and only then", async () => {
    server.faults.add({ kind: "swallow_aborted_poll", remaining: 1 });
    for (const expected of [undefined, "1"]) {
      const poller = clientOf(server.endpoint);
      const polls = server.requests()["ReceiveMessage"] ?? 0;
      const polled = receive(20, poller).catch(() => []);
      await until(() => server.requests()["ReceiveMessage"] === polls + 1);
      poller.destroy();
      await polled;
      await send("x");
      expect((await receive())[0]?.Attributes?.ApproximateReceiveCount).toBe(expected);
    }
  });

  it("takes faults and tells its counters over HTTP", async () => {
    const faults = `${server.endpoint}/_faults`;
    const fault = { kind: "count_missing", queue: "q", remaining: 2 };
    const added = await fetch(faults, { method: "POST", body: JSON.stringify(fault) });
    expect(await added.json()).toEqual([fault]);
    await send("x");
    expect((await receive())[0]?.Attributes?.ApproximateReceiveCount).toBeUndefined();
    expect(await (await fetch(faults)).json()).toEqual([{ ...fault, remaining: 1 }]);
    const wrong = await fetch(faults, { method: "POST", body: '{"kind":"rain"}' });
    expect([wrong.status, await wrong.json()]).toMatchObject([400, { code: "SQS_FAULT_INVALID" }]);
    await fetch(faults, { method: "DELETE" });
    expect(server.faults.list()).toEqual([]);
    const requests = await (await fetch(`${server.endpoint}/_requests?queue=q`)).json();
    expect(requests).toEqual({ SendMessage: 1, ReceiveMessage: 1 });
  });

  it("refuses an oversized request with 413, counts it, and serves on", async () => {
    const headers = { "x-amz-target": "AmazonSQS.SendMessage" };
    const body = "x".repeat(9 * 1_048_576);
    expect((await fetch(server.endpoint, { method: "POST", headers, body })).status).toBe(413);
    expect(server.refusals()).toEqual({ request_bytes: 1 });
    await send("x");
  });

  it("ends waiting polls when it stops, at once and as often as asked", async () => {
    const polled = receive(20).catch(() => []);
    await until(() => server.requests()["ReceiveMessage"] === 1);
    const startedAt = Date.now();
    await Promise.all([server.stop(), server.stop()]);
    expect(Date.now() - startedAt).toBeLessThan(2_000);
    expect(await polled).toEqual([]);
  });

  it("says so when its port is taken", async () => {
    const port = Number(new URL(server.endpoint).port);
    await expect(startSqs({ port })).rejects.toMatchObject({ code: "SQS_LISTEN_FAILED" });
  });
});

describe("an SQS server with a journal", () => {
  it("goes on after a stop with the receive counts it had", async () => {
    const directory = mkdtempSync(join(tmpdir(), "sqs-server-"));
    const journalFile = join(directory, "sqs.jsonl");
    const seen: (string | undefined)[] = [];
    let now = Date.now();
    for (let life = 0; life < 3; life += 1) {
      const server = await startSqs({ journalFile, now: () => now });
      const client = clientOf(server.endpoint);
      const QueueUrl = await server.createQueue("q");
      if (life === 0) await client.send(new SendMessageCommand({ QueueUrl, MessageBody: "x" }));
      const command = new ReceiveMessageCommand({ QueueUrl, MessageSystemAttributeNames: ["All"] });
      seen.push((await client.send(command)).Messages?.[0]?.Attributes?.ApproximateReceiveCount);
      now += 30_000;
      client.destroy();
      await server.stop();
    }
    rmSync(directory, { recursive: true, force: true });
    expect(seen).toEqual(["1", "2", "3"]);
  });
});
