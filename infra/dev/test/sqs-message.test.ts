// What goes into a message and what a receiver is shown of it.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkBody } from "../src/sqs-message.ts";
import { attributesMd5 } from "../src/sqs-message-attributes.ts";
import { endpointScene } from "./sqs-scene.ts";

describe("a message body", () => {
  it("may hold tab, line breaks and any printable text, emoji included", () => {
    expect(() => checkBody("a\tb\r\nc é 漢 🐙")).not.toThrow();
  });

  it("is refused for a character SQS does not take, wherever it stands", () => {
    const forbidden = fc.constantFrom("\u0000", "\u0008", "\u000b", "\u001f", "\ufffe", "\uffff");
    fc.assert(
      fc.property(fc.string(), forbidden, fc.string(), (before, character, after) => {
        expect(() => checkBody(before + character + after)).toThrow(/which SQS does not take/);
      }),
    );
  });
});

describe("message attributes", () => {
  it("digest does not depend on their order", () => {
    const a = { DataType: "String", StringValue: "1" };
    const b = { DataType: "Binary", BinaryValue: "AQID" };
    expect(attributesMd5({ a, b })).toBe(attributesMd5({ b, a }));
    expect(attributesMd5({})).toBeUndefined();
  });

  it("are at most ten: trace headers that do not fit must fail here as they do in production", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    const value = { DataType: "String", StringValue: "v" };
    const attributes = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`a${index}`, value]));
    const send = (count: number) =>
      scene.refusal("SendMessage", { QueueUrl: url, MessageBody: "x", MessageAttributes: attributes(count) });
    expect(await send(10)).toBe("none");
    expect(await send(11)).toBe("InvalidParameterValue");
  });

  it("are shown only when asked for, by name or by prefix, with the digest of what is shown", async () => {
    const scene = endpointScene();
    const url = await scene.queue("q", { VisibilityTimeout: "0" });
    const value = { DataType: "String", StringValue: "v" };
    await scene.send(url, "x", { MessageAttributes: { traceparent: value, "app.a": value, "app.b": value } });
    const shown = async (MessageAttributeNames: readonly string[]) => {
      const [message] = await scene.receive(url, { MessageAttributeNames, MessageSystemAttributeNames: [] });
      expect(message?.Attributes).toBeUndefined();
      expect(message?.MD5OfMessageAttributes).toBe(attributesMd5(message?.MessageAttributes ?? {}));
      return Object.keys(message?.MessageAttributes ?? {});
    };
    expect(await shown([])).toEqual([]);
    expect(await shown(["traceparent"])).toEqual(["traceparent"]);
    expect(await shown(["app.*"])).toEqual(["app.a", "app.b"]);
  });
});

describe("parameters", () => {
  it.each([
    ["SendMessage", { MessageBody: "" }, "MissingParameter"],
    ["SendMessage", { MessageBody: 3 }, "SerializationException"],
    ["SendMessage", { MessageBody: "x", DelaySeconds: 901 }, "InvalidParameterValue"],
    ["ReceiveMessage", { WaitTimeSeconds: 21 }, "InvalidParameterValue"],
    ["ReceiveMessage", { VisibilityTimeout: -1 }, "InvalidParameterValue"],
    ["ReceiveMessage", { MessageAttributeNames: [3] }, "SerializationException"],
    ["SendMessageBatch", { Entries: [] }, "EmptyBatchRequest"],
    ["SendMessageBatch", { Entries: [{ Id: "a b", MessageBody: "x" }] }, "InvalidBatchEntryId"],
    ["SetQueueAttributes", { Attributes: { VisibilityTimeout: "soon" } }, "InvalidAttributeValue"],
    ["SetQueueAttributes", { Attributes: { Colour: "red" } }, "InvalidAttributeName"],
    ["SetQueueAttributes", { Attributes: { RedrivePolicy: "{" } }, "InvalidParameterValue"],
  ])("%s %j is %s", async (operation, parameters, code) => {
    const scene = endpointScene();
    const url = await scene.queue("q");
    await scene.send(url, "untouched");
    expect(await scene.refusal(operation, { QueueUrl: url, ...parameters })).toBe(code);
    expect(await scene.counts(url)).toBe("1/0/0");
  });

  it("of a queue follow SQS: names, the .fifo ending, and no second queue with other values", async () => {
    const scene = endpointScene();
    expect(await scene.refusal("CreateQueue", { QueueName: "a b" })).toBe("InvalidParameterValue");
    expect(await scene.refusal("CreateQueue", { QueueName: "a.fifo" })).toBe("InvalidParameterValue");
    expect(await scene.refusal("CreateQueue", { QueueName: "a", Attributes: { FifoQueue: "true" } })).toBe(
      "InvalidParameterValue",
    );
  });
});
