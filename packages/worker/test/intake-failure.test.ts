// Proves the classes of failed receives, and that no draw makes a hot loop or a wait without an end.
import fc from "fast-check";
import { SQSError } from "sqs-consumer";
import { describe, expect, test } from "vitest";
import {
  classifyReceive,
  POLL_STUCK,
  RECEIVE_FAILURES,
  type ReceiveFailure,
  receiveBackoffMs,
} from "../src/intake-failure.ts";

const named = (name: string): Error => Object.assign(new Error(`${name} happened`), { name });
const coded = (code: string): Error => Object.assign(new Error(code), { code });

describe("classifyReceive", () => {
  const cases: readonly (readonly [ReceiveFailure, readonly string[]])[] = [
    [
      "auth",
      [
        "ExpiredToken",
        "ExpiredTokenException",
        "CredentialsError",
        "CredentialsProviderError",
        "TokenProviderError",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "SignatureDoesNotMatch",
        "InvalidSignatureException",
        "AccessDeniedException",
        "MissingAuthenticationTokenException",
        "InvalidSecurity",
      ],
    ],
    ["throttle", ["ThrottlingException", "RequestThrottled", "TooManyRequestsException", "KmsThrottled", "OverLimit"]],
    ["kms", ["KmsAccessDenied", "KmsDisabled", "KmsInvalidState", "KmsNotFound", "KmsOptInRequired"]],
    [
      "queue_gone",
      ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "QueueDeletedRecently", "InvalidAddress"],
    ],
    ["network", ["TimeoutError", "NetworkingError", "UnknownEndpoint"]],
    ["stuck", [POLL_STUCK]],
    ["other", ["InternalError", "ServiceUnavailable", "Error"]],
  ];
  test.each(cases.flatMap(([failure, names]) => names.map((name) => [name, failure] as const)))(
    "an error named %s is %s",
    (name, failure) => {
      expect(classifyReceive(named(name))).toBe(failure);
    },
  );

  test.each(["ECONNREFUSED", "ECONNRESET", "ENOTFOUND", "EAI_AGAIN", "ETIMEDOUT", "EPIPE"])(
    "a socket's %s is network, whatever class of error carries it",
    (code) => {
      expect(classifyReceive(coded(code))).toBe("network");
      expect(classifyReceive(Object.assign(new AggregateError([], "both addresses"), { code }))).toBe("network");
    },
  );

  test("what sqs-consumer wraps is found in its cause", () => {
    const wrapped = Object.assign(new SQSError("SQS receive message failed"), {
      code: "Error",
      cause: coded("ENOTFOUND"),
    });
    expect(classifyReceive(wrapped)).toBe("network");
  });

  test.each([
    [403, "auth"],
    [401, "auth"],
    [429, "throttle"],
    [500, "other"],
  ])("an error whose name says nothing is judged by its status %i: %s", (httpStatusCode, failure) => {
    expect(classifyReceive(Object.assign(new Error("?"), { $metadata: { httpStatusCode } }))).toBe(failure);
  });

  test("whatever is thrown has a class", () => {
    const loop: { cause?: unknown } = {};
    loop.cause = loop;
    expect(classifyReceive(loop)).toBe("other");
    fc.assert(fc.property(fc.anything(), (thrown) => RECEIVE_FAILURES.includes(classifyReceive(thrown))));
  });
});

describe("receiveBackoffMs", () => {
  const failure = fc.constantFrom(...RECEIVE_FAILURES);
  const random = fc.double({ min: 0, max: 1, noNaN: true });

  test("every wait is at least 100 ms and at most a minute, whatever is drawn", () => {
    fc.assert(
      fc.property(failure, fc.integer({ min: 1, max: 100_000 }), random, (kind, consecutive, drawn) => {
        const wait = receiveBackoffMs(kind, consecutive, drawn);
        expect(wait).toBeGreaterThanOrEqual(100);
        expect(wait).toBeLessThanOrEqual(60_000);
      }),
    );
  });

  test("the draw moves the wait over four fifths of its range: workers that failed together do not return together", () => {
    expect(receiveBackoffMs("auth", 3, 0)).toBe(1_600);
    expect(receiveBackoffMs("auth", 3, 0.5)).toBeCloseTo(4_800);
    expect(receiveBackoffMs("auth", 3, 1)).toBe(8_000);
  });

  test("ten minutes of auth failures are at most 60 receives for any sequence of draws (Q12)", () => {
    fc.assert(
      fc.property(fc.array(random, { minLength: 200, maxLength: 200 }), (drawn) => {
        let at = 0;
        let receives = 0;
        while (at < 600_000) {
          receives += 1;
          at += receiveBackoffMs("auth", receives, drawn[receives % drawn.length] ?? 0);
        }
        expect(receives).toBeLessThanOrEqual(60);
      }),
    );
  });

  test("each class has its own cap: what mends itself is asked for sooner than what a person must mend", () => {
    const caps = Object.fromEntries(RECEIVE_FAILURES.map((kind) => [kind, receiveBackoffMs(kind, 1_000, 1)]));
    expect(caps).toEqual({
      auth: 60_000,
      throttle: 30_000,
      network: 20_000,
      queue_gone: 60_000,
      kms: 60_000,
      stuck: 5_000,
      other: 30_000,
    });
  });
});
