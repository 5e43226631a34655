// Which outside parts an environment names.

import { expect, it } from "vitest";
import { readEnvironment } from "../src/env.ts";

it("names nothing when nothing is set, and takes an empty variable for an unset one", () => {
  expect(readEnvironment({ DATABASE_URL: "", QUEUE_URL: "  " })).toEqual({});
});

it("names each outside part, ours before the SDK's own variable", () => {
  expect(
    readEnvironment({
      DATABASE_URL: "postgresql://h/d",
      QUEUE_URL: "http://q",
      SQS_ENDPOINT: "http://ours",
      AWS_ENDPOINT_URL_SQS: "http://sdk",
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://o",
      AWS_DEFAULT_REGION: "eu-central-1",
      AWS_PROFILE: "me",
    }),
  ).toEqual({
    databaseUrl: "postgresql://h/d",
    queueUrl: "http://q",
    sqsEndpoint: "http://ours",
    otlpEndpoint: "http://o",
    region: "eu-central-1",
    hasAwsCredentials: true,
  });
  expect(readEnvironment({ AWS_ENDPOINT_URL_SQS: "http://sdk" })).toEqual({ sqsEndpoint: "http://sdk" });
});
