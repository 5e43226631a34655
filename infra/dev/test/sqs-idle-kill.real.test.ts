// A worker killed while it waits in its long poll must not make the next message look redelivered.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { ReceiveMessageCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type SqsServer, startSqs } from "../src/sqs-server.ts";

// The worker is a process of its own, because only the death of a process closes a socket the way a kill does.
// It gets the SDK by path: a script given on the command line has no directory to resolve packages from.
const WORKER = `
const [sdk, endpoint, QueueUrl] = process.argv.slice(1);
const { SQSClient, ReceiveMessageCommand } = require(sdk);
const credentials = { accessKeyId: "local", secretAccessKey: "local" };
const client = new SQSClient({ endpoint, region: "us-east-1", credentials });
const poll = new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 20, MaxNumberOfMessages: 10 });
client.send(poll).then(() => process.exit(0), () => process.exit(1));
`;

const SDK = createRequire(import.meta.url).resolve("@aws-sdk/client-sqs");

describe("an idle worker killed with SIGKILL in its long poll", () => {
  let server: SqsServer;
  let client: SQSClient;
  const children = new Set<ChildProcess>();

  beforeEach(async () => {
    server = await startSqs();
    const credentials = { accessKeyId: "local", secretAccessKey: "local" };
    client = new SQSClient({ endpoint: server.endpoint, region: "us-east-1", credentials });
  });

  afterEach(async () => {
    for (const child of children) child.kill("SIGKILL");
    client.destroy();
    await server.stop();
  });

  /** Resolves once the worker's poll is waiting in the endpoint, so the kill below hits nothing else. */
  async function idleWorker(queueUrl: string): Promise<ChildProcess> {
    const polls = server.requests()["ReceiveMessage"] ?? 0;
    const args = ["--no-warnings", "-e", WORKER, SDK, server.endpoint, queueUrl];
    const child = spawn(process.execPath, args, { stdio: "ignore" });
    children.add(child);
    const deadline = Date.now() + 30_000;
    while ((server.requests()["ReceiveMessage"] ?? 0) === polls) {
      if (Date.now() > deadline || child.exitCode !== null) throw new Error("the worker never polled");
      await new Promise((resolve) => {
        setTimeout(resolve, 10);
      });
    }
    return child;
  }

  async function killThenSend(queueUrl: string, body: string) {
    const worker = await idleWorker(queueUrl);
    const exited = once(worker, "exit");
    worker.kill("SIGKILL");
    expect((await exited)[1]).toBe("SIGKILL");
    const sentAt = Date.now();
    await client.send(new SendMessageCommand({ QueueUrl: queueUrl, MessageBody: body }));
    const poll = { QueueUrl: queueUrl, WaitTimeSeconds: 3, MessageSystemAttributeNames: ["All" as const] };
    const [message] = (await client.send(new ReceiveMessageCommand(poll))).Messages ?? [];
    return {
      seen: message && `${message.Body}:${message.Attributes?.ApproximateReceiveCount}`,
      afterMs: Date.now() - sentAt,
    };
  }

  // The default visibility of 30 s: a swallowed message would not come back within this test.
  it.each([1, 2, 3])(
    "leaves the next message to a new consumer, at once and with count 1 (kill %i of 3)",
    async (kill) => {
      const queueUrl = await server.createQueue("idle");
      const { seen, afterMs } = await killThenSend(queueUrl, `m${kill}`);
      expect(seen).toBe(`m${kill}:1`);
      expect(afterMs).toBeLessThan(2_000);
    },
  );

  it("swallows it when the fault says so, as real SQS may: the check above can fail", async () => {
    const queueUrl = await server.createQueue("swallowed", { VisibilityTimeout: "1" });
    server.faults.add({ kind: "swallow_aborted_poll", remaining: 1 });
    expect((await killThenSend(queueUrl, "m")).seen).toBe("m:2");
  });
});
