// The conformance suite on our endpoint, or on the one named by SQS_CONFORMANCE_ENDPOINT (with AWS_* for region and keys).

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  runSqsConformance,
  type SqsConformanceResult,
  type SqsTarget,
  sqsConformance,
} from "../src/sqs-conformance.ts";
import { type SqsServer, startSqs } from "../src/sqs-server.ts";

describe("the SQS endpoint keeps the rules of SQS", () => {
  let server: SqsServer | undefined;
  let results: ReadonlyMap<string, Promise<SqsConformanceResult>> = new Map();

  beforeAll(async () => {
    const named = process.env["SQS_CONFORMANCE_ENDPOINT"];
    server = named === undefined || named === "" ? await startSqs() : undefined;
    const target: SqsTarget = {
      endpoint: server?.endpoint ?? named ?? "",
      region: process.env["AWS_REGION"] ?? "us-east-1",
      credentials: {
        accessKeyId: process.env["AWS_ACCESS_KEY_ID"] ?? "local",
        secretAccessKey: process.env["AWS_SECRET_ACCESS_KEY"] ?? "local",
        ...(process.env["AWS_SESSION_TOKEN"] && { sessionToken: process.env["AWS_SESSION_TOKEN"] }),
      },
    };
    // All of them start here; each test below only waits for its own.
    results = runSqsConformance(target);
  });

  afterAll(async () => {
    await Promise.all(results.values());
    await server?.stop();
  });

  it("is 49 behaviours with different names", () => {
    expect(sqsConformance).toHaveLength(49);
    expect(new Set(sqsConformance.map(({ name }) => name)).size).toBe(49);
  });

  for (const { name } of sqsConformance) {
    it(name, async () => {
      const result = await results.get(name);
      if (result?.kept === false) throw result.error;
      expect(result).toEqual({ kept: true });
    });
  }
});
